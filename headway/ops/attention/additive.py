"""Additive attention (Bahdanau, Cho & Bengio 2015, arXiv:1409.0473).

    score_ij = vector · tanh(q_i + k_j)        A = softmax(score)        out = A v

q and k come projected (W s and U h of the paper); the vector, `H K` or `1 K`, turns the hidden layer into one score.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from headway.config import Additive, Spec
from headway.ops.attention.call import Call
from headway.ops.attention.cost import PER_SCORE, Workload, attention_operation, useful_pairs
from headway.ops.attention.kernels.eager import Row, block_of, expand, row_of, weights_of
from headway.ops.attention.kernels.guard import guarded_call
from headway.ops.attention.kernels.reference import reference_of
from headway.ops.attention.kernels.tiles import ROWS, Tile, in_tiles, plan_tiles
from headway.ops.attention.mechanism import Mechanism, all_pairs, keep_all
from headway.ops.mask.pairs import ALL
from headway.ops.values import real_numbers
from headway.sizes import Cost, Operation, Sizes
from headway.steps import POSITIONS, WIDTH, Each, Product, softmax_steps

# Hidden units alive in one tile; the hidden layer has K of them for every pair.
_HIDDEN = 2**22


def hidden(call: Call, q: Tensor, k: Tensor, parameters: Mapping[str, Tensor]) -> Float[Tensor, "B H L M"]:
    """vector · tanh(q_i + k_j) for all pairs given, times the scale if there is one."""
    if "vector" not in parameters:
        raise ValueError("additive attention needs vector=, a tensor H K (or 1 K) that turns tanh(q + k) into a score")
    pairs = torch.tanh(q[:, :, :, None] + expand(k, q.shape[1])[:, :, None])
    vector = parameters["vector"].to(q.dtype).expand(q.shape[1], -1)
    scores = torch.einsum("BHLMK,HK->BHLM", pairs, vector)
    return scores if call.scale is None else scores * call.scale


def reference(call: Call) -> Float[Tensor, "B H L W"]:
    return reference_of(call, row(call))


def row(call: Call) -> Row:
    return row_of(call, hidden)


def weights(call: Call, rows: slice = ALL, heads: slice = ALL) -> Float[Tensor, "B h l M"]:
    """A, a few rows at a time: the hidden layer has K numbers for each pair."""
    start, stop, step = rows.indices(call.q.shape[2])
    part = step * max(1, (stop - start) // step // call.q.shape[3])
    if part >= stop - start:
        return weights_of(call, rows, heads, hidden)
    some = [slice(at, min(at + part, stop), step) for at in range(start, stop, part)]
    return torch.cat([weights_of(call, one, heads, hidden) for one in some], 2)


def attend(call: Call) -> Float[Tensor, "B H L W"]:
    """Tiles of few queries, so that the hidden layer of all pairs is never alive at once."""
    return guarded_call(call, _attend, row)


def _attend(call: Call) -> Tensor:
    tiles = call.once("tiles", lambda: _plan(call))
    return in_tiles(block_of(call, hidden), tiles, call.q, call.k, call.v, *call.extras)


def _plan(call: Call) -> list[Tile]:
    with real_numbers():
        return plan_tiles(call.mask, call.pairs, rows=_rows(call.sizes))


def operation(spec: Spec, work: Workload) -> Operation:
    """B H L M (K + W) multiply-adds; other = 2 K FLOPs a pair for the sum and tanh, 5 a score for the softmax.

    Sum, tanh and an inner product give a score; every tile is computed again before it goes back.
    """
    sizes, modifiers = work.sizes, work.modifiers
    width = sizes.key_width + sizes.value_width
    other = sizes.scores * (2 * sizes.key_width + PER_SCORE - 1 + modifiers.flops)
    executed = None if not sizes.whole else _executed(work) * width
    forward = Cost(sizes.scores * width, useful_pairs(work) * width, executed, other)
    backward = replace(forward + forward, executed=None if executed is None else 3 * executed)
    score = (Each(2), Product(sizes.key_width, WIDTH), *((Each(modifiers.steps),) if modifiers.steps else ()))
    steps = (*score, *softmax_steps(sizes.keys), Product(sizes.keys, POSITIONS))
    return attention_operation(sizes, forward=forward, backward=backward, steps=steps)


def _rows(sizes: Sizes) -> int:
    """How many queries a tile may hold."""
    per_row = sizes.keys * sizes.key_width * sizes.batch * sizes.heads
    return max(1, min(ROWS, _HIDDEN // max(1, per_row)))


def _executed(work: Workload) -> int:
    sizes = work.sizes
    tiles = plan_tiles(work.mask, work.pairs, rows=_rows(sizes))
    return sizes.heads * sum(tile.size(sizes.batch, sizes.queries, sizes.keys) for tile in tiles)


def parameters(heads: int, key_width: int) -> dict[str, tuple[int, ...]]:
    return {"vector": (heads, key_width)}


MECHANISM = Mechanism(
    "additive",
    Additive,
    reference,
    attend,
    weights,
    operation,
    laws=frozenset({
        "loop", "rows_sum", "groups", "batch", "padding", "quarantine", "empty_rows", "values_linear",
        "weights_are_output", "masked_is_deleted", "keys_permute", "queries_independent", "equivariant", "causal",
        "window_is_full",
    }),
    pattern=all_pairs,
    cache=keep_all,
    parameters=parameters,
    masks="any",
    scores="other",
    scales=False,
)  # fmt: skip
