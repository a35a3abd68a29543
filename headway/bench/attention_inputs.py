"""What the attention cases share: seeded inputs, calls forward and backward, and the equations they are held to."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from headway.bench.agree import agree
from headway.ops.mask import Mask

HEADS, WIDTH = 8, 64
MIB = 2**20
ROWS = slice(-64, None)  # the rows of a long call that are compared with the equation

Function = Callable[..., Tensor]


@dataclass(frozen=True)
class AttentionInputs:
    """One batch row of random q, k, v, with or without gradients."""

    length: int
    keys: int | None = None
    heads: int = HEADS
    kv_heads: int | None = None
    value_width: int = WIDTH
    precision: str = "float32"
    backward: bool = False

    @property
    def shape(self) -> str:
        """The sizes by their letters.

        >>> AttentionInputs(512, keys=768, kv_heads=2).shape
        'B1 H8 G2 L512 M768 K64'
        """
        groups = "" if self.kv_heads is None else f" G{self.kv_heads}"
        keys = "" if self.keys is None else f" M{self.keys}"
        width = "" if self.value_width == WIDTH else f" W{self.value_width}"
        return f"B1 H{self.heads}{groups} L{self.length}{keys} K{WIDTH}{width}"

    @property
    def direction(self) -> str:
        return "forward+backward" if self.backward else "forward"

    @cached_property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        keys, groups = self.keys or self.length, self.kv_heads or self.heads
        sizes = ((self.heads, self.length, WIDTH), (groups, keys, WIDTH), (groups, keys, self.value_width))
        q, k, v = (self.random(*size, seed=seed).requires_grad_(self.backward) for seed, size in enumerate(sizes))
        return q, k, v

    @cached_property
    def gradient(self) -> Tensor:
        return self.random(self.heads, self.length, self.value_width, seed=3)

    def random(self, *size: int, seed: int) -> Tensor:
        """B=1 normal numbers; a position's numbers do not depend on the length, so that prefixes can be compared."""
        draw = torch.Generator().manual_seed(seed)
        positions_first = torch.randn(size[1], size[0], size[2], generator=draw)
        return positions_first.transpose(0, 1).contiguous()[None].to(getattr(torch, self.precision))

    def call(self, function: Function, *extra: Tensor) -> Callable[[], tuple[Tensor, ...]]:
        """The function on these inputs (and more, which may carry gradients too): the output, then all gradients."""
        inputs, gradient = (*self.tensors, *extra), self.gradient

        def forward() -> tuple[Tensor, ...]:
            with torch.no_grad():
                return (function(*inputs),)

        def both() -> tuple[Tensor, ...]:
            out = function(*inputs)
            return (out.detach(), *torch.autograd.grad(out, inputs, gradient))

        return both if self.backward else forward

    def flops(self, pairs: int) -> int:
        """The least products: q kᵀ and A v forward, and four of their size backward, nothing computed twice."""
        return 2 * self.heads * pairs * (WIDTH + self.value_width) * (3 if self.backward else 1)

    @property
    def bytes(self) -> int:
        """The least traffic: q, k, v read and the output written; backward all of them and the gradients once more."""
        once = sum(tensor.nbytes for tensor in self.tensors)
        return once + self.gradient.nbytes + (2 * once + self.gradient.nbytes if self.backward else 0)

    def small(self, length: int) -> "AttentionInputs":
        """The same at a length and with heads that the equation can afford, gradients included."""
        groups = None if self.kv_heads is None else 1
        return replace(self, length=length, heads=2, kv_heads=groups, backward=True)


@dataclass(frozen=True)
class Equation:
    """softmax(cap · tanh(q kᵀ / (√K · cap)) + bias) v over the allowed pairs, written out in float64.

    `linear` replaces exp(score) by (elu(q) + 1)·(elu(k) + 1); `first` is the position of the first token.
    """

    mask: Mask | None = None
    softcap: float | None = None
    bias: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None  # weight, query and key positions -> table
    linear: bool = False
    first: int = 0

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *extra: Tensor, rows: slice = slice(None)) -> Tensor:
        places = torch.arange(self.first, self.first + k.shape[2])
        asking = places[rows]
        weights = self.scores(q[:, :, rows].double(), k.double(), *extra, places=(asking, places))
        if self.mask is not None:
            weights = weights * self.mask.table(asking, places)
        return ((weights / weights.sum(-1, keepdim=True)) @ v.double()).to(q.dtype)

    def scores(self, q: Tensor, k: Tensor, *extra: Tensor, places: tuple[Tensor, Tensor]) -> Tensor:
        """Positive numbers whose shares are the weights; scores of random inputs are small enough for a bare exp."""
        if self.linear:
            return (torch.nn.functional.elu(q) + 1) @ (torch.nn.functional.elu(k) + 1).mT
        scores = q @ k.mT * q.shape[3] ** -0.5
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.bias is not None:
            scores = scores + self.bias(extra[0].double(), *places)
        return scores.exp()

    def verify(self, name: str, function: Function, problem: AttentionInputs, *extra: Tensor, length: int) -> None:
        """Outputs and gradients at a small length, and the last rows at the full one; raises Disagreement."""
        small = problem.small(length)
        cut = [tensor.detach()[..., : small.heads].requires_grad_() for tensor in extra]
        agree({"the equation": small.call(self, *cut)(), name: small.call(function, *cut)()})
        with torch.no_grad():
            expected = self(*problem.tensors, *extra, rows=ROWS)
            agree({"the equation": expected, name: function(*problem.tensors, *extra)[:, :, ROWS]})
