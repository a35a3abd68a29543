"""Columns of a cache, one for each token taken in, and what may be put into them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.ops.attention import Call
from headway.ops.attention.call import learning
from headway.ops.mask.kernel import kept_keys
from headway.ops.mask.places import Given, Packed, Segments


@dataclass
class Columns:
    """One column for each token taken in, the same for all rows; `keep` tells whose it really is."""

    k: Float[Tensor, "B G M K"]
    v: Float[Tensor, "B G M W"]
    positions: Int[Tensor, "B M"]
    keep: Bool[Tensor, "B M"]

    def each(self, change: Callable[[Tensor, int], Tensor]) -> "Columns":
        """The same change for all four, given the axis that counts columns."""
        return Columns(change(self.k, 2), change(self.v, 2), change(self.positions, 1), change(self.keep, 1))

    def put(self, new: "Columns", at: int) -> None:
        """Overwrite the columns from `at` on."""
        end = at + new.k.shape[2]
        self.k[:, :, at:end], self.v[:, :, at:end] = new.k, new.v
        self.positions[:, at:end], self.keep[:, at:end] = new.positions, new.keep


def refuse_gradients(k: Tensor, v: Tensor) -> None:
    if learning(k, v):
        raise ValueError("a cache keeps numbers, not gradients: read with it under torch.no_grad()")


def refuse_tables(call: Call) -> None:
    """Tables are over this call's keys; with a cache nobody could say which of the held ones they mean."""
    parts = () if call.mask is None else call.mask.parts()
    if any(isinstance(part, Given | Packed | Segments) for part in parts) or isinstance(call.bias, Tensor):
        raise ValueError(
            "with a cache, masks and biases relate positions (causal, window, ALiBi, …) or declare padding: a table of "
            "this call's keys does not say which of the held ones it means"
        )


def check_rows(rows: Tensor, count: int) -> None:
    whole = isinstance(rows, Tensor) and rows.ndim == 1 and rows.dtype == torch.long
    if not whole or (len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < count)):
        raise ValueError(f"select takes a tensor of whole row numbers from 0 to {count - 1}, not {rows}")


def following_position(before: Int[Tensor, " b"], call: Call) -> Int[Tensor, " B"]:
    """The position after the last real token of each row, once the call is read."""
    batch, keys, device = call.k.shape[0], call.k.shape[2], call.k.device
    keep = None if call.mask is None else kept_keys(call.mask)
    keep = torch.ones(1, keys, dtype=torch.bool, device=device) if keep is None else keep
    places = call.key_positions
    places = before.to(device)[:, None] + torch.arange(keys, device=device) if places is None else places
    return after(before.to(device), places.expand(batch, -1), keep.expand(batch, -1))


def after(before: Tensor, positions: Int[Tensor, "B M"], keep: Bool[Tensor, "B M"]) -> Int[Tensor, " B"]:
    last = torch.where(keep, positions, -1).amax(-1) + 1
    return torch.maximum(before.expand(len(last)), last)


def aligned(columns: Columns, total: int) -> Columns:
    """Empty columns on the left, so that the newest tokens stand side by side."""
    missing = total - columns.k.shape[2]
    return columns.each(lambda x, axis: F.pad(x, (0, 0, missing, 0) if axis == 2 else (missing, 0)))
