"""Local attention: softmax over near keys, on a sequence (arXiv:2004.05150) or on a grid (arXiv:2204.07143).

    A = softmax(q kᵀ · scale  where |i - j| < window)        out = A v

With a dilation d only every d-th key counts; `selected` positions and global tokens (negative positions) see all and
are seen by all. Each pattern is computed in tiles that hold the keys they need, so time and memory grow with
L x window, not with L².
"""

from dataclasses import replace
from random import Random
from typing import Any

from jaxtyping import Float
from torch import Tensor

from headway.config import Local, sides
from headway.ops.attention import softmax
from headway.ops.attention.call import Call
from headway.ops.attention.cost import Workload, softmax_operation
from headway.ops.attention.kernels.window import plan_neighbours
from headway.ops.attention.mechanism import CacheNeed, Mechanism
from headway.ops.mask import Mask, causal, dilated, global_tokens, selected
from headway.ops.mask.pairs import ALL
from headway.sizes import Operation


def pattern(spec: Local) -> Mask:
    """The mask that a local spec stands for."""
    near = dilated(spec.window, dilation=spec.dilation, grid=spec.grid)
    near = near | selected(spec.selected) if spec.selected else near
    return near | global_tokens() if spec.global_tokens else near


def reference(call: Call) -> Float[Tensor, "B H L W"]:
    return softmax.reference(_masked(call))


def weights(call: Call, rows: slice = ALL, heads: slice = ALL) -> Float[Tensor, "B h l M"]:
    return softmax.weights(_masked(call), rows, heads)


def attend(call: Call) -> Float[Tensor, "B H L W"]:
    """Tiles of neighbours where positions run 0, 1, 2 …; elsewhere tiles of the ranges that positions allow."""
    return softmax.attend(_masked(call), lambda: plan_neighbours(_spec(call), call.mask, call.pairs))


def _masked(call: Call) -> Call:
    return call.under(call.once("pattern", lambda: pattern(_spec(call))))


def _spec(call: Call) -> Local:
    assert isinstance(call.spec, Local)
    return call.spec


def cache(spec: Local) -> CacheNeed:
    """A plain causal window sees so many of the last tokens; whoever selects tokens may see any."""
    if spec.grid is not None or spec.selected or spec.global_tokens:
        return CacheNeed()
    return CacheNeed("window", window=(sides(spec.window)[1] - 1) * sides(spec.dilation)[1] + 1)


def operation(spec: Local, work: Workload) -> Operation:
    """As softmax, under the mask of the pattern; executed counts the tiles."""
    whole = pattern(spec) if work.mask is None else pattern(spec) & work.mask
    tiles = plan_neighbours(spec, work.mask, work.pairs) if work.sizes.whole else None
    return softmax_operation(replace(work, mask=whole), tiles)


def variants(side: int) -> dict[str, dict[str, Any]]:
    window = max(2, side * side // 16)
    return {
        f"local, causal window {window}": {"mask": causal(), "window": window},
        f"local, window {window} of every 2nd": {"window": window, "dilation": 2},
        f"local, window {window} + 2 selected": {"window": window, "selected": (0, side * side // 2)},
        f"local, {side} x {side} grid, window 3": {"window": 3, "grid": (side, side)},
    }


def examples(random: Random) -> dict[str, Any]:
    options: dict[str, Any] = {"window": random.choice([1, 2, 3]), "dilation": random.choice([1, 1, 2])}
    grid = random.choice([(3, 5), (5, 3), (4, 5)])
    if random.random() < 0.5:
        options = {"window": (2, 3), "dilation": (1, random.choice([1, 2])), "grid": grid}
    return options | {"selected": random.choice([(), (1, 6)]), "global_tokens": random.random() < 0.4}


MECHANISM = Mechanism(
    "local",
    Local,
    reference,
    attend,
    weights,
    operation,
    laws=frozenset({
        "loop", "rows_sum", "groups", "batch", "padding", "quarantine", "empty_rows", "values_linear",
        "weights_are_output", "masked_is_deleted", "keys_permute", "queries_independent", "causal", "window_is_full",
        "flattened", "keys_shift",
    }),
    pattern=pattern,
    cache=cache,
    masks="any",
    scores="dot",
    examples=examples,
    variants=variants,
)  # fmt: skip
