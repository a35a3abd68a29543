"""How softmax attention is computed: which kernel, in which tiles. Decided here alone; softmax.py and cost follow it.

torch's fused kernel knows causality by index, padding of keys and a bias that is a tensor. It serves whatever it
honours exactly; packed texts go to it run by run. Everything else is computed in tiles, by the same kernel with a table
of what the tile may see; or, for a score cap or a bias that learns, with scores written out.
"""

from dataclasses import dataclass

from jaxtyping import Bool
from torch import Tensor

from headway.ops.attention.kernels.tiles import ROWS, Tile, plan_tiles
from headway.ops.mask import Mask
from headway.ops.mask.by_index import Given
from headway.ops.mask.kernel import choose, unpacked
from headway.ops.mask.pairs import Pairs

# Below this many scores per head a table costs nothing, and one dense tile beats a plan.
SMALL = 2**17
# Scores of one head that are alive at once where they are written out.
CACHED = 2**18


@dataclass(frozen=True)
class Modifiers:
    """What is done to scores besides the mask, and whether gradients are wanted (a bias that learns is written out)."""

    scaled: bool = True
    early: bool = False  # queries are multiplied by the scale before q kᵀ: no step of depth here
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


ONE_KERNEL, CAUSAL_KERNEL = Plan(), Plan(causal=True)


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
        return ONE_KERNEL if kernel is None else Plan(causal=kernel.causal, keep=kernel.keep)
    if tiles is None and (_small(pairs) or (_tabulated(mask, pairs) and not (modifiers.bias or modifiers.softcap))):
        return Plan(table=True, written=written)
    rows = written_rows(pairs.shape[1]) if written else ROWS
    return Plan(tiles=plan_tiles(mask, pairs, rows=rows) if tiles is None else tiles, written=written)


def _small(pairs: Pairs) -> bool:
    return pairs.shape[0] * pairs.shape[1] <= SMALL


def _tabulated(mask: Mask | None, pairs: Pairs) -> bool:
    """Whether the caller brought a table of all pairs: cutting it up saves no memory, and the kernel takes it whole."""
    parts = () if mask is None else mask.parts()
    return any(isinstance(part, Given) and part.allow.shape[2:] == pairs.shape for part in parts)


def written_rows(keys: int) -> int:
    """Queries in a tile whose scores are written out: as many as keep the tile in the processor's cache."""
    return max(16, min(ROWS, CACHED // max(1, keys)))
