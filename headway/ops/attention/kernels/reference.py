"""One query at a time: the reference that defines what is right, and the careful path for what is not finite."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headway.ops.attention.call import Call
from headway.ops.attention.kernels.eager import Row
from headway.ops.attention.kernels.tiles import Tile, cut_extra, in_tiles
from headway.ops.mask.pairs import ALL, Pairs


def reference_of(call: Call, row: Row) -> Float[Tensor, "B H L W"]:
    """The equation, query by query, on the keys that query may see. Slow, and the definition of right."""
    found = []
    for tile in _rows(call):
        pairs = call.pairs.at(ALL, tile.rows, ALL)
        cut = (cut_extra(extra, tile) for extra in call.extras)
        found.append(row(pairs, _table(call, pairs), call.q[:, :, tile.rows], call.k, call.v, *cut))
    return torch.cat(found, 2).to(call.q.dtype) if found else call.q.new_zeros(*call.q.shape[:3], call.v.shape[3])


def careful_rows(call: Call, row: Row) -> Float[Tensor, "B H L W"]:
    """The same where a key holds NaN or inf: it arrives in the rows that may see it, and nowhere else.

    In the backward pass a row without a gradient is made to see nothing, since 0 x NaN is NaN.
    """

    def block(tile: Tile, q: Tensor, k: Tensor, v: Tensor, *extras: Tensor, silent: Tensor | None = None) -> Tensor:
        pairs = call.pairs.at(tile.batch, tile.rows, tile.columns)
        table = _table(call, pairs)
        if silent is not None:
            table, q = table & ~silent, q.masked_fill(silent, 0)
        return row(pairs, table, q, k, v, *extras)

    return in_tiles(block, _rows(call), call.q, call.k, call.v, *call.extras, careful=True)


def _rows(call: Call) -> list[Tile]:
    return [Tile(ALL, slice(index, index + 1), ALL) for index in range(call.q.shape[2])]


def _table(call: Call, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
    if call.mask is not None:
        return call.mask.at(pairs)
    return torch.ones(1, 1, *pairs.shape, dtype=torch.bool, device=call.q.device)
