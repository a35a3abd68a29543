"""Two counts of a model that runs: dense products of its reference path, executed products of its fast path.

The fast kernels hide their products from torch's counters (or skip some). On the reference path every mechanism is
written with matmul alone, so that a counter of dispatched products counts the equation and not our formula. On the fast
path the fused kernel is counted by the blocks it computes: on its own torch's counter takes CPU attention for 0
(pytorch issue 195460).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from headway.nn.attention import Core
from headway.ops.attention import Call, record_of
from headway.ops.attention.cost import flash_causal
from headway.ops.attention.kernels.eager import average
from headway.ops.mask.pairs import ALL


def reference_attend(call: Call) -> Float[Tensor, "B H L W"]:
    """softmax(q kᵀ) v and its kin with the matrix written out; a mechanism without a matrix by its own products."""
    record = record_of(call.spec)
    if record.products is not None:
        return record.products(call)
    return average(record.weights(call, ALL, ALL), call.v.to(call.dtype)).to(call.q.dtype)


def reference_convolution(conv: nn.Conv2d, input: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B D y x"]:
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
def reference_path(model: nn.Module) -> Iterator[None]:
    """The model with every attention and every grouped convolution by plain products; afterwards as it was."""
    changed: list[nn.Module] = []
    for part in model.modules():
        if isinstance(part, Core):
            part.forward = reference_attend
            changed.append(part)
        elif isinstance(part, nn.Conv2d) and part.groups > 1:
            part.forward = partial(reference_convolution, part)
            changed.append(part)
    try:
        yield
    finally:
        for part in changed:
            del part.forward


FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def _pairs(query: Any, key: Any, causal: bool) -> int:
    batch, heads, length, _ = query
    return batch * heads * (flash_causal(length, key[2]) if causal else length * key[2])


def _kernel(query: Any, key: Any, value: Any, dropout: float = 0.0, is_causal: bool = False, **_: Any) -> int:
    """Two products for each pair computed."""
    return 2 * 2 * _pairs(query, key, is_causal) * query[3]


def _kernel_back(
    gradient: Any, query: Any, key: Any, value: Any, out: Any, total: Any, dropout: float, is_causal: bool, **_: Any
) -> int:
    """Five: the scores once more, then the gradients of values, weights, queries and keys."""
    return 2 * 5 * _pairs(query, key, is_causal) * query[3]


def _convolution_back(
    gradient: Any, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, output_mask: Any, **_: Any,
) -> int:  # fmt: skip
    """One product for each gradient wanted; torch's own rule takes the weights' for as many times that as groups."""
    terms = prod(weight[1:])
    return 2 * prod(x if transposed else gradient) * terms * (output_mask[0] + output_mask[1])


RULES = {FORWARD: _kernel, BACKWARD: _kernel_back, torch.ops.aten.convolution_backward: _convolution_back}


def counter() -> FlopCounterMode:
    """A counter of executed FLOPs."""
    return FlopCounterMode(display=False, custom_mapping=RULES)


def executed_flops(call: Callable[[], Any]) -> int:
    """The FLOPs of the matrix products that a call dispatches.

    >>> x = torch.ones(1, 1, 5, 7)
    >>> executed_flops(lambda: torch.nn.functional.scaled_dot_product_attention(x, x, x)) == 2 * 2 * 5 * 5 * 7
    True
    """
    with counter() as found:
        call()
    return found.get_total_flops()
