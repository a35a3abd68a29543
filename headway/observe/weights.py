"""One captured attention: its weights are computed on request, for the requested rows and heads."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headway.observe.attention_event import SoftmaxCall
from headway.observe.softmax_parts import SoftmaxParts, softmax_parts
from headway.observe.stored_call import StoredCall
from headway.ops.mask.pairs import ALL


@dataclass(frozen=True)
class Selection:
    """Layers in order of running, heads, and the first row with how many; None: all. What a layer lacks is left out.

    Layers of one model may differ in heads, and its texts in length: what no layer has, a look says in a note.
    """

    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    rows: tuple[int, int] | None = None

    def has_layer(self, number: int) -> bool:
        return self.layers is None or number in self.layers

    def heads_of(self, count: int) -> tuple[int, ...]:
        """
        >>> Selection(heads=(1, 7)).heads_of(4)
        (1,)
        """
        return tuple(range(count)) if self.heads is None else tuple(one for one in self.heads if 0 <= one < count)

    def rows_of(self, count: int) -> slice:
        """
        >>> Selection(rows=(3, 5)).rows_of(6)
        slice(3, 6, None)
        """
        first, rows = (0, count) if self.rows is None else self.rows
        return slice(min(first, count), min(first + rows, count))

    def lacking(self, heads: int, rows: int) -> tuple[str, ...]:
        """What is to be said where no layer has more than so many heads, or rows.

        >>> Selection(heads=(0, 7), rows=(2, 99)).lacking(3, 5)
        ('Layers have heads 0 to 2: 7 is not there.', 'Layers have rows 0 to 4: 5 to 100 are not there.')
        """
        missing = [one for one in self.heads or () if one >= heads]
        first, last = (0, -1) if self.rows is None else (max(self.rows[0], rows), sum(self.rows) - 1)
        return (
            *_missing_note("heads", heads, ", ".join(map(str, missing)), len(missing)),
            *_missing_note("rows", rows, f"{first} to {last}" if first < last else str(first), last - first + 1),
        )


def _missing_note(what: str, have: int, named: str, missing: int) -> tuple[str, ...]:
    verb = "is" if missing == 1 else "are"
    return (f"Layers have {what} 0 to {have - 1}: {named} {verb} not there.",) if missing > 0 else ()


Heads = Sequence[int] | slice


@dataclass(frozen=True, eq=False)
class StoredWeights:
    """The weights themselves, of the rows and heads that were selected: the others are gone."""

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
            f"{what} {missing[0]} was not kept: this model writes its weights out, and of those only what is selected "
            f"is copied; ask for it with Selection({way_out})"
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


def store_weights(event: SoftmaxCall, selection: Selection) -> StoredWeights:
    """Copied at once, in at least float32: a dropout may write into them."""
    batch, count, queries, keys = event.weights.shape
    heads, rows = selection.heads_of(count), selection.rows_of(queries)
    found = event.weights[:, :, rows] if len(heads) == count else event.weights[:, list(heads), rows]
    wide = found.to(torch.promote_types(found.dtype, torch.float32), copy=True)
    return StoredWeights(wide, heads, rows.start, (batch, count, queries, keys))


@dataclass(eq=False)
class CapturedAttention:
    """Seen in one call, or in several of one query each, which are its rows; `name` is that of the module.

    `shape` is B H L M, and B H K K between channels.
    """

    name: str
    mechanism: str
    calls: list[StoredCall | StoredWeights] = field(repr=False)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        batch, heads, _, keys = self.calls[-1].shape
        return batch, heads, sum(one.shape[2] for one in self.calls), keys

    @property
    def nbytes(self) -> int:
        """Of queries and keys, or of weights; a mask or a bias is the model's."""
        last = self.calls[-1]
        keys = last.keys.held.nbytes if isinstance(last, StoredCall) else 0
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

    def _of(self, call: StoredCall | StoredWeights, rows: slice, heads: Heads) -> Tensor:
        if isinstance(call, StoredWeights):
            return call.weights(rows, heads)
        return call.weights(rows, list(_numbers(heads, call.shape[1])))

    @torch.no_grad()
    def parts(self) -> SoftmaxParts | None:
        """Queries and keys of item 0 of the batch, where the weights are a softmax of their products.

        None too where a bias does not go by distance, and for rows of several calls.
        """
        call = self.calls[0]
        return softmax_parts(call.call()) if isinstance(call, StoredCall) and len(self.calls) == 1 else None


def _inside(rows: slice, first: int, count: int, total: int) -> slice | None:
    """The part of `rows` that lies among `count` from `first` on, counted from there."""
    asked = [one - first for one in range(*rows.indices(total)) if first <= one < first + count]
    return slice(asked[0], asked[-1] + 1, range(*rows.indices(total)).step) if asked else None
