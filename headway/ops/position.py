"""Sinusoids: where a token stands, as numbers that are added to its vector.

Positions are whole numbers of any sign, and may differ from row to row of a batch. Angles are computed in float64 and
rounded once to the dtype asked for: in float32 an angle near 100,000 would already be off by 0.004.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def sinusoidal(
    positions: Int[Tensor, "*b L"], *, width: int, base: float = 10000.0, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*b L {width}"]:
    """The fixed embedding of each position j, for channels i = 0 … width-1 (Vaswani et al. 2017, arXiv:1706.03762).

        p[j, i] = sin(j / base^(i/width))        for even i
        p[j, i] = cos(j / base^((i-1)/width))    for odd i

    >>> [round(value, 4) for value in sinusoidal(torch.tensor([1]), width=3)[0].tolist()]
    [0.8415, 0.5403, 0.0022]
    """
    if width < 1:
        raise ValueError(f"a sinusoidal embedding needs a width of at least 1, not {width}")
    angles = angles_of(positions, _frequencies(width, base))
    table = angles.new_empty(*positions.shape, width)
    table[..., 0::2] = angles.sin()
    table[..., 1::2] = angles[..., : width // 2].cos()
    return table.to(dtype)


def grid_positions(
    rows: int, columns: int, *, device: torch.device | str | None = None
) -> tuple[Int[Tensor, " L"], Int[Tensor, " L"]]:
    """The (y, x) of each cell of a Y x X grid, read row by row.

    >>> [axis.tolist() for axis in grid_positions(2, 3)]
    [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]
    """
    if rows < 1 or columns < 1:
        raise ValueError(f"a grid needs at least one row and one column, not {rows} x {columns}")
    cells = torch.arange(rows * columns, device=device)
    return cells // columns, cells % columns


def sinusoidal_cells(
    y: Int[Tensor, "*b L"],
    x: Int[Tensor, "*b L"],
    *,
    width: int,
    base: float = 10000.0,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "*b L {width}"]:
    """The fixed embedding of grid cells: the first half of the channels says y, the second half says x."""
    if width % 2:
        raise ValueError(f"a grid embedding gives half of its channels to y and half to x: width {width} is odd")
    return torch.cat([sinusoidal(axis, width=width // 2, base=base, dtype=dtype) for axis in (y, x)], dim=-1)


def sinusoidal_grid(
    rows: int, columns: int, *, width: int, base: float = 10000.0, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "{rows*columns} {width}"]:
    """`sinusoidal_cells` for every cell of a Y x X grid, read row by row.

    >>> sinusoidal_grid(2, 3, width=8).shape
    torch.Size([6, 8])
    """
    return sinusoidal_cells(*grid_positions(rows, columns), width=width, base=base, dtype=dtype)


def _frequencies(width: int, base: float) -> Float[Tensor, " pairs"]:
    """base^(-i/width) for even i below width, in float64."""
    if not base > 0:
        raise ValueError(f"the base of the wavelengths must be positive, not {base}")
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def angles_of(positions: Int[Tensor, "*b L"], frequencies: Float[Tensor, "*c pairs"]) -> Tensor:
    """Position times frequency, in float64 wherever the device has it."""
    dtype = torch.float32 if positions.device.type == "mps" else torch.float64
    return positions[..., None].to(dtype) * frequencies.to(positions.device, dtype)
