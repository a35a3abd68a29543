"""A family's key table: their names beside ours, read forwards to import and backwards to export.

>>> [entry.theirs for entry in expand([Entry("h.{i}.ln.weight", "blocks.{i}.norm.weight")], i=range(2))]
['h.0.ln.weight', 'h.1.ln.weight']
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Entry:
    """One tensor of theirs and what it is in our model.

    A tuple: theirs is ours, one below the other along the first axis. turned: theirs is the transpose of that.
    """

    theirs: str
    ours: str | tuple[str, ...]
    turned: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.ours,) if isinstance(self.ours, str) else self.ours

    def named(self, **numbers: int) -> "Entry":
        """The same with placeholders filled."""
        ours = tuple(name.format(**numbers) for name in self.names)
        return Entry(self.theirs.format(**numbers), ours[0] if isinstance(self.ours, str) else ours, self.turned)

    def shape(self, ours: Sequence[torch.Size]) -> tuple[int, ...]:
        """The shape of theirs, from those of ours."""
        whole = (sum(shape[0] for shape in ours), *ours[0][1:])
        return whole[::-1] if self.turned else whole

    def forwards(self, theirs: Tensor, rows: Sequence[int]) -> list[Tensor]:
        """Ours, as views of theirs; `rows` is the first size of each."""
        whole = theirs.t() if self.turned else theirs
        return list(whole.split(list(rows))) if len(rows) > 1 else [whole]

    def backwards(self, ours: Sequence[Tensor]) -> Tensor:
        """Theirs."""
        whole = torch.cat(list(ours)) if len(ours) > 1 else ours[0]
        return whole.t().contiguous() if self.turned else whole.contiguous()


@dataclass(frozen=True)
class Tied:
    """A second name of theirs for a tensor of the table: may be absent, must be equal where present, is not written."""

    theirs: str
    same_as: str

    def named(self, **numbers: int) -> "Tied":
        return Tied(self.theirs.format(**numbers), self.same_as.format(**numbers))


Table = list[Entry | Tied]


def expand(literal: Iterable[Entry | Tied], **ranges: range) -> Table:
    """The table for every value of one placeholder; without one, the table as it is."""
    if not ranges:
        return list(literal)
    ((name, values),) = ranges.items()
    rows = list(literal)
    return [row.named(**{name: value}) for value in values for row in rows]
