"""What a model reads in one call, and which result belongs to which.

Every law says the same thing in its own way: results that bear the same label are equal, however they were computed.
A token that is read in two calls has one label in both; what may come out as it likes, padding for one, has NOBODY's.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

NOBODY = -1
SPAN = 4096  # labels of one item: its number times this, plus the place in its text


@dataclass(frozen=True, eq=False)
class Overwrite:
    """Vectors that take the place of what the model's own embedding gives: NaN in padding, say."""

    where: Bool[Tensor, "B L"]
    value: float

    def applied(self, vectors: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return vectors.masked_fill(self.where[..., None].to(vectors.device), self.value)


@dataclass(frozen=True, eq=False)
class Reading:
    """One call: inputs are tokens (B L), vectors (B L D) or images (B C Y X); `labels` has a row for each of them.

    `keep` True = real. Positions that are not given are the model's own business; where `keep` is given and the model
    takes positions, it is told the place of each real token among the real ones. `segments` numbers texts that share
    a row. `source` is what an encoder-decoder reads besides; of images and of a model with one result an item,
    `labels` has one column.
    """

    inputs: Tensor
    labels: Int[Tensor, "B L"]
    keep: Bool[Tensor, "B L"] | None = None
    positions: Int[Tensor, "B L"] | None = None
    segments: Int[Tensor, "B L"] | None = None
    overwrite: Overwrite | None = None
    source: Tensor | None = None
    source_labels: Int[Tensor, "B M"] | None = None
    source_keep: Bool[Tensor, "B M"] | None = None
    source_overwrite: Overwrite | None = None

    @property
    def items(self) -> Int[Tensor, " B"]:
        """The number of each row's item, as its labels tell; NOBODY where it has none."""
        highest = self.labels.amax(-1)
        return torch.where(highest >= 0, highest // SPAN, NOBODY)

    def part(self, start: int, stop: int) -> "Reading":
        """The same rows, from one column to another: what a cache is fed with."""

        def cut(x: Tensor | None) -> Tensor | None:
            return None if x is None else x[:, start:stop]

        written = self.overwrite
        return replace(
            self,
            inputs=self.inputs[:, start:stop],
            labels=self.labels[:, start:stop],
            keep=cut(self.keep),
            positions=cut(self.positions),
            segments=cut(self.segments),
            overwrite=None if written is None else Overwrite(written.where[:, start:stop], written.value),
        )


def counted(keep: Bool[Tensor, "B L"]) -> Int[Tensor, "B L"]:
    """The place of each real token among the real ones of its row; padding before the first has 0.

    >>> counted(torch.tensor([[False, True, True, False, True]])).tolist()
    [[0, 0, 1, 1, 2]]
    """
    return (keep.long().cumsum(-1) - 1).clamp(min=0)
