"""Additive attention (Bahdanau, Cho & Bengio 2015, arXiv:1409.0473).

    score_ij = vector · tanh(q_i + k_j)        A = softmax(score)        out = A v

q and k come projected (W s and U h of the paper); the vector, `H K` or `1 K`, turns the hidden layer into one score.
"""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from headway.config import Additive, Spec
from headway.ops.attention.call import Call, Mechanism
from headway.ops.attention.explicit import block_of, expand, extras_of, row_of, weights_of
from headway.ops.attention.guard import guarded
from headway.ops.attention.loop import reference_of
from headway.ops.attention.price import PER_SCORE, Modifiers, attention_operation, useful_pairs
from headway.ops.attention.tiles import ROWS, in_tiles, plan
from headway.ops.mask import Mask
from headway.ops.mask.pairs import ALL, Pairs
from headway.sizes import Cost, Operation, Sizes
from headway.steps import POSITIONS, WIDTH, Each, Product, softmax_steps

# Hidden units alive in one tile; the hidden layer has K of them for every pair.
_HIDDEN = 2**22


def hidden(call: Call, q: Tensor, k: Tensor, vector: Tensor | None) -> Float[Tensor, "B H L M"]:
    """vector · tanh(q_i + k_j) for all pairs given, times the scale if there is one."""
    if vector is None:
        raise ValueError("additive attention needs vector=, a tensor H K (or 1 K) that turns tanh(q + k) into a score")
    pairs = torch.tanh(q[:, :, :, None] + expand(k, q.shape[1])[:, :, None])
    scores = torch.einsum("BHLMK,HK->BHLM", pairs, vector.to(q.dtype).expand(q.shape[1], -1))
    return scores if call.scale is None else scores * call.scale


def reference(call: Call) -> Float[Tensor, "B H L W"]:
    return reference_of(call, row_of(call, hidden))


def weights(call: Call, rows: slice = ALL, heads: slice = ALL) -> Float[Tensor, "B h l M"]:
    return weights_of(call, rows, heads, hidden)


def attend(call: Call) -> Float[Tensor, "B H L W"]:
    """Tiles of few queries, so that the hidden layer of all pairs is never alive at once."""
    return guarded(call, _attend, row_of(call, hidden))


def _attend(call: Call) -> Tensor:
    tiles = plan(call.mask, call.pairs, rows=_rows(call.sizes))
    return in_tiles(block_of(call, hidden), tiles, call.q, call.k, call.v, *extras_of(call))


def cost(sizes: Sizes, mask: Mask | None, spec: Spec, pairs: Pairs) -> Cost:
    """B H L M (K + W) multiply-adds; other = 2 K FLOPs a pair for the sum and tanh, 5 a score for the softmax."""
    width = sizes.key_width + sizes.value_width
    other = sizes.scores * (2 * sizes.key_width + PER_SCORE - 1)
    executed = None if not sizes.whole else _executed(sizes, mask, pairs) * width
    return Cost(sizes.scores * width, useful_pairs(sizes, mask, pairs) * width, executed, other)


def price(sizes: Sizes, mask: Mask | None, spec: Spec, pairs: Pairs, modifiers: Modifiers) -> Operation:
    """Sum, tanh and an inner product give a score; every tile is computed again before it goes back."""
    plain = cost(sizes, mask, spec, pairs)
    forward = replace(plain, other=plain.other + modifiers.flops * sizes.scores)
    executed = None if forward.executed is None else 3 * forward.executed
    backward = Cost(2 * forward.dense, 2 * forward.useful, executed, 2 * forward.other)
    score = (Each(2), Product(sizes.key_width, WIDTH), *((Each(modifiers.steps),) if modifiers.steps else ()))
    steps = (*score, *softmax_steps(sizes.keys), Product(sizes.keys, POSITIONS))
    return attention_operation(sizes, forward=forward, backward=backward, steps=steps)


def _rows(sizes: Sizes) -> int:
    """How many queries a tile may hold."""
    per_row = sizes.keys * sizes.key_width * sizes.batch * sizes.heads
    return max(1, min(ROWS, _HIDDEN // max(1, per_row)))


def _executed(sizes: Sizes, mask: Mask | None, pairs: Pairs) -> int:
    tiles = plan(mask, pairs, rows=_rows(sizes))
    return sizes.heads * sum(tile.size(sizes.batch, sizes.queries, sizes.keys) for tile in tiles)


MECHANISM = Mechanism(
    "additive",
    Additive,
    reference,
    attend,
    weights,
    cost,
    laws=frozenset({
        "loop", "rows_sum", "groups", "batch", "padding", "quarantine", "empty_rows", "values_linear",
        "weights_are_output", "masked_is_deleted", "keys_permute", "queries_independent", "equivariant", "causal",
        "window_is_full",
    }),
    price=price,
)  # fmt: skip
