"""Spatial attention over a Y x X grid (two-dimensional softmax attention).

    A[y, x, y', x'] = softmax over both y' and x' of q[y, x] · k[y', x'] · scale        out[y, x] = Σ A v[y', x']

Positions stand row by row, so the whole grid is softmax attention on the flattened grid; with a window, each tile of
the grid attends within itself (as Swin and DaViT do), and its cost grows with L times the window.
"""

from dataclasses import replace
from random import Random
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from headway.config import Pair, Softmax, Spatial, sides
from headway.ops.attention import softmax
from headway.ops.attention.call import Call
from headway.ops.attention.cost import (
    PER_SCORE,
    Workload,
    attention_operation,
    softmax_depth,
    softmax_operation,
    useful_pairs,
)
from headway.ops.attention.kernels.eager import average, expand, normalise
from headway.ops.attention.kernels.tiles import Tile, length
from headway.ops.attention.mechanism import CacheNeed, Mechanism
from headway.ops.mask import Mask, padding, tiles
from headway.ops.mask.pairs import ALL
from headway.sizes import Cost, Operation


def pattern(spec: Spatial) -> Mask | None:
    """Windows that do not overlap; None for the whole grid."""
    return None if spec.window is None else tiles(spec.window, grid=spec.grid)


def reference(call: Call) -> Float[Tensor, "B H L W"]:
    """The equation with both axes written out where there is no mask; row by row with one."""
    rows, columns = _grid(call)
    if call.mask is not None or call.bias is not None or call.softcap is not None or _spec(call).window is not None:
        return softmax.reference(_flat(call))
    heads, scale = call.q.shape[1], call.q.shape[3] ** -0.5 if call.scale is None else call.scale
    q, k, v = (
        rearrange(expand(x, heads).to(call.dtype), "B H (Y X) K -> B H Y X K", Y=rows, X=columns)
        for x in (call.q, call.k, call.v)
    )
    scores = torch.einsum("BHyxK,BHYXK->BHyxYX", q, k) * scale
    weights = normalise(scores.flatten(4).flatten(2, 3), None).view(scores.shape)
    out = torch.einsum("BHyxYX,BHYXW->BHyxW", weights, v)
    return rearrange(out, "B H Y X W -> B H (Y X) W").to(call.q.dtype)


def weights(call: Call, rows: slice = ALL, heads: slice = ALL) -> Float[Tensor, "B h l M"]:
    """A with both grids flattened row by row."""
    return softmax.weights(_flat(call), rows, heads)


def attend(call: Call) -> Float[Tensor, "B H L W"]:
    """The whole grid at once, or all windows side by side as one batch."""
    spec, grid = _spec(call), _grid(call)
    if spec.window is None:
        return softmax.attend(_flat(call))
    if call.positions is not None:
        return softmax.attend(_flat(call))
    side = sides(spec.window)
    if call.mask is None and call.bias is None and call.softcap is None:
        return _in_windows(call, grid, side)
    return softmax.attend(_flat(call), lambda: window_tiles(grid, side, call.q.device))


def _in_windows(call: Call, grid: Pair, side: Pair) -> Tensor:
    """Cut the grid into windows (padded at the far edges), attend in each, and put them together again."""
    heads = call.q.shape[1]
    rows, columns = (-(-size // part) for size, part in zip(grid, side, strict=True))
    pad = (0, 0, 0, columns * side[1] - grid[1], 0, rows * side[0] - grid[0])
    pattern = "B H (a y) (b x) K -> (B a b) H (y x) K"

    def cut(x: Tensor) -> Tensor:
        whole = x.unflatten(2, grid)
        whole = F.pad(whole, pad) if any(pad) else whole
        return rearrange(whole, pattern, y=side[0], x=side[1])

    q, k, v = cut(call.q), cut(expand(call.k, heads)), cut(expand(call.v, heads))
    inside = cut(torch.ones_like(call.q[:, :1, :, :1]))[:, 0, :, 0] > 0 if any(pad) else None
    mask = None if inside is None else padding(keep=inside)
    out = softmax.attend(replace(call, q=q, k=k, v=v, mask=mask, shared=None))
    back = "(B a b) H (y x) W -> B H (a y) (b x) W"
    out = rearrange(out, back, a=rows, b=columns, y=side[0], x=side[1])[:, :, : grid[0], : grid[1]]
    return out.flatten(2, 3)


def window_tiles(grid: Pair, side: Pair, device: torch.device) -> list[Tile]:
    """The positions of each window, cut at the edges."""
    index = torch.arange(grid[0] * grid[1], device=device).view(grid)
    blocks = [block for band in index.split(side[0], 0) for block in band.split(side[1], 1)]
    return [Tile(ALL, block.reshape(-1), block.reshape(-1)) for block in blocks]


def _flat(call: Call) -> Call:
    """The same as softmax attention on the flattened grid, the windows as a mask."""
    _grid(call)
    return call.under(call.once("pattern", lambda: pattern(_spec(call))))


def products(call: Call) -> Float[Tensor, "B H L W"]:
    """Each window for itself, by products of whole tensors."""
    spec = _spec(call)
    if spec.window is None or call.mask is not None:
        return average(weights(call), call.v.to(call.dtype)).to(call.q.dtype)
    out = call.q.new_zeros(*call.q.shape[:3], call.v.shape[3])
    for tile in window_tiles(spec.grid, sides(spec.window), call.q.device):
        q, k, v = (x[:, :, tile.rows] for x in (call.q, call.k, call.v))
        inner = softmax.weights(replace(call, q=q, k=k, v=v, spec=Softmax(), positions=None))
        out[:, :, tile.rows] = average(inner, v.to(call.dtype)).to(call.q.dtype)
    return out


def _spec(call: Call) -> Spatial:
    assert isinstance(call.spec, Spatial)
    return call.spec


def _grid(call: Call) -> Pair:
    rows, columns = _spec(call).grid
    if not call.q.shape[2] == call.k.shape[2] == rows * columns:
        raise ValueError(
            f"a grid of {rows} x {columns} has {rows * columns} positions; there are {call.q.shape[2]} queries and "
            f"{call.k.shape[2]} keys"
        )
    return rows, columns


def cache(spec: Spatial) -> CacheNeed:
    return CacheNeed("none", why="a grid is attended to as a whole: spatial attention cannot be read token by token")


def operation(spec: Spatial, work: Workload) -> Operation:
    """As softmax on the flattened grid. Windows are attentions of their own: dense counts the pairs within them, and
    executed their padding."""
    if spec.window is None:
        return softmax_operation(work)
    sizes, modifiers = work.sizes, work.modifiers
    windows = window_tiles(spec.grid, sides(spec.window), torch.device("cpu"))
    inside = sizes.batch * sizes.heads * sum(length(tile.rows, 0) ** 2 for tile in windows)
    width, other = sizes.key_width + sizes.value_width, (PER_SCORE - 1 + modifiers.flops) * inside
    seen = inside
    if work.mask is not None:
        seen = useful_pairs(replace(work, mask=work.mask & tiles(spec.window, grid=spec.grid)))
    tiled = work.mask is not None or modifiers.bias
    computed = _windowed_pairs(spec.grid, sides(spec.window), masked=tiled) * sizes.batch * sizes.heads
    one = computed * max(sizes.key_width, sizes.value_width)
    deepest = replace(sizes, keys=max(length(tile.rows, 0) for tile in windows))
    return attention_operation(
        sizes,
        forward=Cost(inside * width, seen * width, 2 * one, other),
        backward=Cost(2 * inside * width, 2 * seen * width, (7 if tiled else 5) * one, 2 * other),
        steps=softmax_depth(deepest, modifiers),
    )


def variants(side: int) -> dict[str, dict[str, Any]]:
    whole = {"grid": (side, side)}
    return {f"spatial, {side} x {side}": whole, f"spatial, {side} x {side} in windows of 6": whole | {"window": 6}}


def examples(random: Random) -> dict[str, Any]:
    return {"grid": random.choice([(3, 5), (5, 3), (4, 5)]), "window": random.choice([None, 2, (2, 3)])}


def _windowed_pairs(grid: Pair, side: Pair, *, masked: bool) -> int:
    """Pairs that are computed: whole windows side by side, or tile by tile under a mask, cut at the edges."""
    if masked:
        return sum(length(tile.rows, 0) ** 2 for tile in window_tiles(grid, side, torch.device("cpu")))
    rows, columns = (part * -(-size // part) for size, part in zip(grid, side, strict=True))
    return rows * columns * side[0] * side[1]


MECHANISM = Mechanism(
    "spatial",
    Spatial,
    reference,
    attend,
    weights,
    operation,
    laws=frozenset({
        "loop", "rows_sum", "groups", "batch", "padding", "quarantine", "empty_rows", "values_linear",
        "weights_are_output", "keys_permute", "queries_independent", "causal", "window_is_full", "flattened",
        "keys_shift",
    }),
    pattern=pattern,
    cache=cache,
    masks="any",
    scores="dot",
    products=products,
    examples=examples,
    variants=variants,
)  # fmt: skip
