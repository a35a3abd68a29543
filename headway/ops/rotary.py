"""Rotary positions: pairs of channels of queries and keys turned by an angle that grows with the position.

Angles are computed in float64 and rounded once to the dtype asked for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.config.layers import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    Scaling,
    YarnScaling,
)
from headway.ops.position import angles_of
from headway.ops.values import constant


@dataclass(frozen=True, eq=False)
class RotaryTable:
    """Cosines and sines of the angle of each position and pair: computed once, applied to queries and keys."""

    cos: Float[Tensor, "*b L pairs"]
    sin: Float[Tensor, "*b L pairs"]


def rotary_frequencies(width: int, *, base: float = 10000.0, scaling: Scaling | None = None) -> Float[Tensor, " pairs"]:
    """The angle by which each of the width/2 pairs turns per position: base^(-2i/width), i = 0 … width/2-1.

    A scaling slows pair i, wholly or in part: f -> f · ((1 - s) + s / factor), with s the share of `slowed`; LongRoPE
    by a number for each pair. Where the length of a text matters, those of one as short as in the first training.

    >>> rotary_frequencies(4).tolist()
    [1.0, 0.01]
    >>> rotary_frequencies(4, scaling=LinearScaling(factor=2)).tolist()
    [0.5, 0.005]
    """
    # pyright does not know that frozen models have a hash.
    return torch.tensor(_turning(width, base, scaling), dtype=torch.float64)  # pyright: ignore[reportArgumentType]


def frequencies_by_length(
    lengths: Int[Tensor, " B"], width: int, *, base: float, scaling: DynamicScaling | LongRopeScaling
) -> Float[Tensor, "B pairs"]:
    """The same of texts of these lengths, each its own.

    >>> scaling = DynamicScaling(factor=2, length=8)
    >>> frequencies_by_length(torch.tensor([8, 12]), 4, base=100.0, scaling=scaling)  # 100 · (2 · 12 / 8 - 1)²
    tensor([[1.0000, 0.1000],
            [1.0000, 0.0500]], dtype=torch.float64)
    """
    short = rotary_frequencies(width, base=base, scaling=scaling).to(lengths.device)
    if isinstance(scaling, LongRopeScaling):
        slow = torch.tensor(scaling.long, dtype=torch.float64, device=lengths.device)
        plain = rotary_frequencies(width, base=base).to(lengths.device)
        return torch.where(lengths[:, None] > scaling.length, plain / slow, short)
    if width == 2:
        raise ValueError("dynamic scaling changes all pairs but the first, and a rotary width of 2 has no other")
    growth = (scaling.factor * lengths.double() / scaling.length - (scaling.factor - 1)).clamp(min=1.0)
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device=lengths.device) / (width - 2)
    return short * growth[:, None] ** -exponents


def slowed(
    scaling: LinearScaling | Llama3Scaling | YarnScaling, frequencies: Sequence[float], *, base: float
) -> list[float]:
    """The share of each pair's turning that a scaling slows down, from 0 (as trained) to 1 (by the whole factor).

        linear    1
        llama3    (high - turns) / (high - low), turns = length · f / 2π            (Llama 3.1: arXiv:2407.21783)
        yarn      (i - a) / (b - a), a and b the pairs of `fast` and `slow` turns   (arXiv:2309.00071, 3.2)

    each between 0 and 1.

    >>> slowed(Llama3Scaling(factor=8, length=100, low=1, high=4), [1.0, 0.1], base=10.0)  # 16 turns and 1.6
    [0.0, 0.803]
    """
    if isinstance(scaling, LinearScaling):
        return [1.0] * len(frequencies)
    if isinstance(scaling, Llama3Scaling):
        turns = [scaling.length * frequency / math.tau for frequency in frequencies]
        return [_unit((scaling.high - turn) / (scaling.high - scaling.low)) for turn in turns]
    first, last = _ramp(scaling, 2 * len(frequencies), base)
    return [_unit((pair - first) / (last - first or 0.001)) for pair in range(len(frequencies))]


def rotary_amplitude(scaling: Scaling | None) -> float:
    """What cosines and sines are multiplied by: 1, but for YaRN and LongRoPE, whose scores grow with the reach.

    >>> rotary_amplitude(YarnScaling(factor=4, length=2048))
    1.1386
    """
    if not isinstance(scaling, YarnScaling | LongRopeScaling):
        return 1.0
    if scaling.attention is not None:
        return scaling.attention
    growth = math.log(max(scaling.factor, 1))
    return 1 + growth / 10 if isinstance(scaling, YarnScaling) else math.sqrt(1 + growth / math.log(scaling.length))


def rotary_table(
    positions: Int[Tensor, "*b L"],
    *,
    width: int,
    base: float = 10000.0,
    scaling: Scaling | None = None,
    lengths: Int[Tensor, " B"] | None = None,
    dtype: torch.dtype = torch.float32,
) -> RotaryTable:
    """The rotation of each position.

    `lengths` are those of the texts, for a scaling that asks for them; without, texts are short.
    """
    if lengths is not None and isinstance(scaling, DynamicScaling | LongRopeScaling):
        frequencies = frequencies_by_length(lengths, width, base=base, scaling=scaling)[:, None]
    else:
        frequencies = rotary_frequencies(width, base=base, scaling=scaling)
    angles, amplitude = angles_of(positions, frequencies), rotary_amplitude(scaling)
    cos, sin = angles.cos(), angles.sin()
    cos, sin = (cos, sin) if amplitude == 1 else (cos * amplitude, sin * amplitude)
    return RotaryTable(cos.to(dtype), sin.to(dtype))


def rotary_grid_table(
    y: Int[Tensor, "*b L"],
    x: Int[Tensor, "*b L"],
    *,
    width: int,
    base: float = 10000.0,
    dtype: torch.dtype = torch.float32,
) -> RotaryTable:
    """The rotation of each grid cell: the first half of the pairs turns with y, the second half with x."""
    if width % 4:
        raise ValueError(f"2-D rotary embedding turns as many pairs with y as with x: 4 does not divide width {width}")
    rows, columns = (rotary_table(axis, width=width // 2, base=base, dtype=dtype) for axis in (y, x))
    return RotaryTable(torch.cat([rows.cos, columns.cos], dim=-1), torch.cat([rows.sin, columns.sin], dim=-1))


def apply_rotary(
    x: Float[Tensor, "B H L K"], table: RotaryTable, *, interleaved: bool = False
) -> Float[Tensor, "B H L K"]:
    """Turn each pair (a, b) of channels by its angle; channels past the table's width stay as they are.

        (a, b) -> (a cos - b sin, b cos + a sin)

    Pair i is channels (2i, 2i+1) if interleaved (Su et al. 2021, arXiv:2104.09864), otherwise (i, i + width/2), as
    the weights of GPT-NeoX and Llama expect. After it, a query times a key depends on the difference of their positions
    alone.

    >>> x = torch.tensor([1.0, 0.0]).reshape(1, 1, 1, 2)
    >>> [round(value, 4) for value in apply_rotary(x, rotary_table(torch.tensor([1]), width=2)).flatten().tolist()]
    [0.5403, 0.8415]
    """
    _check_table(x, table)
    width, dtype = 2 * table.cos.shape[-1], torch.promote_types(x.dtype, torch.float32)
    turn = _turn_neighbours if interleaved else _turn_halves
    turned = turn(x[..., :width].to(dtype), table.cos.unsqueeze(-3), table.sin.unsqueeze(-3)).to(x.dtype)
    return turned if width == x.shape[-1] else torch.cat([turned, x[..., width:]], dim=-1)


# Numbers, not a tensor: a tensor kept from one call would keep that call's device and mode too.
@constant
def _turning(width: int, base: float, scaling: Scaling | None) -> tuple[float, ...]:
    """The frequencies of `rotary_frequencies`."""
    if width < 2 or width % 2:
        raise ValueError(f"rotary embedding turns pairs of channels: width {width} is not a positive even number")
    if not base > 0:
        raise ValueError(f"the base of the wavelengths must be positive, not {base}")
    plain = [base ** (-i / width) for i in range(0, width, 2)]
    if scaling is None or isinstance(scaling, DynamicScaling):
        return tuple(plain)
    if isinstance(scaling, LongRopeScaling):
        if len(scaling.short) != len(plain):
            raise ValueError(f"longrope has {len(scaling.short)} numbers, and {width} channels are {len(plain)} pairs")
        return tuple(f / slow for f, slow in zip(plain, scaling.short, strict=True))
    shares = slowed(scaling, plain, base=base)
    return tuple(f * (1 - s + s / scaling.factor) for f, s in zip(plain, shares, strict=True))


def _ramp(scaling: YarnScaling, width: int, base: float) -> tuple[float, float]:
    """The pairs between which YaRN goes from leaving all to slowing all: base^(-2i/width) · length / 2π = turns."""
    if not base > 1:
        raise ValueError(f"YaRN tells pairs apart by their wavelengths: the base must be above 1, not {base}")

    def pair(turns: float) -> float:
        return width * math.log(scaling.length / (math.tau * turns)) / (2 * math.log(base))

    first, last = pair(scaling.fast), pair(scaling.slow)
    first, last = (math.floor(first), math.ceil(last)) if scaling.whole else (first, last)
    # The last pair is width/2 - 1, but published models were trained with this bound.
    return float(max(first, 0)), float(min(last, width - 1))


def _unit(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def _turn_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pairs (i, i + width/2): rolled by half, each channel meets its partner."""
    cos, sin = torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin)


def _turn_neighbours(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pairs (2i, 2i+1): complex numbers times cos + i sin, six times as fast here as the same in real ones."""
    turned = torch.complex(x[..., 0::2], x[..., 1::2]) * torch.complex(cos, sin)
    return torch.view_as_real(turned).flatten(-2)


def _check_table(x: Float[Tensor, "B H L K"], table: RotaryTable) -> None:
    """Refuse what broadcasting would let through: one position for many tokens, one row for many."""
    *batch, length, pairs = table.cos.shape
    if length != x.shape[-2]:
        raise ValueError(f"{length} positions were given for {x.shape[-2]} tokens")
    if batch not in ([], [1], [x.shape[0]]):
        raise ValueError(f"positions of batch shape {tuple(batch)} were given for a batch of {x.shape[0]}")
    if 2 * pairs > x.shape[-1]:
        raise ValueError(f"a rotary width of {2 * pairs} is more than the head width {x.shape[-1]}")
