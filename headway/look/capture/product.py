"""A batched product of two tensors, by whatever function it was written."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Product:
    """left times right as they were given; q (… L K) and k (… M K) where it may be one of queries and keys.

    `order`: where the axes B H L W of the result stand, if it is one of weights and values."""

    left: Tensor
    right: Tensor
    q: Tensor | None
    k: Tensor | None
    order: tuple[int, ...] | None = None

    def heads_first(self, result: Tensor) -> Tensor:
        return result if self.order is None else result.permute(self.order)


def product_of(name: str, args: tuple[Any, ...]) -> Product | None:
    """None where one of the two is a plain matrix of weights, or where this is no product of two."""
    if name == "einsum":
        return _of_letters(args)
    pair = args[1:3] if name == "baddbmm" else args[:2]
    if len(pair) < 2 or not all(isinstance(one, Tensor) and one.ndim >= 3 for one in pair):
        return None
    return Product(pair[0], pair[1], pair[0], pair[1].mT)


def _of_letters(args: tuple[Any, ...]) -> Product | None:
    tensors = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
    if not isinstance(args[0], str) or "->" not in args[0] or "." in args[0] or len(tensors) != 2:
        return None
    inputs, out = args[0].replace(" ", "").split("->")
    first, second = inputs.split(",")
    q, k = _queries_and_keys(tensors[0], tensors[1], first, second, out)
    return Product(tensors[0], tensors[1], q, k, _order(first, second, out))


def _queries_and_keys(
    left: Tensor, right: Tensor, first: str, second: str, out: str
) -> tuple[Tensor | None, Tensor | None]:
    """The last letter of the result belongs to the keys, the one before it to the queries."""
    batch, row, column = out[:-2], out[-2], out[-1]
    summed = [one for one in first if one in second and one not in out]
    if len(summed) != 1 or row not in first or column not in second or row in second or column in first:
        return None, None
    return _laid(left, first, batch + row + summed[0]), _laid(right, second, batch + column + summed[0])


def _laid(x: Tensor, letters: str, order: str) -> Tensor | None:
    """x with its axes in this order; an axis that it lacks has size 1."""
    if any(one not in order for one in letters):
        return None
    found = x.permute([letters.index(one) for one in order if one in letters])
    for place, one in enumerate(order):
        found = found if one in letters else found.unsqueeze(place)
    return found


def _order(first: str, second: str, out: str) -> tuple[int, ...] | None:
    """bhij,bjhd->bihd: the result's axes as b h i d, those of the weights but the summed one, then the values' own."""
    own = [one for one in out if one not in first]
    kept = [one for one in first if one in out]
    return tuple(out.index(one) for one in [*kept, *own]) if len(own) == 1 and len(kept) == len(out) - 1 else None
