"""Pairs of texts that mean the same: what a sentence encoder learns from, with the rest of a batch as negatives."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from headway.data.batch import Batch
from headway.data.ragged import Ragged
from headway.data.tokenizer import Tokenizer

_TURN = 4096  # pairs that are encoded at once


@dataclass(frozen=True)
class Twin:
    """Two texts of one meaning, and the words for where they stand."""

    where: str
    first: str
    second: str


class Contrast:
    """Examples of contrastive learning: packed rows without padding, and who is nobody's negative."""

    def __init__(
        self, twins: Iterable[Twin], tokenizer: Tokenizer, *, limit: int, tail: int = 1, prompt: str = ""
    ) -> None:
        """Of a text with more than `limit` tokens the middle is left out, and its last `tail` stay, as in the model."""
        sides: tuple[list[Ragged], list[Ragged]] = ([], [])
        flow = iter(twins)
        while turn := list(islice(flow, _TURN)):
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


def _check(turn: Sequence[Twin], found: Sequence[Sequence[int]], side: int) -> None:
    for twin, text in zip(turn, found, strict=True):
        if not text:
            raise ValueError(
                f"the {('first', 'second')[side]} text of {twin.where} has no token that a model could read"
            )
