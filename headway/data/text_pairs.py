"""Pairs of texts, tokenised once: a source and its target, or two texts that mean the same.

A sequence-to-sequence model reads the source and writes the target:

source   x_1 … x_m end
target   start y_1 … y_l             what the decoder reads
targets  y_1 … y_l end               what it is to say at each place

A sentence encoder learns from texts that mean the same, with the rest of a batch as negatives, and from hard negatives:
texts that are near to the first and do not belong to it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from headway.config.base import IGNORED
from headway.config.text import Special
from headway.config.train import DataConfig
from headway.data.batch import Batch, Ragged, kept, padded
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
    """Two texts of one meaning, texts that are not the first one's, and the words for where they stand."""

    where: str
    first: str
    second: str
    negatives: tuple[str, ...] = ()


def twins_of(data: DataConfig, places: Sequence[str]) -> Iterator[TextPair]:
    """The pairs of the places, with their hard negatives."""
    columns = {"first": data.first, "second": data.second}
    for one in records(places, columns=columns, several=data.negative, format=data.format):
        if one.fields["second"] in one.several:
            raise ValueError(f"{one.where} has its {data.second} as a negative too: a text cannot be both")
        yield TextPair(one.where, one.fields["first"], one.fields["second"], one.several)


class ContrastivePairs:
    """Examples of contrastive learning: packed rows without padding, and who is nobody's negative."""

    def __init__(
        self, twins: Iterable[TextPair], tokenizer: Tokenizer, *, limit: int, tail: int = 1, prompt: str = ""
    ) -> None:
        """Of a text with more than `limit` tokens the middle is left out, and its last `tail` stay, as in the model."""
        sides: dict[str, list[Ragged]] = {"first": [], "second": [], "negative": []}
        counts: list[int] = []
        flow = iter(twins)
        while turn := list(islice(flow, TOGETHER)):
            counts += [len(one.negatives) for one in turn]
            texts = {"first": [(one, one.first) for one in turn], "second": [(one, one.second) for one in turn],
                     "negative": [(one, text) for one in turn for text in one.negatives]}  # fmt: skip
            for name, some in texts.items():
                found = tokenizer.encode_all([prompt + text for _, text in some])
                _check(name, [one for one, _ in some], found)
                sides[name].append(Ragged.of([shortened(text, limit, tail) for text in found]))
        if not counts:
            raise ValueError("there are no pairs of texts: the data is empty")
        self._sides = Ragged.joined(sides["first"]), Ragged.joined(sides["second"])
        self._negatives = Ragged.joined(sides["negative"])
        self._bounds = np.concatenate([[0], np.cumsum(counts)])  # of each pair's negatives

    def __len__(self) -> int:
        return len(self._sides[0])

    @property
    def negatives(self) -> int:
        """How many hard negatives all pairs have."""
        return len(self._negatives)

    @property
    def sizes(self) -> np.ndarray:
        ends = self._negatives.starts[self._bounds]
        return self._sides[0].lengths + self._sides[1].lengths + np.diff(ends)

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        """Packed tokens and lengths of both sides and, where a pair has any, of hard negatives; `same` B x B and
        `own` B x N say what is no negative of a pair."""
        some = {name: [side[int(row)] for row in rows] for name, side in zip("ab", self._sides, strict=True)}
        numbers = [one for row in rows for one in range(self._bounds[row], self._bounds[row + 1])]
        if numbers:
            some["n"] = [self._negatives[one] for one in numbers]
        inputs: dict[str, Tensor] = {}
        for name, texts in some.items():
            inputs[f"tokens_{name}"] = torch.from_numpy(np.concatenate(texts).astype(np.int64))[None]
            inputs[f"lengths_{name}"] = torch.tensor([len(text) for text in texts])
        words = {name: np.array([text.tobytes() for text in texts], dtype=object) for name, texts in some.items()}
        pairs = np.stack([words["a"], words["b"]])
        # Where two pairs share a text, neither is a negative of the other.
        same = (pairs[:, None, :, None] == pairs[None, :, None, :]).any((0, 1))
        if numbers:  # nor is what the text of such a pair says
            said = (pairs[:, :, None] == words["n"][None, None, :]).any(0)
            inputs["own"] = torch.from_numpy((same[:, :, None] & said[None]).any(1))
        np.fill_diagonal(same, False)
        return Batch({**inputs, "same": torch.from_numpy(same)}, {"loss": len(rows)})


def shortened(text: Sequence[int], limit: int, tail: int) -> Sequence[int]:
    """At most `limit` tokens, the last `tail` of them kept.

    >>> shortened([1, 5, 6, 7, 2], 4, 1)
    [1, 5, 6, 2]
    """
    return text if len(text) <= limit else [*text[: limit - tail], *text[len(text) - tail :]]


def _check(side: str, owners: Sequence[TextPair], found: Sequence[Sequence[int]]) -> None:
    for twin, text in zip(owners, found, strict=True):
        if not text:
            raise ValueError(f"the {side} text of {twin.where} has no token that a model could read")
