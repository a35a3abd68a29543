"""Parts of a text and what a model says of them: named entities by a classifier of tokens, answers to a question."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

LONGEST = 30  # tokens of an answer
MOST = 20  # answers that are kept, the most probable first
OUTSIDE = "O"  # the label of a word that is no part of anything
ANSWER, NO_ANSWER = "answer", "no answer"
# B-X begins an X and I-X goes on with it; with E or L it ends, S and U are one word (Ratinov and Roth 2009, W09-1119).
_TAG = re.compile("([BIELSU])-(.+)")
_BEGINS = "BSU"


class Span(NamedTuple):
    """A part of a text, from character `start` to the one before `end`, with its label."""

    text: str
    label: str
    probability: float
    start: int
    end: int


class _Word(NamedTuple):
    """A word of a text: where it stands, and the most probable class of its first token."""

    label: str
    probability: float
    start: int
    end: int


def entities(text: str, encoding: Any, logits: Float[Tensor, "L C"], name: Callable[[int], str]) -> list[Span]:
    """The parts of a text that have a label, in their order.

    A word has the class of its first token, as models are trained; words of one entity are joined by their B- and I-
    labels, and the probability is the mean of theirs. A label without such a prefix is one word's own.
    """
    groups: list[list[_Word]] = []
    last: _Word | None = None
    for word in _words(encoding, logits.softmax(-1), name):
        if word.label == OUTSIDE:
            last = None
            continue
        if last is not None and _goes_on(word, last):
            groups[-1].append(word)
        else:
            groups.append([word])
        last = word
    return [_joined(text, words) for words in groups]


def _words(encoding: Any, probabilities: Float[Tensor, "L C"], name: Callable[[int], str]) -> Iterator[_Word]:
    best = probabilities.max(-1)
    places: dict[int, list[int]] = {}
    for token, word in enumerate(encoding.word_ids):
        if word is not None:
            places.setdefault(word, []).append(token)
    for tokens in places.values():
        first = tokens[0]
        start, end = encoding.offsets[first][0], encoding.offsets[tokens[-1]][1]
        if start < end:
            yield _Word(name(int(best.indices[first])), float(best.values[first]), start, end)


def _kind(label: str) -> tuple[str, str]:
    """How a label stands to the one before, and what it is of; "" where it has no prefix."""
    found = _TAG.fullmatch(label)
    return ("", label) if found is None else (found[1], found[2])


def _goes_on(word: _Word, last: _Word) -> bool:
    (how, what), (before, same) = _kind(word.label), _kind(last.label)
    return how != "" and how not in _BEGINS and before != "" and same == what


def _joined(text: str, words: Sequence[_Word]) -> Span:
    mean = sum(word.probability for word in words) / len(words)
    return _cut(text, _kind(words[0].label)[1], mean, words[0].start, words[-1].end)


def _cut(text: str, label: str, probability: float, start: int, end: int) -> Span:
    """Without the space that some tokenizers count to a word."""
    inner = text[start:end]
    start += len(inner) - len(inner.lstrip())
    return Span(inner.strip(), label, probability, start, start + len(inner.strip()))


def answers(context: str, encoding: Any, logits: Float[Tensor, "L 2"]) -> list[Span]:
    """Where the context answers the question, the most probable first (BERT, arXiv:1810.04805, section 4.3).

        p(i, j) ∝ exp(begin_i + end_j)        i <= j < i + LONGEST, in the context

    The first token stands for "no answer": it is a candidate with an empty text.
    """
    inside = torch.tensor([number == 1 for number in encoding.sequence_ids], dtype=torch.bool)
    begin, end = logits.double().unbind(-1)
    places = torch.arange(len(begin))
    apart = places[None] - places[:, None]
    allowed = inside[:, None] & inside[None] & (apart >= 0) & (apart < LONGEST)
    allowed[0, 0] = True
    scores = (begin[:, None] + end[None]).masked_fill(~allowed, -torch.inf)
    best = scores.flatten().softmax(-1).topk(min(MOST, int(allowed.sum())))
    found = []
    for probability, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        first, last = divmod(place, len(begin))
        if not inside[first]:
            found.append(Span("", NO_ANSWER, probability, 0, 0))
            continue
        start, stop = encoding.offsets[first][0], encoding.offsets[last][1]
        found.append(_cut(context, ANSWER, probability, start, stop))
    return found
