"""Linear attention as a stream of chunks: a running total between chunks, a triangle within, O(L) time and memory.

Nothing as long as the sequence is made but the output: features, ones and quotients live one chunk at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from headway.ops.attention.call import learning
from headway.ops.values import tracing

Feature = Callable[[Tensor], Tensor]
Total = Float[Tensor, "B G F V"]


@dataclass(frozen=True)
class Stream:
    """How to read: the feature map, the dtype of all sums, which keys are real, how many tokens at once."""

    feature: Feature
    dtype: torch.dtype
    keep: Bool[Tensor, "b M"] | None
    chunk: int

    def mapped(self, k: Tensor, v: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        """g(k), 0 for padding (g(0) need not be 0), and v beside a column of ones that gathers the normaliser."""
        features, values = self.feature(k.to(self.dtype)), v.to(self.dtype)
        if self.keep is not None:
            features = features.masked_fill(~self.keep[:, None, part, None], 0)
        return features, torch.cat([values, torch.ones_like(values[..., :1])], -1)

    def gathered(self, q: Tensor, total: Tensor) -> Tensor:
        """What queries read off a total of all keys."""
        queries = self.feature(q.to(self.dtype)).unflatten(1, (total.shape[1], -1))
        return quotient(queries @ total[:, :, None]).flatten(1, 2).to(q.dtype)

    def parts(self, length: int) -> list[slice]:
        return [slice(start, min(length, start + self.chunk)) for start in range(0, length, self.chunk)]

    def step(self, q: Tensor, k: Tensor, v: Tensor, part: slice, total: Tensor | None) -> tuple[Tensor, Tensor]:
        """What the queries of one chunk gather, and the total after it."""
        keys, values = self.mapped(k, v, part)
        queries = self.feature(q.to(self.dtype)).unflatten(1, (k.shape[1], -1))
        found = (queries @ keys[:, :, None].mT).tril() @ values[:, :, None]
        found = found if total is None else found + queries @ total[:, :, None]
        more = keys.mT @ values
        return quotient(found).flatten(1, 2).to(q.dtype), more if total is None else total + more


def quotient(found: Float[Tensor, "*b V"]) -> Float[Tensor, "*b W"]:
    """Everything but the last column, over the last column; 0 with gradient 0 where that is 0."""
    return divide(found[..., :-1], found[..., -1:])


def divide(total: Tensor, normaliser: Tensor) -> Tensor:
    """total / normaliser, and 0 with gradient 0 where the normaliser is 0."""
    nothing = normaliser == 0
    return (total / normaliser.masked_fill(nothing, 1)).masked_fill(nothing, 0)


def read(
    stream: Stream, q: Tensor, k: Tensor, v: Tensor, total: Tensor | None, totals: list[Tensor | None]
) -> tuple[Tensor, Tensor | None]:
    """All chunks in order, after `total`; the total before each chunk is put into `totals`."""
    out = q.new_empty(*q.shape[:3], v.shape[3])
    for part in stream.parts(q.shape[2]):
        totals.append(total)
        out[:, :, part], total = stream.step(q[:, :, part], k[:, :, part], v[:, :, part], part, total)
    return out, total


def causal_stream(stream: Stream, q: Tensor, k: Tensor, v: Tensor) -> Float[Tensor, "B H L W"]:
    """Causal linear attention; the backward pass reads the chunks once more, from the last to the first."""
    if tracing():
        return _one_by_one(stream, q, k, v)
    if not learning(q, k, v):
        return read(stream, q, k, v, None, _Forgetful())[0]
    return _Causal.apply(stream, q, k, v)


def _one_by_one(stream: Stream, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same as plain operations: torch.compile knows no backward pass that differentiates, and follows these."""
    found, total = [], None
    chunks = zip(*(x.split(stream.chunk, 2) for x in (q, k, v)), stream.parts(q.shape[2]), strict=True)
    for queries, keys, values, part in chunks:
        out, total = stream.step(queries, keys, values, part, total)
        found.append(out)
    return torch.cat(found, 2)


class _Causal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stream: Stream, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.stream, ctx.totals = stream, []
        ctx.save_for_backward(q, k, v)
        return read(stream, q, k, v, None, ctx.totals)[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tensors, pull = ctx.saved_tensors, None
        grads = tuple(torch.empty_like(x) for x in tensors)
        for part, total in zip(*(reversed(x) for x in (ctx.stream.parts(gradient.shape[2]), ctx.totals)), strict=True):
            with torch.enable_grad():
                inputs = [x[:, :, part].detach().requires_grad_() for x in tensors]
                inputs += [] if total is None else [total.detach().requires_grad_()]
                out, after = ctx.stream.step(*inputs[:3], part, None if total is None else inputs[3])
            later = (
                ([out, after], [gradient[:, :, part], pull]) if pull is not None else ([out], [gradient[:, :, part]])
            )
            found = torch.autograd.grad(later[0], inputs, later[1])
            pull = found[3] if total is not None else None
            for grad, piece in zip(grads, found[:3], strict=True):
                grad[:, :, part] = piece
        return None, *grads


class _Forgetful(list[Any]):
    """Totals that nobody will ask for."""

    def append(self, _: Any) -> None:
        pass


def whole_stream(stream: Stream, q: Tensor, k: Tensor, v: Tensor) -> Float[Tensor, "B H L W"]:
    """Linear attention without order: first the total of all keys, then every query reads it.

    With gradients in one piece, since a slice's gradient is as long as what it was cut from.
    """
    whole = learning(q, k, v)
    total: Tensor | None = None
    for part in [slice(0, k.shape[2])] if whole else stream.parts(k.shape[2]):
        keys, values = stream.mapped(k[:, :, part], v[:, :, part], part)
        total = keys.mT @ values if total is None else total.add_(keys.mT @ values)
    assert total is not None
    if whole:
        return stream.gathered(q, total)
    out = q.new_empty(*q.shape[:3], v.shape[3])
    for part in stream.parts(q.shape[2]):
        out[:, :, part] = stream.gathered(q[:, :, part], total)
    return out
