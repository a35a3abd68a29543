"""Documents in stretches of lines that are tokenised by themselves."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SMALLEST, LARGEST, SHARE = 256, 4096, 64  # characters of a chunk, and how many make up a small text at least


@dataclass(frozen=True)
class Document:
    """A document, or a part of one: `ends` says whether it ends here. `where` is how a sentence calls its place."""

    where: str
    text: str
    ends: bool = True


@dataclass(frozen=True)
class Chunk:
    """Some lines of a document."""

    text: str
    starts: bool
    ends: bool


def chunks_of(documents: Iterable[Document]) -> Iterator[Chunk]:
    """Documents in stretches of some thousand characters; of a small text they are smaller, so that it can be split.

    A stretch is tokenised by itself. It ends after the end of a line, with letters on both sides if one can be had: no
    tokenizer in use joins such an end with the letter behind it, so the tokens are those of the whole (but one that
    writes a space before every text, as SentencePiece does, writes it here too).
    """
    seen, starts, left = 0, True, ""
    for piece in documents:
        text = left + piece.text
        at = 0
        # While more may come, enough is left to look for a good cut: cuts do not depend on how pieces were cut.
        while len(text) - at > (size := min(max(seen // SHARE, SMALLEST), LARGEST)) * (1 if piece.ends else 2):
            stop = _cut(text, at, at + size)
            yield Chunk(text[at:stop], starts, ends=False)
            seen, at, starts = seen + stop - at, stop, False
        left = text[at:]
        if piece.ends and (left or not starts):
            yield Chunk(left, starts, ends=True)
            seen += len(left)
        if piece.ends:
            starts, left = True, ""
    assert not left, "the last piece of a document says that it ends"


# From best to worst: a lone line's end, one before a letter, any, and a space (which begins the next stretch).
_ENDS = tuple(re.compile(pattern) for pattern in (r"(?<=\S)\n(?=\S)", r"\n(?=\S)", r"\n", r"(?= )"))


def _cut(text: str, start: int, about: int) -> int:
    """Where to cut near `about`, at most twice as far from the start; anywhere, in a text without spaces."""
    for pattern in _ENDS:
        if found := pattern.search(text, about, 2 * about - start):
            return found.end()
    return about
