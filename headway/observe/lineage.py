"""Where a tensor came from, as far as attention is concerned: a product of q and k, and the numbers it was scaled by.

A model that writes its attention out multiplies q and kᵀ, scales, masks, and takes a softmax, by any of a dozen
functions. Tensors are followed from one function to the next, so that the scores of a softmax are known as a product.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary


@dataclass(frozen=True, eq=False)
class MatrixProduct:
    """left times right as they were given; q (… L K) and k (… M K) where it may be one of queries and keys.

    `order`: where the axes B H L W of the result stand, if it is one of weights and values."""

    left: Tensor
    right: Tensor
    q: Tensor | None
    k: Tensor | None
    order: tuple[int, ...] | None = None

    def heads_first(self, result: Tensor) -> Tensor:
        return result if self.order is None else result.permute(self.order)


def product_of(name: str, args: tuple[Any, ...]) -> MatrixProduct | None:
    """None where one of the two is a plain matrix of weights, or where this is no product of two."""
    if name == "einsum":
        return _of_letters(args)
    pair = args[1:3] if name == "baddbmm" else args[:2]
    if len(pair) < 2 or not all(isinstance(one, Tensor) and one.ndim >= 3 for one in pair):
        return None
    return MatrixProduct(pair[0], pair[1], pair[0], pair[1].mT)


def _of_letters(args: tuple[Any, ...]) -> MatrixProduct | None:
    tensors = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
    if not isinstance(args[0], str) or "->" not in args[0] or "." in args[0] or len(tensors) != 2:
        return None
    inputs, out = args[0].replace(" ", "").split("->")
    first, second = inputs.split(",")
    q, k = _queries_and_keys(tensors[0], tensors[1], first, second, out)
    return MatrixProduct(tensors[0], tensors[1], q, k, _order(first, second, out))


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


# Functions that move values about, whatever they are of; and those that leave scores scores, or weights weights: a
# bias, a mask, a cap (tanh between two factors that cancel).
_MOVES = frozenset((
    "view", "reshape", "transpose", "permute", "contiguous", "expand", "flatten", "unflatten", "squeeze", "unsqueeze",
    "to", "float", "type", "type_as", "half", "double", "bfloat16", "clone", "repeat_interleave", "movedim", "swapaxes",
    "getitem", "get", "chunk", "split", "unbind", "expand_as", "view_as",
))  # fmt: skip
_MODIFIES = frozenset((
    "add", "iadd", "radd", "sub", "isub", "masked_fill", "where", "dropout", "tanh", "clamp", "nan_to_num",
))  # fmt: skip
_SCALES = frozenset(("mul", "rmul", "imul", "div", "truediv", "itruediv", "true_divide"))
_PRODUCTS = frozenset(("matmul", "bmm", "baddbmm", "einsum"))
FOLLOWED = _MOVES | _MODIFIES | _SCALES | _PRODUCTS


@dataclass(frozen=True, eq=False)
class Origin:
    """`factor`: the numbers that multiplied it, together; `before` those of q and k. SoftmaxCall have q (… L K) and k
    (… M K), weights the number of the attention they belong to."""

    factor: float = 1.0
    q: Tensor | None = None
    k: Tensor | None = None
    before: float = 1.0
    attention: int | None = None


@dataclass(frozen=True, eq=False)
class HeadOutput:
    """The product of an attention's weights with values, and how to lay it out with the heads before the rows."""

    attention: int
    out: Tensor
    heads_first: Callable[[Tensor], Tensor]


class Lineage:
    """Follows tensors by what functions do to them; holds no tensor longer than the model does."""

    def __init__(self) -> None:
        self._known = WeakTensorKeyDictionary()

    def of(self, x: Any) -> Origin:
        found = self._known.get(x) if isinstance(x, Tensor) else None
        return Origin() if found is None else found

    def mark(self, x: Tensor, origin: Origin) -> None:
        self._known[x] = origin

    def follow(self, name: str, args: tuple[Any, ...], result: Any) -> HeadOutput | None:
        """Records what `name(*args) = result` did; returns the output of heads where it was one."""
        if name in _PRODUCTS and isinstance(result, Tensor) and result.ndim >= 3:
            product = product_of(name, args)
            return None if product is None else self._product(product, result)
        if name in _SCALES:
            self._scale(name, args, result)
        elif name in _MOVES or name in _MODIFIES:
            self._pass_on(args, result, scores=name in _MODIFIES)
        return None

    def _product(self, product: MatrixProduct, result: Tensor) -> HeadOutput | None:
        first, second = self.of(product.left), self.of(product.right)
        if first.attention is not None:
            return HeadOutput(first.attention, result, product.heads_first)
        before = first.factor * second.factor
        if product.q is not None and product.k is not None:
            self.mark(result, Origin(before, product.q, product.k, before))
        return None

    def _scale(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        tensors = [one for one in args[:2] if isinstance(one, Tensor) and one.ndim > 0]
        if len(tensors) != 1 or not isinstance(result, Tensor) or len(args) < 2:
            return
        other = args[1] if tensors[0] is args[0] else args[0]
        if isinstance(other, Tensor) and other.is_meta:
            return
        number = float(other)
        if number and result.is_floating_point():
            was = self.of(tensors[0])
            self.mark(result, replace(was, factor=was.factor * (1 / number if "div" in name else number)))

    def _pass_on(self, args: tuple[Any, ...], result: Any, *, scores: bool) -> None:
        known = next((one for one in args if isinstance(one, Tensor) and one in self._known), None)
        was = self.of(known)
        if known is None or (scores and was.q is None and was.attention is None):
            return
        for one in result if isinstance(result, tuple | list) else [result]:
            if isinstance(one, Tensor) and one.is_floating_point():
                self.mark(one, was)
