"""Pairs of texts for a model that reads one and writes the other, tokenised once.

source   x_1 … x_m end
target   start y_1 … y_l             what the decoder reads
targets  y_1 … y_l end               what it is to say at each place
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from headway.config.language import Special
from headway.config.train import DataConfig
from headway.data.batch import IGNORED, Batch
from headway.data.files import read_json, write_json
from headway.data.learn import literal
from headway.data.ragged import Ragged, kept, padded
from headway.data.source import records
from headway.data.tokenizer import Tokenizer
from headway.data.tokens import opened

TOGETHER = 4096  # pairs that are tokenised in one go
FACTS = "pairs.json"


def special_of(tokenizer: Tokenizer) -> Special:
    """The special tokens of a new model with this tokenizer; one without a token for the start starts with padding."""
    if tokenizer.end is None or tokenizer.pad is None:
        raise ValueError("a tokenizer for pairs has a token for the end and one for padding, and this one has not")
    start = tokenizer.pad if tokenizer.begin is None else tokenizer.begin
    return Special(begin=tokenizer.begin, end=(tokenizer.end,), pad=tokenizer.pad, start=start)


def pairs_of(data: DataConfig, places: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(where, source, target) of every row of the places."""
    for one in records(places, columns={"source": data.source, "target": data.target}, format=data.format):
        yield one.where, one.fields["source"], one.fields["target"]


class Pairs:
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
    ) -> "Pairs":
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

    def split(self, held: float) -> tuple["Pairs", "Pairs"]:
        """The first pairs to learn from, and the last `held` of them to measure with, at least one each."""
        if len(self) < 2:
            raise ValueError("one pair cannot be split: give more, or validation data of its own")
        at = min(max(round(len(self) * (1 - held)), 1), len(self) - 1)
        return self._between(0, at), self._between(at, len(self))

    def _between(self, first: int, last: int) -> "Pairs":
        sides = (side.between(first, last) for side in (self.source, self.target))
        return Pairs(*sides, start=self.start, pad=self.pad)

    def save(self, directory: str | Path) -> None:
        """Into a directory that `load` maps into memory."""
        place = Path(directory)
        place.mkdir(parents=True, exist_ok=True)
        for name, side in (("source", self.source), ("target", self.target)):
            np.save(place / f"{name}.npy", side.flat)
            np.save(place / f"{name}_starts.npy", side.starts)
        write_json(place / FACTS, {"pairs": len(self), "start": self.start, "pad": self.pad})

    @classmethod
    def load(cls, directory: str | Path) -> "Pairs":
        place = Path(directory)
        if not (place / FACTS).exists():
            raise ValueError(f"{place} has no {FACTS}, so it holds no pairs that can be used")
        facts = read_json(place / FACTS)
        files = [(place / f"{side}.npy", place / f"{side}_starts.npy") for side in ("source", "target")]
        sides = [Ragged(opened(flat), opened(starts)) for flat, starts in files]
        for side in sides:
            if len(side) != facts["pairs"] or int(side.starts[-1]) != len(side.flat):
                raise ValueError(f"{place} does not hold the {facts['pairs']:,} pairs it names: remove it")
        return cls(*sides, start=facts["start"], pad=facts["pad"])


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
