"""One attention as it was seen: its weights are computed when somebody asks, for the rows and heads asked."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headway.look.capture.held import HeldCall
from headway.look.capture.parts import Parts, parts_of
from headway.look.capture.sight import Scores
from headway.look.capture.wanted import Wanted
from headway.ops.mask.pairs import ALL

Heads = Sequence[int] | slice


@dataclass(frozen=True, eq=False)
class HeldWeights:
    """The weights themselves, of the rows and heads that were wanted: the others are gone."""

    values: Float[Tensor, "B h l M"]
    heads: tuple[int, ...]
    first: int
    shape: tuple[int, int, int, int]

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def weights(self, rows: slice, heads: Heads) -> Float[Tensor, "B h l M"]:
        """Rows and heads as the attention counts them."""
        places = range(self.first, self.first + self.values.shape[2])
        asked = range(*rows.indices(self.shape[2])) if rows != ALL else places
        chosen = self.heads if heads == ALL else _numbers(heads, self.shape[1])
        _refuse("row", [one for one in asked if one not in places], "rows=...")
        _refuse("head", [one for one in chosen if one not in self.heads], "heads=...")
        found = self.values[:, :, asked.start - self.first : asked.stop - self.first : asked.step]
        return found if chosen == self.heads else found[:, [self.heads.index(one) for one in chosen]]


def _refuse(what: str, missing: list[int], way_out: str) -> None:
    if missing:
        raise ValueError(
            f"{what} {missing[0]} was not kept: this model writes its weights out, and of those only what is wanted "
            f"is copied; ask for it with Wanted({way_out})"
        )


def _numbers(heads: Heads, count: int) -> tuple[int, ...]:
    """
    >>> _numbers(slice(1, 3), 5), _numbers([-1, 0], 5)
    ((1, 2), (4, 0))
    """
    if isinstance(heads, slice):
        return tuple(range(count)[heads])
    missing = [one for one in heads if not -count <= one < count]
    if missing:
        raise ValueError(f"there is no head {missing[0]}: this attention has heads 0 to {count - 1}")
    return tuple(one % count for one in heads)


def held_weights(sight: Scores, wanted: Wanted) -> HeldWeights:
    """Copied at once, in at least float32: a dropout may write into them."""
    batch, count, queries, keys = sight.weights.shape
    heads, rows = wanted.heads_of(count), wanted.rows_of(queries)
    found = sight.weights[:, :, rows] if len(heads) == count else sight.weights[:, list(heads), rows]
    wide = found.to(torch.promote_types(found.dtype, torch.float32), copy=True)
    return HeldWeights(wide, heads, rows.start, (batch, count, queries, keys))


@dataclass(eq=False)
class Attention:
    """Seen in one call, or in several of one query each, which are its rows; `name` is that of the module.

    `shape` is B H L M, and B H K K between channels.
    """

    name: str
    mechanism: str
    calls: list[HeldCall | HeldWeights] = field(repr=False)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        batch, heads, _, keys = self.calls[-1].shape
        return batch, heads, sum(one.shape[2] for one in self.calls), keys

    @property
    def nbytes(self) -> int:
        """Of queries and keys, or of weights; a mask or a bias is the model's."""
        last = self.calls[-1]
        keys = last.keys.held.nbytes if isinstance(last, HeldCall) else 0
        return keys + sum(one.nbytes for one in self.calls)

    @torch.no_grad()
    def weights(self, rows: slice = ALL, heads: Sequence[int] | slice = ALL) -> Float[Tensor, "B h l M"]:
        """Of these rows and heads and of no others, in at least float32; by default of all that are held."""
        if len(self.calls) == 1:
            return self._of(self.calls[0], rows, heads)
        keys, before, found = self.shape[3], 0, []
        for call in self.calls:
            inside = _inside(rows, before, call.shape[2], self.shape[2])
            before += call.shape[2]
            if inside is not None:
                some = self._of(call, inside, heads)
                found.append(F.pad(some, (0, keys - some.shape[3])))
        return torch.cat(found, 2) if found else self._of(self.calls[-1], slice(0, 0), heads)

    def _of(self, call: HeldCall | HeldWeights, rows: slice, heads: Heads) -> Tensor:
        if isinstance(call, HeldWeights):
            return call.weights(rows, heads)
        return call.weights(rows, list(_numbers(heads, call.shape[1])))

    @torch.no_grad()
    def parts(self) -> Parts | None:
        """Queries and keys of item 0 of the batch, where the weights are a softmax of their products.

        None too where a bias does not go by distance, and for rows of several calls.
        """
        call = self.calls[0]
        return parts_of(call.call()) if isinstance(call, HeldCall) and len(self.calls) == 1 else None


def _inside(rows: slice, first: int, count: int, total: int) -> slice | None:
    """The part of `rows` that lies among `count` from `first` on, counted from there."""
    asked = [one - first for one in range(*rows.indices(total)) if first <= one < first + count]
    return slice(asked[0], asked[-1] + 1, range(*rows.indices(total)).step) if asked else None
