"""FLOPs that really run: torch's counter of dispatched products, with the fused kernel counted by the blocks it
computes. On its own the counter takes CPU attention for 0 (pytorch issue 195460)."""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from headway.ops.attention.cost import flash_causal

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
