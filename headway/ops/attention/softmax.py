"""Softmax attention (Vaswani et al. 2017, arXiv:1706.03762).

    A = softmax(q kᵀ · scale)        out = A v

With a score cap c the scores become c · tanh(scores / c) (arXiv:2408.00118); a bias is added after the cap. A row with
no permitted key attends to nothing: its weights, output and gradients are zero. Scores and softmax are computed in at
least float32.
"""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from headway.config import Softmax, Spec
from headway.ops.attention.call import Call, Mechanism, learning
from headway.ops.attention.explicit import block_of, dot, extras_of, row_of, weights_of
from headway.ops.attention.fused import fused, fused_block, trusted, working_dtype
from headway.ops.attention.guard import guarded
from headway.ops.attention.loop import reference_of
from headway.ops.attention.packed import in_runs, separable
from headway.ops.attention.price import Modifiers, softmax_cost, softmax_operation, tabulated, written_rows
from headway.ops.attention.tiles import ROWS, SMALL, Block, Tile, in_tiles, plan
from headway.ops.mask import Mask
from headway.ops.mask.kernel import Kernel, choose
from headway.ops.mask.pairs import ALL, Pairs
from headway.sizes import Cost, Operation, Sizes


def reference(call: Call) -> Float[Tensor, "B H L W"]:
    """out_i = Σ_j softmax_j(q_i · k_j · scale) v_j over the keys j that i may see, one i at a time."""
    return reference_of(call, row_of(call, dot))


def weights(call: Call, rows: slice = ALL, heads: slice = ALL) -> Float[Tensor, "B h l M"]:
    """A, for the rows and heads asked."""
    return weights_of(call, rows, heads, dot)


def attend(call: Call) -> Float[Tensor, "B H L W"]:
    """The fast path: a fused kernel where one honours the call exactly (for packed texts, one for each run of equal
    lengths), tiles where none does."""
    return attend_in(call, None)


def attend_in(call: Call, tiles: list[Tile] | None) -> Float[Tensor, "B H L W"]:
    """The same with tiles planned by somebody who knows the mask better (None: plan here)."""
    if tiles is None and separable(call):
        return in_runs(call, attend)
    return guarded(call, lambda clean: _in_working_dtype(clean, tiles), row_of(call, dot))


def _in_working_dtype(call: Call, tiles: list[Tile] | None) -> Tensor:
    dtype = working_dtype(call)
    if dtype == call.q.dtype:
        return _attend(call, tiles)
    cast = replace(call, q=call.q.to(dtype), k=call.k.to(dtype), v=call.v.to(dtype))
    return _attend(cast, tiles).to(call.q.dtype)


def _attend(call: Call, tiles: list[Tile] | None) -> Tensor:
    kernel = _kernel(call) if tiles is None else Kernel(tiles=True)
    masked = kernel.tiles or kernel.keep is not None  # so a row may see nothing, which not every kernel bears
    if call.softcap is not None or _bias_learns(call) or (masked and not trusted(call.q.device.type, call.q.dtype)):
        return _tiled(call, block_of(call, dot), tiles, rows=written_rows(call.k.shape[2]))
    if kernel.tiles or (call.bias is not None and not _bias_alone(call)):
        return _tiled(call, fused_block(call), tiles, rows=ROWS)
    return fused(call, kernel)


def _kernel(call: Call) -> Kernel:
    # Without a mask nobody asks for positions, and none need be made.
    return Kernel() if call.mask is None else choose(call.mask, call.pairs)


def _tiled(call: Call, block: Block, tiles: list[Tile] | None, *, rows: int) -> Tensor:
    extras = extras_of(call)
    if tiles is None and (call.q.shape[2] * call.k.shape[2] <= SMALL or _tabulated(call)):
        whole = Tile(ALL, ALL, ALL)
        return block(whole, call.q, call.k, call.v, *(extra.value for extra in extras))
    tiles = plan(call.mask, call.pairs, rows=rows) if tiles is None else tiles
    return in_tiles(block, tiles, call.q, call.k, call.v, *extras)


def _tabulated(call: Call) -> bool:
    plain = call.bias is None and call.softcap is None
    return plain and tabulated(call.mask, call.q.shape[2], call.k.shape[2])


def _bias_learns(call: Call) -> bool:
    return learning(*(extra.value for extra in extras_of(call)))


def _bias_alone(call: Call) -> bool:
    return isinstance(call.bias, Tensor) and call.mask is None


def cost(sizes: Sizes, mask: Mask | None, spec: Spec, pairs: Pairs) -> Cost:
    """dense = B H L M (K + W) multiply-adds; other = 6 FLOPs a score (scale, maximum, subtract, exp, sum, divide)."""
    return softmax_cost(sizes, mask, pairs)


def price(sizes: Sizes, mask: Mask | None, spec: Spec, pairs: Pairs, modifiers: Modifiers) -> Operation:
    return softmax_operation(sizes, mask, pairs, modifiers)


MECHANISM = Mechanism(
    "softmax",
    Softmax,
    reference,
    attend,
    weights,
    cost,
    laws=frozenset({
        "loop", "rows_sum", "groups", "batch", "padding", "quarantine", "empty_rows", "values_linear",
        "weights_are_output", "masked_is_deleted", "keys_permute", "queries_independent", "equivariant", "causal",
        "window_is_full", "keys_shift",
    }),
    price=price,
)  # fmt: skip
