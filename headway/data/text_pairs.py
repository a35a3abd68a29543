"""Pairs of texts, tokenised once: a source and its target, or two texts that mean the same.

A sequence-to-sequence model reads the source and writes the target:

source   x_1 … x_m end
target   start y_1 … y_l             what the decoder reads
targets  y_1 … y_l end               what it is to say at each place

A sentence encoder learns from texts that mean the same, with the rest of a batch as negatives.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from headway.config.text import Special
from headway.config.train import DataConfig
from headway.data.batch import IGNORED, Batch, Ragged, kept, padded
from headway.data.source import records
from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_training import literal

TOGETHER = 4096  # pairs that are tokenised in one go


def seq2seq_special_tokens(tokenizer: Tokenizer) -> Special:
    """The special tokens of a new model with this tokenizer; one without a token for the start starts with padding."""
    if tokenizer.end is None or tokenizer.pad is None:
        raise ValueError("a tokenizer for pairs has a token for the end and one for padding, and this one has not")
    start = tokenizer.pad if tokenizer.begin is None else tokenizer.begin
    return Special(begin=tokenizer.begin, end=(tokenizer.end,), pad=tokenizer.pad, start=start)


def pairs_of(data: DataConfig, places: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(where, source, target) of every row of the places."""
    for one in records(places, columns={"source": data.source, "target": data.target}, format=data.format):
        yield one.where, one.fields["source"], one.fields["target"]


class Seq2SeqPairs:
    """Tokens of sources and targets, each row with its end; a batch is padded on the right to its longest rows."""

    def __init__(self, source: Ragged, target: Ragged, *, start: int, pad: int) -> None:
        assert len(source) == len(target)
        self.source, self.target, self.start, self.pad = source, target, start, pad

    @classmethod
    def of(
        cls,
        records: Iterable[tuple[str, str, str]],
        tokenizer: Tokenizer,
        special: Special,
        *,
        length: int,
        cut: bool = False,
    ) -> "Seq2SeqPairs":
        """Of (where, source, target). A text of more than `length` tokens, its end included, is refused or cut."""
        if special.start is None or special.pad is None or not special.end:
            raise ValueError("a model that is trained on pairs has tokens for start, end and padding (config.special)")
        # Whoever writes "<|end|>" in a text means these letters.
        engine, left = literal(tokenizer), iter(records)
        parts: list[list[Ragged]] = []
        while some := list(islice(left, TOGETHER)):
            places = [where for where, _, _ in some]
            texts = {"source": [text for _, text, _ in some], "target": [text for _, _, text in some]}
            rows = {name: _rows(places, side, name, engine, special.end) for name, side in texts.items()}
            parts.append([_fit(places, side, name, length, cut) for name, side in rows.items()])
        if not parts:
            raise ValueError("there are no pairs in the data: it needs rows with a source and a target")
        source, target = (Ragged.joined(side) for side in zip(*parts, strict=True))
        return cls(source, target, start=special.start, pad=special.pad)

    def __len__(self) -> int:
        return len(self.source)

    @property
    def sizes(self) -> np.ndarray:
        return self.source.lengths + self.target.lengths

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        sources, said = ([side[row] for row in rows.tolist()] for side in (self.source, self.target))
        read = [np.concatenate([[self.start], row[:-1]]) for row in said]
        inputs = {
            "source": padded(sources, self.pad),
            "source_keep": kept(sources),
            "target": padded(read, self.pad),
            "targets": padded(said, IGNORED),
            "target_keep": kept(said),
        }
        return Batch(inputs, {"loss": sum(map(len, said))})


def _rows(
    places: list[str], texts: list[str], name: str, engine: Tokenizer, end: tuple[int, ...]
) -> Iterator[list[int]]:
    """Tokens of the texts, each with its end, whether the tokenizer writes one or not."""
    for where, text in zip(places, texts, strict=True):
        if not text.strip():
            raise ValueError(f"{where} has an empty {name}: fill it in, or leave the line out")
    for row in engine.encode_all(texts):
        yield row if row and row[-1] in end else [*row, end[0]]


def _fit(places: list[str], rows: Iterable[list[int]], name: str, length: int, cut: bool) -> Ragged:
    """The rows, none longer than `length`; one that is cut keeps its end."""
    fitting = []
    for where, row in zip(places, rows, strict=True):
        if len(row) > length and not cut:
            raise ValueError(
                f"the {name} of {where} has {len(row)} tokens, its end included, and the length is {length}: raise "
                "`length`, or set `data.cut` to cut such texts"
            )
        fitting.append(row if len(row) <= length else [*row[: length - 1], row[-1]])
    return Ragged.of(fitting)


@dataclass(frozen=True)
class TextPair:
    """Two texts of one meaning, and the words for where they stand."""

    where: str
    first: str
    second: str


class ContrastivePairs:
    """Examples of contrastive learning: packed rows without padding, and who is nobody's negative."""

    def __init__(
        self, twins: Iterable[TextPair], tokenizer: Tokenizer, *, limit: int, tail: int = 1, prompt: str = ""
    ) -> None:
        """Of a text with more than `limit` tokens the middle is left out, and its last `tail` stay, as in the model."""
        sides: tuple[list[Ragged], list[Ragged]] = ([], [])
        flow = iter(twins)
        while turn := list(islice(flow, TOGETHER)):
            for side, texts in zip(sides, ([one.first for one in turn], [one.second for one in turn]), strict=True):
                found = tokenizer.encode_all([prompt + text for text in texts])
                _check(turn, found, sides.index(side))
                side.append(Ragged.of([shortened(text, limit, tail) for text in found]))
        if not sides[0]:
            raise ValueError("there are no pairs of texts: the data is empty")
        self._sides = Ragged.joined(sides[0]), Ragged.joined(sides[1])

    def __len__(self) -> int:
        return len(self._sides[0])

    @property
    def sizes(self) -> np.ndarray:
        return self._sides[0].lengths + self._sides[1].lengths

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        inputs: dict[str, Tensor] = {}
        for name, side in zip("ab", self._sides, strict=True):
            texts = [side[int(row)] for row in rows]
            inputs[f"tokens_{name}"] = torch.from_numpy(np.concatenate(texts).astype(np.int64))[None]
            inputs[f"lengths_{name}"] = torch.tensor([len(text) for text in texts])
        return Batch({**inputs, "same": self._same(rows)}, {"loss": len(rows)})

    def _same(self, rows: np.ndarray) -> Tensor:
        """Where two pairs share a text: neither is a negative of the other."""
        first, second = ([side[int(row)].tobytes() for row in rows] for side in self._sides)
        texts = np.array([first, second], dtype=object)
        shared = (texts[:, None, :, None] == texts[None, :, None, :]).any((0, 1))
        np.fill_diagonal(shared, False)
        return torch.from_numpy(shared)


def shortened(text: Sequence[int], limit: int, tail: int) -> Sequence[int]:
    """At most `limit` tokens, the last `tail` of them kept.

    >>> shortened([1, 5, 6, 7, 2], 4, 1)
    [1, 5, 6, 2]
    """
    return text if len(text) <= limit else [*text[: limit - tail], *text[len(text) - tail :]]


def _check(turn: Sequence[TextPair], found: Sequence[Sequence[int]], side: int) -> None:
    for twin, text in zip(turn, found, strict=True):
        if not text:
            raise ValueError(
                f"the {('first', 'second')[side]} text of {twin.where} has no token that a model could read"
            )
