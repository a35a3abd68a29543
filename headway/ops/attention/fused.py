"""torch's fused kernel, used only where it is exactly right: under a guard, and after a canary sang."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.ops.attention.call import Call
from headway.ops.attention.explicit import bias_at
from headway.ops.attention.guard import learns
from headway.ops.attention.tiles import Tile, length
from headway.ops.linear import native_bfloat16
from headway.ops.mask import Mask
from headway.ops.mask.kernel import Kernel, kept_keys, without_padding
from headway.ops.mask.pairs import take
from headway.ops.mask.positions import Causal, Window


def working_dtype(call: Call) -> torch.dtype:
    """float32 where half precision has no fast product on this machine: float16 on any CPU, bfloat16 with gradients."""
    if call.q.dtype.itemsize >= 4:
        return call.q.dtype
    if call.bias is not None and not (isinstance(call.bias, Tensor) and call.bias.dtype == call.q.dtype):
        return torch.float32  # the kernel would round the bias to the precision of q
    if call.q.device.type != "cpu":
        return call.q.dtype
    if call.q.dtype == torch.bfloat16 and (not learns(call) or native_bfloat16()):
        return call.q.dtype
    return torch.float32


def fused(call: Call, kernel: Kernel) -> Tensor:
    """One kernel for the whole call: causality by index, padding as a row of the mask, or a bias that is a tensor."""
    mask = call.bias if kernel.keep is None else kernel.keep[:, None, None, :]
    mask = mask.to(call.q.dtype) if isinstance(mask, Tensor) and mask.is_floating_point() else mask
    assert mask is None or isinstance(mask, Tensor)
    return _sdpa(call, call.q, call.k, call.v, mask, causal=kernel.causal)


def _sdpa(call: Call, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, causal: bool = False) -> Tensor:
    width, value_width = q.shape[3], v.shape[3]
    scale = width**-0.5 if call.scale is None else call.scale
    if width != value_width:
        # Padding with zeros keeps the fused kernel, which wants one width, at O(M) memory.
        common = max(width, value_width)
        q, k, v = (F.pad(x, (0, common - x.shape[3])) if x.shape[3] < common else x for x in (q, k, v))
    if causal and scale <= 0:
        # The causal kernel multiplies the scale into the -inf of hidden scores.
        q, scale = q * scale, 1.0
    grouped = q.shape[1] != k.shape[1]
    out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=grouped)
    return out if out.shape[3] == value_width else out[..., :value_width]


def fused_block(call: Call) -> Callable[..., Tensor]:
    """A tile's computation by the fused kernel, with the part of the mask that the tile needs."""
    tables = _Tables(call)

    def block(tile: Tile, q: Tensor, k: Tensor, v: Tensor, *parameters: Tensor) -> Tensor:
        table = tables.at(tile)
        if call.bias is not None:
            bias = bias_at(call.bias, parameters, call.pairs.at(tile.batch, tile.rows, tile.columns))
            assert bias is not None
            table = bias if table is None else torch.where(table, bias, float("-inf"))
        table = table.to(q.dtype) if table is not None and table.is_floating_point() else table
        return _sdpa(call, q, k, v, table)

    return block


@dataclass
class _Tables:
    """Tables of tiles; where only differences of positions matter, one table serves every shifted tile."""

    call: Call
    known: dict[tuple[int, ...], Tensor | None] = field(default_factory=dict)

    def at(self, tile: Tile) -> Tensor | None:
        if self.call.mask is None:
            return None
        rest, keep = without_padding(self.call.mask), kept_keys(self.call.mask)
        pairs = self.call.pairs.at(tile.batch, tile.rows, tile.columns)
        key = None if rest is None else self._key(tile, rest)
        if rest is None or key is None:
            return self.call.mask.at(pairs)
        if key not in self.known:
            table = rest.at(pairs)
            self.known[key] = None if bool(table.all()) else table
        table = self.known[key]
        if keep is None:
            return table
        kept = take(take(keep, tile.batch, 0), tile.columns, 1)[:, None, None, :]
        return kept.expand(-1, 1, pairs.shape[0], -1) if table is None else table & kept

    def _key(self, tile: Tile, mask: Mask) -> tuple[int, ...] | None:
        """What tells tables apart: how the tile's queries and keys stand to each other. None: only the tile itself."""
        if tile.alike is not None and all(isinstance(part, Causal | Window) for part in mask.parts()):
            return tile.alike
        if not (mask.shifts and self.call.pairs.consecutive):
            return None
        rows, columns, (queries, keys) = tile.rows, tile.columns, self.call.pairs.shape
        if not (isinstance(rows, slice) and isinstance(columns, slice)):
            return None
        first, last = rows.indices(queries), columns.indices(keys)
        return length(rows, queries), length(columns, keys), first[0] - last[0], first[2], last[2]


@lru_cache
def trusted(device: str, dtype: torch.dtype) -> bool:
    """A canary: whether this kernel gives 0 for a row that sees nothing, in gradients too, and takes causality and
    padding together. Versions and devices differ; where it does not sing, scores are written out.

    It sings in a thread of its own: modes without gradients, hooks on saved tensors and counters of operations belong
    to the thread that asks, and would silence it for good or record its song.
    """
    with ThreadPoolExecutor(1) as alone:
        return alone.submit(_sings, device, dtype).result()


def _sings(device: str, dtype: torch.dtype) -> bool:
    x = torch.linspace(-1, 1, 5 * 8, device=device, dtype=dtype).view(1, 1, 5, 8)
    keep = torch.tensor([False, False, True, True, False], device=device)
    allow = keep & torch.ones(5, 5, dtype=torch.bool, device=device).tril()
    try:
        q, k, v = (x.clone().requires_grad_() for _ in range(3))
        out = F.scaled_dot_product_attention(q, k, v, keep[None, None, None], is_causal=True)
        found = [out, *torch.autograd.grad(out.sum() + out[0, 0, 2].sum(), (q, k, v))]
    except RuntimeError:
        return False
    weights = (x @ x.mT * 8**-0.5).float().masked_fill(~allow, float("-inf")).softmax(-1).nan_to_num(0)
    silent = all(bool(part.isfinite().all()) for part in found) and not bool(out[0, 0, :2].any())
    return silent and bool(((weights.to(dtype) @ x) - out).abs().max() < 0.05)
