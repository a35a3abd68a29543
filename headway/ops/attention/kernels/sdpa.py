"""torch's fused kernel, used only where it is exactly right."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor
from torch.autograd.function import once_differentiable

from headway.native import short_attention
from headway.ops.attention.call import Call
from headway.ops.attention.kernels.eager import bias_at
from headway.ops.attention.kernels.tiles import Tile, length
from headway.ops.mask import Mask
from headway.ops.mask.kernel import kept_keys, without_padding
from headway.ops.mask.pairs import take
from headway.ops.mask.positions import Causal, Window
from headway.ops.values import constant, operations_are_followed, real_numbers, tracing, untraced


def whole_call(call: Call, *, causal: bool, keep: Bool[Tensor, "b M"] | None) -> Tensor:
    """One kernel for the whole call: causality by index, padding as a row of the mask, or a bias that is a tensor."""
    mask = call.bias.to(call.q.dtype) if isinstance(call.bias, Tensor) else None
    if keep is not None:
        mask = keep[:, None, None, :]
        if causal and not _takes_both(call.q, call.k, call.v):
            mask = mask & torch.ones(call.q.shape[2], call.k.shape[2], dtype=torch.bool, device=mask.device).tril()
            causal = False
    return sdpa(call, call.q, call.k, call.v, mask, causal=causal)


def sdpa(call: Call, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, causal: bool = False) -> Tensor:
    """torch's function, with widths that differ and a scale that is not positive made good."""
    width, value_width = q.shape[3], v.shape[3]
    scale = width**-0.5 if call.scale is None else call.scale
    if width != value_width:
        # Padding with zeros keeps the fused kernel, which wants one width, at O(M) memory.
        common = max(width, value_width)
        q, k, v = (F.pad(x, (0, common - x.shape[3])) if x.shape[3] < common else x for x in (q, k, v))
    if causal and scale <= 0:
        # The causal kernel multiplies the scale into the -inf of hidden scores.
        q, scale = q * scale, 1.0
    if (
        mask is None and q.requires_grad and torch.is_grad_enabled()
        and short_attention.serves(q, k, v, scale=scale, causal=causal) and not operations_are_followed(q, k, v)
    ):  # fmt: skip
        return _Short.apply(q, k, v, scale, causal)[..., :value_width]
    grouped = q.shape[1] != k.shape[1]
    out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=grouped)
    return out if width >= value_width == out.shape[3] else out[..., :value_width]


class _Short(torch.autograd.Function):
    """The compiled kernel for short texts that are trained on; it computes and keeps what torch's does."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
        out, logs = short_attention.attention(q, k, v, scale=scale, causal=causal)
        ctx.save_for_backward(q, k, v, out, logs)
        ctx.scale, ctx.causal = scale, causal
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        found = short_attention.attention_backward(gradient, *ctx.saved_tensors, scale=ctx.scale, causal=ctx.causal)
        return *found, None, None


def _takes_both(*tensors: Tensor) -> bool:
    """Whether causality and a mask may be given together: the flash kernel takes both, torch's other ways refuse.

    It is taken where nobody switched it off, and for tensors whose last axis lies in one piece.
    """
    return _flash_enabled() and all(x.stride(-1) == 1 or x.shape[-1] == 1 for x in tensors)


@untraced
def _flash_enabled() -> bool:
    return torch.backends.cuda.flash_sdp_enabled()


def tile_kernel(call: Call) -> Callable[..., Tensor]:
    """A tile's computation by the fused kernel, with the part of the mask that the tile needs."""
    tables = _Tables(call, call.once("tables", dict))

    def block(tile: Tile, q: Tensor, k: Tensor, v: Tensor, *extras: Tensor) -> Tensor:
        table = tables.at(tile)
        if call.bias is not None:
            parameters, _ = call.split_extras(extras)
            bias = bias_at(call.bias, parameters, call.pairs.at(tile.batch, tile.rows, tile.columns))
            assert bias is not None
            table = bias if table is None else torch.where(table, bias, float("-inf"))
        table = table.to(q.dtype) if table is not None and table.is_floating_point() else table
        return sdpa(call, q, k, v, table)

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
            with real_numbers():
                table = rest.at(self.call.pairs.real().at(tile.batch, tile.rows, tile.columns))
                # torch.compile would stop to read it; a table that allows all is as right.
                self.known[key] = None if not tracing() and bool(table.all()) else table
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


@constant
def trusted(device: str, dtype: torch.dtype) -> bool:
    """Whether this kernel gives 0 for a row that sees nothing, in gradients too, and takes causality and padding
    together: tried once, since versions and devices differ. Where it does not, scores are written out.

    It is tried in a thread of its own: modes without gradients, hooks on saved tensors and counters of operations
    belong to the thread that asks, and would spoil the answer for good or record the trial.
    """
    if device == "meta":
        return True
    with ThreadPoolExecutor(1) as alone:
        return alone.submit(_is_right, device, dtype).result()


def _is_right(device: str, dtype: torch.dtype) -> bool:
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
