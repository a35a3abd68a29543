"""Calls cut, permuted and looked at from outside: what laws are stated with."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from headway.ops.attention import Call, Mechanism
from headway.ops.mask import Mask, everything
from headway.ops.mask.base import And, Not, Or
from headway.ops.mask.pairs import ALL, Pairs, Where, take
from headway.ops.mask.places import Given, Keep, Segments

# The output of a call, and the gradients of its q, k, v.
Outcome = list[Tensor]


def part(call: Call, *, batch: slice = ALL, rows: Where = ALL, columns: Where = ALL) -> Call:
    """The same call for some rows of the batch, some queries and some keys, each where it stood before.

    A tensor of indices may also permute. Positions are written out, so that what is left keeps its own.
    """
    pairs = call.pairs.at(batch, rows, columns)
    bias = call.bias
    if isinstance(bias, Tensor):
        bias = take(take(take(bias, batch, 0), rows, 2), columns, 3)
    return replace(
        call,
        q=take(take(call.q, batch, 0), rows, 2),
        k=take(take(call.k, batch, 0), columns, 2),
        v=take(take(call.v, batch, 0), columns, 2),
        mask=None if call.mask is None else cut(call.mask, batch, rows, columns),
        positions=Pairs.of(pairs.query, pairs.key) if pairs.known else None,
        bias=bias,
    )


def cut(mask: Mask, batch: slice, rows: Where, columns: Where, heads: slice = ALL) -> Mask:
    """The mask of a part of the call; a relation between positions is the same everywhere."""
    match mask:
        case And(left, right):
            return cut(left, batch, rows, columns, heads) & cut(right, batch, rows, columns, heads)
        case Or(left, right):
            return cut(left, batch, rows, columns, heads) | cut(right, batch, rows, columns, heads)
        case Not(inner):
            return ~cut(inner, batch, rows, columns, heads)
        case Keep(keep):
            return Keep(take(take(keep, batch, 0), columns, 1))
        case Segments(query, key):
            return Segments(take(take(query, batch, 0), rows, 1), take(take(key, batch, 0), columns, 1))
        case Given(allow):
            return Given(take(take(take(take(allow, batch, 0), heads, 1), rows, 2), columns, 3))
        case _:
            return mask


def head(call: Call, index: int) -> Call:
    """One query head alone, with the key/value head it shares."""
    one, group = slice(index, index + 1), index * call.k.shape[1] // call.q.shape[1]
    bias = call.bias
    if bias is not None and not isinstance(bias, Tensor):
        bias = bias.table(bias.parameters, call.pairs)
    return replace(
        call,
        q=call.q[:, one],
        k=call.k[:, group : group + 1],
        v=call.v[:, group : group + 1],
        mask=None if call.mask is None else cut(call.mask, ALL, ALL, ALL, one),
        bias=None if bias is None else take(bias, one, 1),
        parameters={name: take(value, one, 0) for name, value in call.parameters.items()},
    )


def own_mask(mechanism: Mechanism, call: Call) -> Mask:
    """The pattern that the mechanism itself imposes, before any mask of the caller."""
    own = mechanism.pattern_of(call.spec)
    return everything() if own is None else own


def visible(mechanism: Mechanism, call: Call) -> Tensor:
    """Who may see whom, B H L M: the caller's mask within the mechanism's own pattern."""
    own = own_mask(mechanism, call)
    mask = own if call.mask is None else own & call.mask
    return mask.at(call.pairs).expand(*call.q.shape[:3], call.k.shape[2])


def narrowed(call: Call, mask: Mask) -> Call:
    """The same call under one mask more."""
    return replace(call, mask=mask if call.mask is None else call.mask & mask)


def outcome(attend: Callable[[Call], Tensor], call: Call, *, upstream: Tensor | None = None) -> Outcome:
    """The output, and the gradients of q, k, v under an upstream gradient (by default one that repeats nowhere)."""
    with torch.enable_grad():
        q, k, v = (x.detach().clone().requires_grad_() for x in (call.q, call.k, call.v))
        out = attend(replace(call, q=q, k=k, v=v))
        weight = ripple(out) if upstream is None else upstream
        gradients = torch.autograd.grad(out, (q, k, v), weight, materialize_grads=True)
    return [out.detach(), *gradients]


def ripple(x: Tensor) -> Tensor:
    """Numbers of one shape with x that are all different, so that no sum of gradients can hide a swap."""
    return torch.arange(1, x.numel() + 1, dtype=x.dtype, device=x.device).sin().view(x.shape)


def distance(one: Tensor, other: Tensor | float) -> float:
    """The largest absolute difference; NaN counts as infinitely far."""
    difference = (one - other).abs()
    return float(difference.nan_to_num(torch.inf, torch.inf).max()) if difference.numel() else 0.0


def farthest(one: Outcome, other: Outcome) -> float:
    return max(distance(x, y) for x, y in zip(one, other, strict=True))
