"""Documents as sentences of tokens, in flat arrays, with what the words are good for: where clauses may change places.

A text of a million tokens takes about 5 MB.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import islice

import numpy as np

from headway.data.batch import Ragged
from headway.data.tokenizer import Tokenizer, engine_errors

# What a token is: one that begins a word, and then of which kind.
WORD, BREAK, JOIN, LAST, CONTENT = 1, 2, 4, 8, 16
CONJUNCTIONS = frozenset(
    re.findall(
        r"\w+",
        "and but or nor so yet because although though unless until while whereas when whenever where wherever if "
        "since as that which who whose whom than before after then y o pero porque aunque cuando donde si como "
        "mientras que",
    )
)
_WORDS = re.compile(r"\w+(?:['’.\-]\w+)*|[^\w\s]+")
_TURN = 4096  # sentences that are encoded at once


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentence i has the tokens `tokens[i]` and their `marks[i]`; document d is those from documents[d] on."""

    tokens: Ragged
    marks: Ragged
    documents: np.ndarray

    @classmethod
    def read(cls, texts: Iterable[str], tokenizer: Tokenizer) -> "Sentences":
        """Every text is a document."""
        sizes: list[int] = []
        tokens, marks = [], []
        flow = _counted(texts, sizes)
        while turn := list(islice(flow, _TURN)):
            with engine_errors():
                found = tokenizer.engine.encode_batch(turn, add_special_tokens=False)
            tokens.append(Ragged.of([one.ids for one in found]))
            rows = [_marks(text, one.offsets) for text, one in zip(turn, found, strict=True)]
            marks.append(Ragged.of(rows, dtype=np.uint8))
        if not tokens:
            raise ValueError("there is no sentence in this text: give a file with words in it")
        return cls(Ragged.joined(tokens), Ragged.joined(marks), _bounds(sizes))

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def home(self) -> np.ndarray:
        """The document of each sentence."""
        return np.repeat(np.arange(len(self.documents) - 1), np.diff(self.documents))

    @cached_property
    def identity(self) -> np.ndarray:
        """A number for each sentence that two sentences share if they say the same."""
        digests = (
            blake2b(row.tobytes(), digest_size=8).digest() for row in map(self.tokens.__getitem__, range(len(self)))
        )
        return np.frombuffer(b"".join(digests), dtype=np.uint64)

    def split(self, held: float) -> tuple["Sentences", "Sentences"]:
        """The front, to learn from, and about the last `held` of the sentences, none of which is in the front.

        Cut between documents where there is a place near enough. A held-out sentence that the front has too is left
        out, and its document ends there: what stood apart does not become adjacent.
        """
        if not 0 < held < 1 or len(self) < 2:
            raise ValueError(f"a share of {held:g} cannot be held out of {len(self)} sentences: give more text")
        wanted = min(max(round(len(self) * (1 - held)), 1), len(self) - 1)
        near = (
            int(self.documents[1:-1][np.abs(self.documents[1:-1] - wanted).argmin()]) if len(self.documents) > 2 else 0
        )
        cut = near if near and abs(near - wanted) <= (len(self) - wanted) / 2 else wanted
        front, back = self._part(0, cut), self._part(cut, len(self))
        return front, back.without(front)

    def without(self, other: "Sentences") -> "Sentences":
        """Runs of sentences that the other text does not have, each run a document."""
        new = ~np.isin(self.identity, other.identity)
        if not new.any():
            raise ValueError("every held-out sentence is in the training text too: give more or other text")
        run = np.cumsum(~new) + self.home * (len(self) + 1)
        sizes = np.unique(run[new], return_counts=True)[1]
        return Sentences(self.tokens.where(new), self.marks.where(new), _bounds(sizes.tolist()))

    def _part(self, first: int, last: int) -> "Sentences":
        inside = self.documents[(self.documents > first) & (self.documents < last)] - first
        bounds = np.concatenate([[0], inside, [last - first]])
        return Sentences(self.tokens.between(first, last), self.marks.between(first, last), bounds)


def _bounds(sizes: Iterable[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(list(sizes))]).astype(np.int64)


def _counted(texts: Iterable[str], sizes: list[int]) -> Iterator[str]:
    """The sentences of all texts; `sizes` tells how many each text had, if any."""
    for text in texts:
        found = list(sentences(text))
        yield from found
        if found:
            sizes.append(len(found))


def _marks(text: str, offsets: list[tuple[int, int]]) -> np.ndarray:
    """The words are found in the text and not by the tokenizer, so that all kinds of tokenizers have the same ones."""
    words = list(_WORDS.finditer(text))
    if not words or not offsets:
        return np.zeros(len(offsets), dtype=np.uint8)
    ends = [word.end() for word in words]
    owner = np.searchsorted(ends, [start for start, _ in offsets], side="right").clip(max=len(words) - 1)
    begins = np.diff(owner, prepend=-1) != 0
    return np.where(begins, np.array([_kind(word[0]) for word in words], dtype=np.uint8)[owner], 0).astype(np.uint8)


def _kind(word: str) -> int:
    if not word[0].isalnum():
        return WORD | (LAST if word[0] in ".!?…" else BREAK if word[0] in ",;:—–-" else 0)
    if word.lower() in CONJUNCTIONS:
        return WORD | JOIN
    return WORD | (CONTENT if len(word) > 2 and word[0].isalpha() else 0)


ABBREVIATIONS = frozenset(
    f"{word}."
    for word in re.findall(
        r"\S+",
        "e.g i.e cf vs etc mr mrs ms dr prof vol fig figs eq sec ch p pp ed eds al approx dept inc ltd jr sr a.m p.m "
        "u.s sra ud uds ej",
    )
)
_BLANK = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_RULE = re.compile(r"^[ \t]*([=\-~^*#_+.`])\1{2,}[ \t]*$", re.MULTILINE)  # under headings, between parts
_ITEM = re.compile(r"\n(?=[ \t]*(?:[*+•·-]|#{1,6}|\d{1,3}[.)])[ \t]+\S)")
_END = re.compile(r"[.!?…]+[\"'”’»)\]]*\s+|[。！？]+[」』”]*\s*")
_OPENING = "\"'“‘«([¿¡*`_"


def sentences(text: str) -> Iterator[str]:
    """The sentences of one document, white space made single.

    >>> list(sentences("Of cats\\n=======\\n\\nThey sleep, e.g. at\\nnoon. Why? Dr. Who knows."))
    ['Of cats', 'They sleep, e.g. at noon.', 'Why?', 'Dr. Who knows.']
    """
    for paragraph in paragraphs(text):
        yield from _pieces(paragraph)


def paragraphs(text: str) -> Iterator[str]:
    """Blocks between blank lines and rules; each item of a list is one."""
    for block in _BLANK.split(_RULE.sub("\n", text.replace("\r\n", "\n"))):
        for part in _ITEM.split(block):
            if found := " ".join(part.split()):
                yield found


def _pieces(paragraph: str) -> Iterator[str]:
    start = 0
    for match in _END.finditer(paragraph):
        if _ends(paragraph, start, match):
            yield from _worth(paragraph[start : match.end()])
            start = match.end()
    yield from _worth(paragraph[start:])


def _ends(paragraph: str, start: int, match: re.Match[str]) -> bool:
    following = paragraph[match.end() :].lstrip(_OPENING)[:1] if match.end() < len(paragraph) else ""
    if match[0][0] in "。！？":
        return True
    if following and not (following.isupper() or following.isdigit() or paragraph[match.end()] in _OPENING):
        return False
    last = paragraph[start : match.start() + 1].rpartition(" ")[2].lstrip(_OPENING)
    initial = len(last) == 2 and last[0].isupper() and last[0] not in "IAOYE"
    return not (match[0][0] == "." and (last.lower() in ABBREVIATIONS or initial))


def _worth(piece: str) -> Iterator[str]:
    """Rows of signs are no sentences."""
    if any(letter.isalpha() for letter in piece):
        yield piece.strip()
