"""Texts that say nearly the same, so that none of them is held out while another is trained on."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

LEAST = 0.7  # the share of words that two texts have in common, of all words of both


def words(text: str) -> frozenset[str]:
    """The words of a text, without signs and capitals; where there are no words, the text itself.

    >>> sorted(words("YAY! Another good one"))
    ['another', 'good', 'one', 'yay']
    """
    return frozenset(re.findall(r"\w+", text.lower())) or frozenset([text.strip()])


def pairs(texts: Sequence[str], least: float = LEAST) -> Iterator[tuple[int, int]]:
    """Every two texts with |a ∩ b| / |a ∪ b| >= least (Jaccard), the earlier one first.

    Two such texts share at least one of their rarest words: of a's n words the ⌊n (1 - least)⌋ + 1 rarest, and so of
    b's. Only texts that do are compared, and whose numbers of words allow it.
    """
    found = [words(text) for text in texts]
    frequency = Counter(word for text in found for word in text)
    seen: dict[tuple[str, int], list[int]] = defaultdict(list)
    for b, text in enumerate(found):
        size = len(text)
        rare = sorted(text, key=lambda word: (frequency[word], word))[: int(size * (1 - least)) + 1]
        near = range(int(size * least), int(size / least) + 2)
        for a in sorted({a for word in rare for other in near for a in seen.get((word, other), ())}):
            if (shared := len(found[a] & text)) >= least * (len(found[a]) + size - shared):
                yield a, b
        for word in rare:
            seen[word, size].append(b)


def groups(texts: Sequence[str], own: Sequence[str]) -> list[str]:
    """The name of each text's group: texts of one `own` name belong together, and those that are alike, and so on."""
    above: dict[str, str] = {name: name for name in own}

    def top(name: str) -> str:
        while above[name] != name:
            above[name] = name = above[above[name]]
        return name

    for a, b in pairs(texts):
        first, second = sorted((top(own[a]), top(own[b])))
        above[second] = first
    return [top(name) for name in own]
