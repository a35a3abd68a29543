"""Attention by plain products on whole tensors: what the dense count is a count of.

The fast kernels hide their products from torch's counters (or skip some); here every mechanism is written with matmul
alone, so that a counter of dispatched products counts the equation and not our formula.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headway.config import Channel, Linear, Softmax, Spatial
from headway.config.base import sides
from headway.nn.attention import Core
from headway.ops.attention import Call, record_of
from headway.ops.attention.explicit import average, expand
from headway.ops.attention.linear import feature_of
from headway.ops.attention.scan import divide
from headway.ops.attention.spatial import window_tiles
from headway.ops.mask.kernel import is_causal, kept_keys
from headway.ops.mask.pairs import ALL


def plain_attend(call: Call) -> Float[Tensor, "B H L W"]:
    """softmax(q kᵀ) v and its kin with the matrix written out; linear attention by its sums; channels as they are."""
    record = record_of(call)
    if isinstance(call.options, Channel):
        return record.attend(call)
    if isinstance(call.options, Linear):
        return _linear(call, call.options)
    if isinstance(call.options, Spatial) and call.options.window is not None and call.mask is None:
        return _windows(call, call.options)
    return average(record.weights(call, ALL, ALL), call.v.to(call.dtype)).to(call.q.dtype)


def _windows(call: Call, spec: Spatial) -> Tensor:
    """Each window for itself."""
    assert spec.window is not None
    out = call.q.new_zeros(*call.q.shape[:3], call.v.shape[3])
    for tile in window_tiles(spec.grid, sides(spec.window), call.q.device):
        q, k, v = (x[:, :, tile.rows] for x in (call.q, call.k, call.v))
        inner = replace(call, q=q, k=k, v=v, options=Softmax(), query_positions=None, key_positions=None)
        out[:, :, tile.rows] = plain_attend(inner)
    return out


def _linear(call: Call, spec: Linear) -> Tensor:
    """g(q) · Σ g(k) [v, 1]ᵀ, the ones gathering the normaliser: of all keys, or the running total at each token."""
    g = feature_of(spec)
    keep = None if call.mask is None else kept_keys(call.mask)
    q, k = g(call.q), g(call.k)
    k = k if keep is None else k.masked_fill(~keep[:, None, :, None], 0)
    v = torch.cat([call.v, torch.ones_like(call.v[..., :1])], -1)
    if not is_causal(call.mask):
        found = q @ expand(k.mT @ v, q.shape[1])
    else:
        totals = (k[..., None] @ v[..., None, :]).cumsum(2)  # B G M R V
        found = (q[..., None, :] @ totals.repeat_interleave(q.shape[1] // k.shape[1], 1)).squeeze(-2)
    return divide(found[..., :-1], found[..., -1:])


def plain_convolution(conv: nn.Conv2d, input: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B D y x"]:
    """A grouped convolution as one product for each group, of its kernels with what they see.

    torch's counter takes the weights' gradient of g groups for g times what it is (docs/log.md).
    """
    sides = [(size + 2 * int(pad) - kernel) // stride + 1 for size, pad, kernel, stride in zip(
        input.shape[2:], conv.padding, conv.kernel_size, conv.stride, strict=True)]  # fmt: skip
    seen = F.unfold(input, conv.kernel_size, padding=conv.padding, stride=conv.stride)  # type: ignore[arg-type]
    seen = seen.unflatten(1, (conv.groups, -1))
    kernels = conv.weight.flatten(1).unflatten(0, (conv.groups, -1)).expand(len(input), -1, -1, -1)
    found = (kernels @ seen).flatten(1, 2).unflatten(2, sides)
    return found if conv.bias is None else found + conv.bias[:, None, None]


@contextmanager
def plain(model: nn.Module) -> Iterator[None]:
    """The model with every attention and every grouped convolution by plain products; afterwards as it was."""
    changed: list[nn.Module] = []
    for part in model.modules():
        if isinstance(part, Core):
            part.forward = plain_attend
            changed.append(part)
        elif isinstance(part, nn.Conv2d) and part.groups > 1:
            part.forward = partial(plain_convolution, part)
            changed.append(part)
    try:
        yield
    finally:
        for part in changed:
            del part.forward
