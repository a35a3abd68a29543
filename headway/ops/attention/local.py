"""Local attention: softmax over near keys, on a sequence (arXiv:2004.05150) or on a grid (arXiv:2204.07143).

    A = softmax(q kᵀ · scale  where |i - j| < window)        out = A v

With a dilation only every step-th key counts; `selected` positions and global tokens (negative positions) see all and
are seen by all. Each pattern is computed in tiles that hold the keys they need, so time and memory grow with
L x window, not with L².
"""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from headway.config import Local, Spec
from headway.ops.attention import softmax
from headway.ops.attention.call import Call, Mechanism
from headway.ops.attention.neighbours import plan_neighbours
from headway.ops.attention.price import PLAIN, Modifiers, softmax_operation
from headway.ops.mask import Mask, dilated, global_tokens, selected
from headway.ops.mask.pairs import ALL, Pairs
from headway.sizes import Cost, Operation, Sizes


def pattern(spec: Local) -> Mask:
    """The mask that a local spec stands for."""
    near = dilated(spec.window, step=spec.dilation, grid=spec.grid)
    near = near | selected(spec.selected) if spec.selected else near
    return near | global_tokens() if spec.global_tokens else near


def reference(call: Call) -> Float[Tensor, "B H L W"]:
    return softmax.reference(_masked(call))


def weights(call: Call, rows: slice = ALL, heads: slice = ALL) -> Float[Tensor, "B h l M"]:
    return softmax.weights(_masked(call), rows, heads)


def attend(call: Call) -> Float[Tensor, "B H L W"]:
    """Tiles of neighbours where positions run 0, 1, 2 …; elsewhere tiles of the ranges that positions allow."""
    masked = _masked(call)
    return softmax.attend_in(masked, plan_neighbours(_spec(call), call.mask, call.pairs))


def _masked(call: Call) -> Call:
    mask = pattern(_spec(call))
    return replace(call, mask=mask if call.mask is None else mask & call.mask)


def _spec(call: Call) -> Local:
    assert isinstance(call.options, Local)
    return call.options


def cost(sizes: Sizes, mask: Mask | None, spec: Spec, pairs: Pairs) -> Cost:
    """As softmax, under the mask of the pattern; executed counts the tiles."""
    return price(sizes, mask, spec, pairs, PLAIN).forward


def price(sizes: Sizes, mask: Mask | None, spec: Spec, pairs: Pairs, modifiers: Modifiers) -> Operation:
    assert isinstance(spec, Local)
    whole = pattern(spec) if mask is None else pattern(spec) & mask
    tiles = plan_neighbours(spec, mask, pairs) if sizes.whole else None
    return softmax_operation(sizes, whole, pairs, modifiers, tiles)


MECHANISM = Mechanism(
    "local",
    Local,
    reference,
    attend,
    weights,
    cost,
    laws=frozenset({
        "loop", "rows_sum", "groups", "batch", "padding", "quarantine", "empty_rows", "values_linear",
        "weights_are_output", "masked_is_deleted", "keys_permute", "queries_independent", "causal", "window_is_full",
        "flattened", "keys_shift",
    }),
    price=price,
)  # fmt: skip
