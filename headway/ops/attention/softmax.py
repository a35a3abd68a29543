"""Softmax attention (Vaswani et al. 2017, arXiv:1706.03762).

    A = softmax(q kᵀ · scale)        out = A v

With a score cap c the scores become c · tanh(scores / c) (arXiv:2408.00118); a bias is added after the cap. A row with
no permitted key attends to nothing: its weights, output and gradients are zero. Scores and softmax are computed in at
least float32.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headway.config import Softmax, Spec
from headway.ops.attention.call import Call
from headway.ops.attention.cost import Workload, softmax_operation
from headway.ops.attention.kernels.eager import Row, block_of, dot, row_of, weights_of
from headway.ops.attention.kernels.guard import guarded_call
from headway.ops.attention.kernels.reference import reference_of
from headway.ops.attention.kernels.sdpa import sdpa, tile_kernel, trusted, whole_call
from headway.ops.attention.kernels.tiles import Tile, in_tiles
from headway.ops.attention.kernels.varlen import in_runs
from headway.ops.attention.mechanism import Mechanism, all_pairs, keep_all
from headway.ops.attention.plan import CAUSAL_KERNEL, ONE_KERNEL, Modifiers, Plan, plan
from headway.ops.linear import native_bfloat16
from headway.ops.mask import CAUSAL, causal
from headway.ops.mask.pairs import ALL
from headway.ops.values import real_numbers
from headway.sizes import Operation


def reference(call: Call) -> Float[Tensor, "B H L W"]:
    """out_i = Σ_j softmax_j(q_i · k_j · scale) v_j over the keys j that i may see, one i at a time."""
    return reference_of(call, softmax_row(call))


def attend(call: Call, tiles: Callable[[], list[Tile] | None] | None = None) -> Float[Tensor, "B H L W"]:
    """Softmax attention as it is planned; `tiles` where a mechanism knows its mask better."""
    way = plan_call(call, tiles)
    if way.runs is not None and way.rest is not None:
        return in_runs(call, way.runs, way.rest, attend)
    if call.guard is not None and not call.guard.careful:
        return compute(call, way)
    return guarded_call(call, lambda clean: compute(clean, way), softmax_row)


def plan_call(call: Call, tiles: Callable[[], list[Tile] | None] | None = None) -> Plan:
    """The plan of a call; the commonest ones need no look at anything. `tiles`: a mechanism's own, if it has any."""
    if tiles is None and call.bias is None and call.softcap is None:
        if call.mask is None:
            return ONE_KERNEL
        if call.mask is CAUSAL and call.positions is None and call.q.shape[2] == call.k.shape[2] > 1:
            return CAUSAL_KERNEL
    return call.once("plan", lambda: _plan_call(call, tiles))


def _plan_call(call: Call, tiles: Callable[[], list[Tile] | None] | None) -> Plan:
    modifiers = Modifiers(
        softcap=call.softcap is not None, bias=call.bias is not None,
        rule=call.bias is not None and not isinstance(call.bias, Tensor), learned=call.extras_learn, gradients=True,
    )  # fmt: skip
    with real_numbers():
        safe = trusted(call.q.device.type, kernel_dtype(call))
        return plan(call.mask, call.pairs, modifiers, None if tiles is None else tiles(), safe=safe)


def kernel_dtype(call: Call) -> torch.dtype:
    """float32 where half precision has no fast product on this machine: float16 on any CPU, bfloat16 with gradients."""
    dtype = call.q.dtype
    if dtype.itemsize >= 4:
        return dtype
    if call.bias is not None and not (isinstance(call.bias, Tensor) and call.bias.dtype == dtype):
        return torch.float32  # the kernel would round the bias to the precision of q
    if call.q.device.type != "cpu" or (dtype == torch.bfloat16 and (not call.learns or native_bfloat16())):
        return dtype
    return torch.float32


def compute(call: Call, way: Plan) -> Float[Tensor, "B H L W"]:
    """What the plan says, in the precision that is fast here."""
    if call.q.dtype.itemsize < 4 and (dtype := kernel_dtype(call)) != call.q.dtype:
        cast = replace(call, q=call.q.to(dtype), k=call.k.to(dtype), v=call.v.to(dtype))
        return compute(cast, way).to(call.q.dtype)
    if (way is ONE_KERNEL or way is CAUSAL_KERNEL) and call.bias is None:
        return sdpa(call, call.q, call.k, call.v, None, causal=way.causal)
    if way.tiles is None and not way.table:
        return whole_call(call, causal=way.causal, keep=way.keep)
    block = block_of(call, dot) if way.written else tile_kernel(call)
    if way.tiles is None:
        return block(Tile(ALL, ALL, ALL), call.q, call.k, call.v, *(extra.value for extra in call.extras))
    return in_tiles(block, way.tiles, call.q, call.k, call.v, *call.extras)


def softmax_row(call: Call) -> Row:
    """One query's computation."""
    return row_of(call, dot)


def weights(call: Call, rows: slice = ALL, heads: slice = ALL) -> Float[Tensor, "B h l M"]:
    """A, for the rows and heads asked."""
    return weights_of(call, rows, heads, dot)


def variants(side: int) -> dict[str, dict[str, Any]]:
    return {"softmax": {}, "softmax, causal": {"mask": causal()}}


def operation(spec: Spec, work: Workload) -> Operation:
    """dense = B H L M (K + W) multiply-adds; other = 6 FLOPs a score (scale, maximum, subtract, exp, sum, divide)."""
    return softmax_operation(work)


MECHANISM = Mechanism(
    "softmax",
    Softmax,
    reference,
    attend,
    weights,
    operation,
    laws=frozenset({
        "loop", "rows_sum", "groups", "batch", "padding", "quarantine", "empty_rows", "values_linear",
        "weights_are_output", "masked_is_deleted", "keys_permute", "queries_independent", "equivariant", "causal",
        "window_is_full", "keys_shift",
    }),
    pattern=all_pairs,
    cache=keep_all,
    masks="any",
    scores="dot",
    variants=variants,
)  # fmt: skip
