"""Texts with labels, perhaps in pairs: what a classifier learns from."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import torch

from headway.config.train import DataConfig
from headway.data.batch import Batch, Ragged, kept, padded
from headway.data.source import records
from headway.data.tokenizer import Tokenizer

T = TypeVar("T")
_TURN = 4096  # texts that are encoded at once


@dataclass(frozen=True)
class LabelledText:
    """A text, perhaps a second one, the name of their class, and the words for where they stand."""

    where: str
    text: str
    label: str
    second: str | None = None


def samples_of(data: DataConfig, places: Sequence[str], *, paired: bool) -> Iterator[LabelledText]:
    """The labelled texts of the places, or with `paired` two texts a row, by the names of their columns."""
    texts = {"text": data.first, "second": data.second} if paired else {"text": data.text}
    for one in records(places, columns={**texts, "label": data.label}, format=data.format):
        yield LabelledText(one.where, one.fields["text"], one.fields["label"], one.fields.get("second"))


def label_names(labels: Iterable[str]) -> tuple[str, ...]:
    """The classes in order: numbers by value, everything else by spelling.

    >>> label_names(["10", "9", "9"])
    ('9', '10')
    """
    names = set(labels)
    if len(names) == 1:
        raise ValueError(f"every text has the label {min(names)!r}: a classifier needs at least two classes")
    if not names:
        raise ValueError("there are no labelled texts: the data is empty")
    return tuple(sorted(names, key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name)))


def hold_out(
    samples: Sequence[T], share: float, *, text_of: Callable[[T], str] | None = None
) -> tuple[list[T], list[T]]:
    """(to learn from, held out), in the order given; equal texts stay on one side, whatever order they come in.

    `text_of` is the text of one; where nobody says, of a LabelledText.
    """
    digests = [blake2b((text_of or _text_of)(sample).encode(), digest_size=8).digest() for sample in samples]
    limit = sorted(digests)[min(round(share * len(samples)), len(samples) - 1)] if samples else b""
    sides: tuple[list[T], list[T]] = ([], [])
    for sample, digest in zip(samples, digests, strict=True):
        sides[digest < limit].append(sample)
    if not all(sides):
        raise ValueError(f"a share of {share:g} cannot be held out of {len(samples)} texts: give more of them")
    return sides


class Labelled:
    """Examples of text classification, framed as the tokenizer frames them when the model is used."""

    def __init__(
        self,
        samples: Iterable[LabelledText],
        tokenizer: Tokenizer,
        *,
        length: int,
        labels: Sequence[str] | None = None,
        cut: bool = False,
    ) -> None:
        """`labels`: the classes that a model knows; none: those of these samples. `cut` shortens what is too long."""
        self._pad, flow = 0 if tokenizer.pad is None else tokenizer.pad, iter(samples)
        tokens, types, wheres, names = [], [], [], []
        while turn := list(islice(flow, _TURN)):
            found = _encode(turn, tokenizer, length, cut)
            tokens.append(Ragged.of([one.ids for one in found]))
            types.append(Ragged.of([one.type_ids for one in found], dtype=np.uint8))
            wheres += [sample.where for sample in turn]
            names += [sample.label for sample in turn]
        self.labels = label_names(names) if labels is None else tuple(labels)
        self.answers = _numbers(names, wheres, self.labels)  # the number of each example's class
        self._tokens, self._types = Ragged.joined(tokens), Ragged.joined(types)

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def sizes(self) -> np.ndarray:
        return self._tokens.lengths

    def row(self, at: int) -> tuple[np.ndarray, np.ndarray, int]:
        """Tokens, the text that each belongs to (0 or 1), and the number of the class."""
        return self._tokens[at].astype(np.int64), self._types[at].astype(np.int64), int(self.answers[at])

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        tokens, types, labels = zip(*(self.row(int(row)) for row in rows), strict=True)
        inputs = {"tokens": padded(tokens, self._pad), "keep": kept(tokens), "types": padded(types, 0)}
        return Batch({**inputs, "label": torch.tensor(labels)}, {"loss": len(rows)})


def _numbers(names: Sequence[str], wheres: Sequence[str], labels: Sequence[str]) -> np.ndarray:
    number = {name: index for index, name in enumerate(labels)}
    for name, where in zip(names, wheres, strict=True):
        if name not in number:
            shown = ", ".join(labels[:8]) + (", …" if len(labels) > 8 else "")
            raise ValueError(f"{where} has the label {name!r}, which the training data never had (it has {shown})")
    return np.array([number[name] for name in names], dtype=np.int64)


def _encode(turn: Sequence[LabelledText], tokenizer: Tokenizer, length: int, cut: bool) -> list[Any]:
    engine = tokenizer.engine
    if cut:
        engine.enable_truncation(max_length=length)
    try:
        found = engine.encode_batch([one.text if one.second is None else (one.text, one.second) for one in turn])
    finally:
        engine.no_truncation()
    for sample, size in zip(turn, (len(one.ids) for one in found), strict=True):
        if size == 0:
            raise ValueError(f"{sample.where} has no token that a model could read")
        if size > length:
            raise ValueError(f"{sample.where} has {size} tokens, more than the length of {length}: raise the length, "
                             "or set cut to read its beginning")  # fmt: skip
    return found


def _text_of(sample: Any) -> str:
    return f"{sample.text}\0{sample.second or ''}"
