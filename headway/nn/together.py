"""Query, key and value maps that lie one behind the other in memory, so that one product serves the three.

They stay three parameters with names of their own; only their storage is shared. A model that is cast or moved gets new
storage, is told apart by its addresses, and uses three products until it is laid together again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from headway.nn.quarantine import Projection
from headway.ops.linear import gradients, linear


@torch.no_grad()
def lay_together(maps: Sequence[nn.Linear]) -> None:
    """Move the weights (and the biases) of several maps of one input into one piece of memory."""
    for name in ("weight", "bias"):
        parts = [getattr(one, name) for one in maps]
        if any(part is None or part.is_meta for part in parts) or len({part.dtype for part in parts}) > 1:
            continue
        whole = torch.cat([part.detach() for part in parts])
        for part, place in zip(parts, whole.split([len(part) for part in parts]), strict=True):
            part.data = place


@dataclass(frozen=True)
class Whole:
    """Several maps as one; it keeps their memory, so that an address it knows is never somebody else's."""

    weight: Tensor
    bias: Tensor | None
    rows: list[int]
    places: list[int]


def joined(x: Float[Tensor, "B L I"], whole: Whole, maps: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
    """x through all of the maps by one product; with gradients, each parameter hears of its own."""
    if not torch.is_grad_enabled():
        return linear(x, whole.weight, whole.bias).split(whole.rows, dim=-1)
    parts = [one.weight for one in maps] + [one.bias for one in maps if one.bias is not None]
    return _Joined.apply(x, whole, *parts)


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, whole: Whole, *parts: Tensor) -> tuple[Tensor, ...]:
        # Parameters are kept beside the whole, so that torch finds out if one was changed before the backward pass.
        ctx.save_for_backward(x, whole.weight, *parts)
        ctx.rows, ctx.biased = whole.rows, whole.bias is not None
        return linear(x, whole.weight, whole.bias).split(whole.rows, dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *_ = ctx.saved_tensors
        wanted, count = ctx.needs_input_grad, 2 + len(ctx.rows)
        needs = wanted[0], any(wanted[2:count]), any(wanted[count:])
        of_x, of_weight, of_bias = gradients(torch.cat(slopes, dim=-1), x, weight, needs=needs)
        nothing = [None] * len(ctx.rows)
        weights = nothing if of_weight is None else of_weight.split(ctx.rows)
        biases = () if not ctx.biased else nothing if of_bias is None else of_bias.split(ctx.rows)
        return of_x, None, *weights, *biases


def plain(maps: Sequence[nn.Module]) -> bool:
    """Whether the maps do nothing but multiply: no adapter in their place, no hook, no parameter made from another."""
    return all(
        type(one) is Projection
        and not one._forward_hooks
        and not one._forward_pre_hooks
        and not one._backward_hooks
        and not one._backward_pre_hooks
        and one._parameters.keys() == {"weight", "bias"}
        for one in maps
    )


def whole_of(maps: Sequence[nn.Linear]) -> Whole | None:
    """The maps as one, without copying; None where they do not lie one behind the other."""
    weights, biases = [one.weight for one in maps], [one.bias for one in maps]
    weight, bias = together(weights), together(biases)
    if weight is None or (bias is None and any(one is not None for one in biases)):
        return None
    return Whole(weight, bias, [one.shape[0] for one in weights], places_of(maps))


def places_of(maps: Sequence[nn.Linear]) -> list[int]:
    """The addresses of their parameters: what tells that one was replaced."""
    return [part.data_ptr() for one in maps for part in one._parameters.values() if part is not None]


def together(parts: Sequence[Tensor | None]) -> Tensor | None:
    """All of them as one tensor, without copying; None where they do not lie one behind the other."""
    first = parts[0]
    if first is None:
        return None
    place, storage = first.data_ptr(), first.untyped_storage().data_ptr()
    for part in parts:
        if part is None or part.data_ptr() != place or part.dtype != first.dtype or not part.is_contiguous():
            return None
        if part.untyped_storage().data_ptr() != storage:  # neighbours by chance
            return None
        place += part.nbytes
    rows = sum(len(part) for part in parts if part is not None)
    return first.detach().as_strided((rows, *first.shape[1:]), first.stride(), first.storage_offset())
