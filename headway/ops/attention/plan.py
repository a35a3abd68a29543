"""How softmax attention is computed: which kernel, in which tiles. Decided here alone; `attend` and cost follow it.

torch's fused kernel knows causality by index, padding of keys and a bias that is a tensor. It serves whatever it
honours exactly; packed texts go to it run by run. Everything else is computed in tiles, by the same kernel with a table
of what the tile may see; or, for a score cap or a bias that learns, with scores written out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headway.ops.attention.call import Call
from headway.ops.attention.kernels.eager import Row, block_of, dot, row_of
from headway.ops.attention.kernels.guard import guarded_call
from headway.ops.attention.kernels.sdpa import sdpa, tile_kernel, trusted, whole_call
from headway.ops.attention.kernels.tiles import ROWS, Tile, in_tiles, plan_tiles
from headway.ops.attention.kernels.varlen import in_runs
from headway.ops.linear import native_bfloat16
from headway.ops.mask import Mask, causal
from headway.ops.mask.by_index import Given
from headway.ops.mask.kernel import choose, unpacked
from headway.ops.mask.pairs import ALL, Pairs
from headway.ops.values import real_numbers

# Below this many scores per head a table costs nothing, and one dense tile beats a plan.
SMALL = 2**17
# Scores of one head that are alive at once where they are written out.
CACHED = 2**18
CAUSAL = causal()  # the mask of a causal layer under no other: known by identity


@dataclass(frozen=True)
class Modifiers:
    """What is done to scores besides the mask, and whether gradients are wanted (a bias that learns is written out)."""

    scaled: bool = True
    early: bool = False  # the scale is laid on the queries before they meet the keys: no step of depth here
    softcap: bool = False
    bias: bool = False
    rule: bool = False  # the bias is a rule over positions, not a tensor
    learned: bool = False  # the bias has parameters
    gradients: bool = False

    @property
    def written(self) -> bool:
        """Whether scores are written out: no fused kernel knows a cap, or the gradient of a bias."""
        return self.softcap or (self.learned and self.gradients)

    @property
    def flops(self) -> int:
        """FLOPs a score: the scale; divide, tanh and multiply for a cap; add for a bias."""
        return self.scaled + 3 * self.softcap + self.bias

    @property
    def steps(self) -> int:
        return self.flops - (self.scaled and self.early)


PLAIN = Modifiers()


@dataclass(frozen=True, eq=False)
class Plan:
    """One kernel for the whole call, or one for each tile; `written`: scores are written out instead.

    A call that one kernel serves has causality by index (`causal`) or not, and keys that are padding (`keep`). Where
    `table` is set it is given a table of all pairs instead. `runs` are lengths of packed texts, `rest` what else their
    mask demands.
    """

    causal: bool = False
    keep: Bool[Tensor, "b M"] | None = None
    table: bool = False
    tiles: list[Tile] | None = None
    written: bool = False
    runs: tuple[int, ...] | None = None
    rest: tuple[Mask, ...] | None = None


_ONE_KERNEL, _CAUSAL_KERNEL = Plan(), Plan(causal=True)


def plan_call(call: Call, tiles: Callable[[], list[Tile] | None] | None = None) -> Plan:
    """The plan of a call; the commonest ones need no look at anything. `tiles`: a mechanism's own, if it has any."""
    if tiles is None and call.bias is None and call.softcap is None:
        if call.mask is None:
            return _ONE_KERNEL
        if call.mask is CAUSAL and call.positions is None and call.q.shape[2] == call.k.shape[2] > 1:
            return _CAUSAL_KERNEL
    return call.once("plan", lambda: _plan_call(call, tiles))


def _plan_call(call: Call, tiles: Callable[[], list[Tile] | None] | None) -> Plan:
    modifiers = Modifiers(
        softcap=call.softcap is not None, bias=call.bias is not None,
        rule=call.bias is not None and not isinstance(call.bias, Tensor), learned=call.extras_learn, gradients=True,
    )  # fmt: skip
    with real_numbers():
        safe = trusted(call.q.device.type, kernel_dtype(call))
        return plan(call.mask, call.pairs, modifiers, None if tiles is None else tiles(), safe=safe)


def plan(
    mask: Mask | None, pairs: Pairs, modifiers: Modifiers, tiles: list[Tile] | None = None, *, safe: bool = True
) -> Plan:
    """The narrowest way that honours the call exactly; `tiles` where a mechanism knows its mask better.

    Where the kernel is not `safe` with rows that see nothing, whatever hides keys is written out.
    """
    packs = None if mask is None or tiles is not None or (modifiers.bias and not modifiers.rule) else unpacked(mask)
    if packs is not None:
        return Plan(runs=packs[0], rest=packs[1])
    kernel = choose(mask, pairs) if mask is not None else None
    hides = tiles is not None or (kernel is not None and (kernel.tiles or kernel.keep is not None))
    written = modifiers.written or (hides and not safe)
    alone = not (modifiers.bias and (mask is not None or modifiers.rule))
    if tiles is None and not written and alone and not (kernel is not None and kernel.tiles):
        return _ONE_KERNEL if kernel is None else Plan(causal=kernel.causal, keep=kernel.keep)
    if tiles is None and (_small(pairs) or (_tabulated(mask, pairs) and not (modifiers.bias or modifiers.softcap))):
        return Plan(table=True, written=written)
    rows = written_rows(pairs.shape[1]) if written else ROWS
    return Plan(tiles=plan_tiles(mask, pairs, rows=rows) if tiles is None else tiles, written=written)


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


def _small(pairs: Pairs) -> bool:
    return pairs.shape[0] * pairs.shape[1] <= SMALL


def _tabulated(mask: Mask | None, pairs: Pairs) -> bool:
    """Whether the caller brought a table of all pairs: cutting it up saves no memory, and the kernel takes it whole."""
    parts = () if mask is None else mask.parts()
    return any(isinstance(part, Given) and part.allow.shape[2:] == pairs.shape for part in parts)


def written_rows(keys: int) -> int:
    """Queries in a tile whose scores are written out: as many as keep the tile in the processor's cache."""
    return max(16, min(ROWS, CACHED // max(1, keys)))


def attend(call: Call, tiles: Callable[[], list[Tile] | None] | None = None) -> Float[Tensor, "B H L W"]:
    """Softmax attention as it is planned; `tiles` where a mechanism knows its mask better."""
    plan = plan_call(call, tiles)
    if plan.runs is not None and plan.rest is not None:
        return in_runs(call, plan.runs, plan.rest, attend)
    if call.guard is not None and not call.guard.careful:
        return compute(call, plan)
    return guarded_call(call, lambda clean: compute(clean, plan), softmax_row)


def compute(call: Call, plan: Plan) -> Float[Tensor, "B H L W"]:
    """What the plan says, in the precision that is fast here."""
    if call.q.dtype.itemsize < 4 and (dtype := kernel_dtype(call)) != call.q.dtype:
        cast = replace(call, q=call.q.to(dtype), k=call.k.to(dtype), v=call.v.to(dtype))
        return compute(cast, plan).to(call.q.dtype)
    if (plan is _ONE_KERNEL or plan is _CAUSAL_KERNEL) and call.bias is None:
        return sdpa(call, call.q, call.k, call.v, None, causal=plan.causal)
    if plan.tiles is None and not plan.table:
        return whole_call(call, causal=plan.causal, keep=plan.keep)
    block = block_of(call, dot) if plan.written else tile_kernel(call)
    if plan.tiles is None:
        return block(Tile(ALL, ALL, ALL), call.q, call.k, call.v, *(extra.value for extra in call.extras))
    return in_tiles(block, plan.tiles, call.q, call.k, call.v, *call.extras)


def softmax_row(call: Call) -> Row:
    """One query's computation."""
    return row_of(call, dot)
