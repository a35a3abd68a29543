"""Where a tensor came from, as far as attention is concerned: a product of q and k, and the numbers it was scaled by.

A model that writes its attention out multiplies q and kᵀ, scales, masks, and takes a softmax, by any of a dozen
functions; followed from one to the next, the softmax can be told what its scores are made of.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from headway.look.capture.product import Product, product_of

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
    """`factor`: the numbers that multiplied it, together; `before` those of q and k. Scores have q (… L K) and k
    (… M K), weights the number of the attention they belong to."""

    factor: float = 1.0
    q: Tensor | None = None
    k: Tensor | None = None
    before: float = 1.0
    attention: int | None = None


@dataclass(frozen=True, eq=False)
class Gathered:
    """A product of an attention's weights with values, and how to lay it out with the heads before the rows."""

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

    def follow(self, name: str, args: tuple[Any, ...], result: Any) -> Gathered | None:
        """After `name(*args)` gave `result`; what was gathered, where that is what happened."""
        if name in _PRODUCTS and isinstance(result, Tensor) and result.ndim >= 3:
            product = product_of(name, args)
            return None if product is None else self._product(product, result)
        if name in _SCALES:
            self._scaled(name, args, result)
        elif name in _MOVES or name in _MODIFIES:
            self._kept(args, result, scores=name in _MODIFIES)
        return None

    def _product(self, product: Product, result: Tensor) -> Gathered | None:
        first, second = self.of(product.left), self.of(product.right)
        if first.attention is not None:
            return Gathered(first.attention, result, product.heads_first)
        before = first.factor * second.factor
        if product.q is not None and product.k is not None:
            self.mark(result, Origin(before, product.q, product.k, before))
        return None

    def _scaled(self, name: str, args: tuple[Any, ...], result: Any) -> None:
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

    def _kept(self, args: tuple[Any, ...], result: Any, *, scores: bool) -> None:
        known = next((one for one in args if isinstance(one, Tensor) and one in self._known), None)
        was = self.of(known)
        if known is None or (scores and was.q is None and was.attention is None):
            return
        for one in result if isinstance(result, tuple | list) else [result]:
            if isinstance(one, Tensor) and one.is_floating_point():
                self.mark(one, was)
