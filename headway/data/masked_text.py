"""What a masked-word model learns from sentences: hidden words, and three questions about two sentences.

words      15 % of the words of one or two stretches of text are hidden (data/hide.py)
adjacent   0: the second sentence is the next one; 1: it is another of the same document, not a neighbour
inverted   1: it is the first in another order; 0: a different sentence with the same words (data/invert.py)
inference  labelled pairs from a file

All that is random is drawn from a row's key. Negatives of `adjacent` are the next sentences of other places of the same
document, by a cyclic shift: each sentence is the second one equally often under both answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from headway.config.base import IGNORED
from headway.config.train import OBJECTIVES
from headway.data import invert
from headway.data.batch import Batch, kept, padded
from headway.data.labelled import Labelled
from headway.data.sentences import CONTENT, WORD, Sentences
from headway.data.tokenizer import Tokenizer

TRIES = 50  # at sentences, until one of them can be inverted
Row = tuple[np.ndarray, np.ndarray, int]  # tokens, the sentence of each (0 or 1), label


class MaskedText:
    """Examples over sentences; which objective a row has is drawn by the weights."""

    def __init__(
        self,
        sentences: Sentences | None,
        tokenizer: Tokenizer,
        *,
        length: int,
        weights: Mapping[str, float],
        pairs: Labelled | None = None,
        span: int = 1,
    ) -> None:
        """`span` sentences stand on each side of the question whether two stretches of text are adjacent."""
        self.weights = {name: weights[name] for name in OBJECTIVES if name in weights}
        _check(self.weights, sentences, pairs)
        self._given = sentences, tokenizer, length, pairs, span
        self._names = list(self.weights)
        self._share = np.cumsum(list(self.weights.values())) / sum(self.weights.values())
        self._frame, self._hide = (
            BertFormat.of(tokenizer, length),
            MlmMask.of(tokenizer) if "words" in self.weights else None,
        )
        self._sentences, self._pairs, self._span = sentences, pairs, span
        makers: dict[str, Callable[[int, np.random.Generator], Row | None]]
        makers = {"words": self._words, "adjacent": self._adjacent, "inverted": self._inverted, "inference": self._pair}
        self._make = {name: makers[name] for name in self._names}
        self._pools = {name: self._pool(name) for name in self._names}

    def only(self, objective: str) -> "MaskedText":
        """The same text with one objective; with a question about sentences, no words are hidden."""
        sentences, tokenizer, length, pairs, span = self._given
        return MaskedText(sentences, tokenizer, length=length, weights={objective: 1.0}, pairs=pairs, span=span)

    def __len__(self) -> int:
        """Rows that the first objective can begin with: every sentence, where words are hidden."""
        return max(len(pool) for pool in self._pools.values())

    @property
    def sizes(self) -> np.ndarray | None:
        return None

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        made = [self._example(int(row), int(key)) for row, key in zip(rows, keys, strict=True)]
        tokens, types, words, kinds, labels = zip(*made, strict=True)
        inputs = {
            "tokens": padded(tokens, self._frame.pad), "keep": kept(tokens), "types": padded(types, 0),
            "words": padded(words, IGNORED), "kind": torch.tensor(kinds), "label": torch.tensor(labels),
        }  # fmt: skip
        asked = {name: kinds.count(OBJECTIVES.index(name)) for name in self._names}
        if "words" in asked:
            asked["words"] = int((inputs["words"] != IGNORED).sum())
        return Batch(inputs, asked)

    def _example(self, row: int, key: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, int]:
        rng = np.random.default_rng(key)
        name = self._names[int(np.searchsorted(self._share, rng.random(), side="right").clip(max=len(self._share) - 1))]
        tokens, types, label = self._row(name, row, rng)
        words = np.full(len(tokens), IGNORED, dtype=np.int64)
        if self._hide is not None:
            tokens, words = self._hide(tokens, rng)
        return tokens, types, words, OBJECTIVES.index(name), label

    def _row(self, name: str, row: int, rng: np.random.Generator) -> Row:
        """Where a row's own sentence is not fit for its objective, another one is drawn."""
        pool = self._pools[name]
        at = int(pool[row]) if len(pool) == len(self) else int(pool[rng.integers(0, len(pool))])
        for _ in range(TRIES):
            if (made := self._make[name](at, rng)) is not None:
                return made
            at = int(pool[rng.integers(0, len(pool))])
        raise ValueError(
            f"no sentence fit for the objective {name!r} in {TRIES} tries: give more text, or leave it out"
        )

    def _pool(self, name: str) -> np.ndarray:
        """The numbers of the sentences (or pairs) with which an objective can begin."""
        if name == "inference":
            assert self._pairs is not None
            return np.arange(len(self._pairs))
        assert self._sentences is not None
        text = self._sentences
        fit = np.ones(len(text), dtype=bool)
        if name == "adjacent":
            size = np.diff(text.documents)[text.home]
            fit = (size >= 2 * self._span + 3) & (np.arange(len(text)) + 1 < text.documents[text.home + 1])
            fit[:-1] &= text.identity[1:] != text.identity[:-1]
        if name == "inverted":
            fit = (2 * text.tokens.lengths + 3 <= self._frame.length) & (_number(text, WORD) >= 2 * invert.SHORTEST + 2)
            fit &= _number(text, CONTENT) >= 4
        if not fit.any():
            raise ValueError(f"the text has no sentence fit for the objective {name!r}: {_NEEDS[name]}")
        return np.flatnonzero(fit)

    def _words(self, at: int, rng: np.random.Generator) -> Row:
        """A stretch of text from this sentence on, now and then in two parts."""
        assert self._sentences is not None
        text, room = self._sentences, self._frame.length - 3
        starts = text.tokens.starts[at : text.documents[text.home[at] + 1] + 1]
        ends = starts[1:][starts[1:] - starts[0] < room]
        if len(ends) and len(starts) > 2 and rng.random() < 0.5:
            middle, flat = int(rng.choice(ends[: len(starts) - 2])), text.tokens.flat
            last = min(int(starts[-1]), int(starts[0]) + room)
            return *self._frame.join(flat[starts[0] : middle], flat[middle:last]), IGNORED
        return *self._frame.join(text.tokens.flat[starts[0] : starts[-1]]), IGNORED

    def _adjacent(self, at: int, rng: np.random.Generator) -> Row | None:
        assert self._sentences is not None
        text, label, span = self._sentences, int(rng.integers(0, 2)), self._span
        first, last = (int(bound) for bound in text.documents[text.home[at] : text.home[at] + 2])
        places, following = last - first - 1, at + 1  # places that have a next sentence
        if label:
            following = first + (at - first + int(rng.integers(1, places - 2 * span))) % places + 1
            if text.identity[following] in text.identity[[at, at + 1]]:
                return None
        before = text.tokens.between(max(first, at + 1 - span), at + 1).flat
        return *self._frame.join(before, text.tokens.between(following, min(last, following + span)).flat), label

    def _inverted(self, at: int, rng: np.random.Generator) -> Row | None:
        assert self._sentences is not None
        made = invert.pair(invert.Words.of(self._sentences.tokens[at], self._sentences.marks[at]), rng)
        return None if made is None else (*self._frame.join(np.array(made[0]), np.array(made[1])), made[2])

    def _pair(self, at: int, rng: np.random.Generator) -> Row:
        assert self._pairs is not None
        return self._pairs.row(at)


_NEEDS = {
    "words": "it is empty",
    "adjacent": "it needs documents of at least five sentences",
    "inverted": "it needs sentences of at least six words that fit twice into the length",
}


def _number(text: Sentences, mark: int) -> np.ndarray:
    """How many words of this kind each sentence has."""
    total = np.concatenate([[0], np.cumsum((text.marks.flat & mark) > 0)])
    return total[text.marks.starts[1:]] - total[text.marks.starts[:-1]]


def _check(weights: Mapping[str, float], sentences: Sentences | None, pairs: Labelled | None) -> None:
    if not weights:
        raise ValueError(f"no objective is asked for: name at least one of {', '.join(OBJECTIVES)}")
    if "inference" in weights and pairs is None:
        raise ValueError("the objective 'inference' learns from labelled pairs: give a file of them (data.pairs)")
    if sentences is None and set(weights) != {"inference"}:
        raise ValueError("words, adjacent and inverted learn from plain text, and none was given")


@dataclass(frozen=True)
class BertFormat:
    """[CLS] first [SEP] second [SEP], of at most `length` tokens."""

    begin: int
    end: int
    pad: int
    length: int

    @classmethod
    def of(cls, tokenizer: Tokenizer, length: int) -> "BertFormat":
        begin, end = tokenizer.begin, tokenizer.end
        if begin is None or end is None:
            raise ValueError("this tokenizer has no tokens to frame sentences with: it needs [CLS] and [SEP]")
        if length < 8:
            raise ValueError(f"a length of {length} leaves no room for two sentences: at least 8 are needed")
        return cls(begin, end, 0 if tokenizer.pad is None else tokenizer.pad, length)

    def join(self, first: np.ndarray, second: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and types. What is too long loses where it matters least: the first its beginning, the second its end.

        >>> BertFormat(begin=1, end=2, pad=0, length=8).join(np.array([3, 4, 5]), np.array([6, 7, 8, 9]))[0].tolist()
        [1, 3, 4, 5, 2, 6, 7, 2]
        """
        if second is None:
            tokens = np.concatenate([[self.begin], first[: self.length - 2], [self.end]])
            return tokens.astype(np.int64), np.zeros(len(tokens), dtype=np.int64)
        room = self.length - 3
        mine = min(len(first), max(room - len(second), (room + 1) // 2))
        second = second[: room - mine]
        parts = ([self.begin], first[len(first) - mine :], [self.end], second, [self.end])
        types = np.repeat([0, 1], [mine + 2, len(second) + 1])
        return np.concatenate(parts).astype(np.int64), types


SHARE, MASKED, RANDOM = 0.15, 0.8, 0.1


@dataclass(frozen=True, eq=False)
class MlmMask:
    """Which token hides a word, and which tokens are words."""

    mask: int
    words: np.ndarray
    is_word: np.ndarray

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "MlmMask":
        added = tokenizer.engine.get_added_tokens_decoder()
        special = {number for number, token in added.items() if token.special}
        mask, others = tokenizer.mask, (tokenizer.begin, tokenizer.end, tokenizer.pad)
        if mask is None:
            raise ValueError("this tokenizer has no token to hide words with: it needs a mask token, such as [MASK]")
        is_word = np.ones(tokenizer.size, dtype=bool)
        is_word[[*special, mask, *(number for number in others if number is not None)]] = False
        return cls(mask, np.flatnonzero(is_word), is_word)

    def __call__(self, tokens: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The tokens with some words hidden, and what stood there (elsewhere a target that no loss looks at)."""
        places = np.flatnonzero(self.is_word[tokens])
        # A share of a word more or less, so that the mean is exact; at least one, or the row would teach nothing.
        count = min(max(1, int(SHARE * len(places) + rng.random())), len(places))
        chosen = rng.permutation(places)[:count]
        fate, other = rng.random(count), self.words[rng.integers(0, len(self.words), count)]
        targets = np.full(len(tokens), IGNORED, dtype=np.int64)
        targets[chosen] = tokens[chosen]
        shown = np.where(fate < MASKED, self.mask, np.where(fate < MASKED + RANDOM, other, tokens[chosen]))
        hidden = tokens.copy()
        hidden[chosen] = shown
        return hidden, targets
