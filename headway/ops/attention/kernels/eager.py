"""Scores and weights written out: what references, pictures and the cases without a fused kernel are made of."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headway.ops.attention.call import Call, learning
from headway.ops.attention.kernels.tiles import Tile, cut_extra
from headway.ops.bias import Bias
from headway.ops.mask.pairs import ALL, Pairs
from headway.ops.nonfinite_rows import finite

# (call, q, k, parameters) -> raw scores, before cap, bias and mask
Raw = Callable[[Call, Tensor, Tensor, Mapping[str, Tensor]], Tensor]
# (pairs, table, q, k, v, *extras) -> what these queries gather
Row = Callable[..., Tensor]
NONE: Mapping[str, Tensor] = {}


def dot(call: Call, q: Tensor, k: Tensor, parameters: Mapping[str, Tensor] = NONE) -> Float[Tensor, "B H L M"]:
    """q kᵀ · scale, each group of query heads with its own key head, without copying keys."""
    scale = q.shape[3] ** -0.5 if call.scale is None else call.scale
    batch, heads, queries, width = q.shape
    grouped = (q if scale == 1.0 else q * scale).reshape(batch, k.shape[1], heads // k.shape[1] * queries, width)
    return (grouped @ k.mT).reshape(batch, heads, queries, k.shape[2])


def average(weights: Float[Tensor, "B H L M"], v: Float[Tensor, "B G M W"]) -> Float[Tensor, "B H L W"]:
    """Σ_j weights_ij v_j, each group of query heads with its own value head."""
    batch, heads, queries, keys = weights.shape
    grouped = weights.reshape(batch, v.shape[1], heads // v.shape[1] * queries, keys)
    return (grouped @ v).reshape(batch, heads, queries, v.shape[3])


def normalise(scores: Float[Tensor, "B H L M"], table: Bool[Tensor, "#B #H L M"] | None) -> Float[Tensor, "B H L M"]:
    """Softmax over the allowed keys; a row that may see nothing has weights 0 and gradients 0, never NaN.

    A key whose score is -inf by a bias counts as one that may not be seen.
    """
    if 0 in scores.shape:
        return scores
    held = scores if table is None else scores.masked_fill(~table, float("-inf"))
    return torch.ops.aten._safe_softmax(held, -1)  # of rows of nothing but -inf it makes 0, backwards too


def modify(scores: Tensor, call: Call, bias: Tensor | None) -> Tensor:
    """cap · tanh(scores / cap), then the bias."""
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    return scores if bias is None else scores + bias.to(scores.dtype)


# Up to here the sigmoid's rounding, about cap · 1e-7 in float32, stays below that of the scores themselves.
_SMALL_CAP = 64.0


def modify_quickly(scores: Tensor, call: Call, bias: Tensor | None) -> Tensor:
    """The same up to a constant, which no softmax sees: cap · tanh(s / cap) + cap = 2 cap · sigmoid(2 s / cap).

    A sigmoid takes a third of the time of a tanh, and the scores are nobody else's, so they are overwritten. The
    constant costs digits where the cap is large, so a large cap takes the tanh.
    """
    if call.softcap is not None and call.softcap > _SMALL_CAP:
        return modify(scores, call, bias)
    if call.softcap is not None:
        risen = scores.mul_(2 / call.softcap).sigmoid_()
        scores = risen * (2 * call.softcap) if torch.is_grad_enabled() else risen.mul_(2 * call.softcap)
    return scores if bias is None else scores + bias.to(scores.dtype)


def bias_at(bias: Tensor | Bias | None, parameters: tuple[Tensor, ...], pairs: Pairs) -> Tensor | None:
    """The bias of these pairs: tabulated now if it is lazy; a tensor comes cut to size in `parameters`."""
    if bias is None:
        return None
    return parameters[0] if isinstance(bias, Tensor) else bias.table(parameters, pairs)


def block_of(call: Call, raw: Raw) -> Callable[..., Tensor]:
    """A tile's computation with scores written out, in at least float32."""
    dtype = call.dtype

    def block(tile: Tile, q: Tensor, k: Tensor, v: Tensor, *extras: Tensor) -> Tensor:
        own, parameters = call.split_extras(extras)
        pairs = call.pairs.at(tile.batch, tile.rows, tile.columns)
        scores = raw(call, q.to(dtype), k.to(dtype), parameters)
        scores = modify_quickly(scores, call, bias_at(call.bias, own, pairs))
        table = None if call.mask is None else call.mask.at(pairs)
        return average(normalise(scores, table), v.to(dtype)).to(q.dtype)

    return block


def weights_of(call: Call, rows: slice, heads: slice, raw: Raw) -> Float[Tensor, "B h l M"]:
    """The weights of the rows and heads asked for, and of no others."""
    call = call.quarantined()
    chosen = torch.arange(call.q.shape[1], device=call.q.device)[heads]
    group = chosen // (call.q.shape[1] // call.k.shape[1])
    tile = Tile(ALL, rows, ALL)
    own, parameters = call.split_extras([cut_extra(extra, tile) for extra in call.extras])
    pairs = call.pairs.at(ALL, rows, ALL)
    q, k = call.q[:, heads, rows].to(call.dtype), call.k.index_select(1, group).to(call.dtype)
    bias, table = bias_at(call.bias, own, pairs), None if call.mask is None else _heads(call.mask.at(pairs), heads)
    parameters = {name: value if value.shape[0] == 1 else value[heads] for name, value in parameters.items()}
    scores = scores_of(lambda q, k: raw(call, q, k, parameters), q, k, table)
    return normalise(modify(scores, call, _heads(bias, heads)), table)


def scores_of(raw: Callable[[Tensor, Tensor], Tensor], q: Tensor, k: Tensor, table: Tensor | None) -> Tensor:
    """raw(q, k), one head of keys for each of queries. Where gradients are wanted and something is not finite, row by
    row on the keys that the row may see: backwards, 0 · NaN would carry what is hidden into every gradient."""
    if table is None or not q.shape[2] or not learning(q, k) or (finite(q) and finite(k)):
        return raw(q, k)
    table = table.expand(*q.shape[:3], k.shape[2])
    rows = [raw(q[:, :, i : i + 1], torch.where(table[:, :, i, :, None], k, 0.0)) for i in range(q.shape[2])]
    return torch.cat(rows, 2)


def row_of(call: Call, raw: Raw) -> Row:
    """One query's computation on the keys it may see: hidden keys and values are zeroed for it."""
    heads, dtype = call.q.shape[1], call.dtype

    def row(pairs: Pairs, table: Tensor, q: Tensor, k: Tensor, v: Tensor, *extras: Tensor) -> Tensor:
        own, parameters = call.split_extras(extras)
        seen = table.mT  # B H M 1
        keys = torch.where(seen, expand(k, heads).to(dtype), 0.0)
        scores = raw(call, q.to(dtype), keys, parameters)
        scores = modify(scores, call, bias_at(call.bias, own, pairs))
        return normalise(scores, table) @ torch.where(seen, expand(v, heads).to(dtype), 0.0)

    return row


def expand(x: Float[Tensor, "B G M K"], heads: int) -> Float[Tensor, "B H M K"]:
    """Each key/value head repeated for its group of query heads."""
    return x.repeat_interleave(heads // x.shape[1], 1)


def _heads(x: Tensor | None, heads: slice) -> Tensor | None:
    return x if x is None or x.shape[1] == 1 else x[:, heads]
