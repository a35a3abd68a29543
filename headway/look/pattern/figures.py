"""Embeddings of positions and the softmax as heat maps and curves; drawn without a model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from headway.config import nearest
from headway.look.pattern.options import patch
from headway.ops.bias import alibi_slopes, relative_bucket
from headway.ops.jacobian import jacobian_norm, softmax_jacobian
from headway.ops.position import sinusoidal, sinusoidal_grid
from headway.ops.rotary import rotary_frequencies, rotary_table

SMALLEST_BASE, LARGEST_BASE = 1e-3, 1e30

Series = tuple[str, Float[np.ndarray, " n"], Float[np.ndarray, " n"]]  # a name, and its points


@dataclass(frozen=True, eq=False)
class Heat:
    """A table of numbers as colours: `largest` on either side of 0, or from 0 on where there is one side."""

    title: str
    down: str
    across: str
    values: Float[np.ndarray, "y x"]
    largest: float
    both: bool = True  # sides of 0
    first: int = 0  # the number of the first row and column
    names: tuple[str, ...] = ()  # of the rows, where they go by no number

    @property
    def ends(self) -> tuple[float, float]:
        """From where to where the scale goes: a side of 0 that never occurs is left out.

        >>> Heat("", "", "", np.array([[-3.0, 0.0]]), 3.0).ends
        (-3.0, 0.0)
        """
        low = -self.largest if self.both and self.values.min() < 0 else 0.0
        return low, 0.0 if low and self.values.max() <= 0 else self.largest


@dataclass(frozen=True)
class Curves:
    """Numbers over the distance of two positions."""

    title: str
    across: str
    series: tuple[Series, ...]
    steps: bool = False  # whole numbers, which nothing lies between


@dataclass(frozen=True)
class Plots:
    """One kind of position embedding as it is drawn."""

    title: str
    subtitle: str
    parts: tuple[Heat | Curves, ...]

    def as_json(self) -> dict[str, Any]:
        parts = [
            {"title": part.title, "values": part.values.tolist()}
            if isinstance(part, Heat)
            else {"title": part.title, "series": {name: [x.tolist(), y.tolist()] for name, x, y in part.series}}
            for part in self.parts
        ]
        return {"title": self.title, "subtitle": self.subtitle, "parts": parts}


@dataclass(frozen=True)
class FigureSizes:
    """Sizes of an embedding; a kind takes those that it knows."""

    length: int = 64
    width: int = 64
    bias_heads: int = 8
    grid: tuple[int, int] = (8, 8)
    base: float = 10000.0
    buckets: int = 32
    max_distance: int = 128
    causal: bool = False


def _sinusoidal(sizes: FigureSizes) -> Plots:
    if sizes.width % 2:
        raise ValueError(f"--width is an even number, a sine and a cosine for each wave, not {sizes.width}")
    table = sinusoidal(torch.arange(sizes.length), width=sizes.width, base=sizes.base, dtype=torch.float64)
    return Plots(
        "Sinusoidal positions",
        f"{sizes.length} positions, {sizes.width} channels: sines and cosines of ever longer waves",
        (_values(table.numpy(), "position"), _alike(table.numpy()), _by_distance(table.numpy())),
    )


def _grid(sizes: FigureSizes) -> Plots:
    if sizes.width % 4:
        raise ValueError(f"--width is a multiple of 4, sines and cosines of rows and of columns, not {sizes.width}")
    rows, columns = sizes.grid
    table = sinusoidal_grid(rows, columns, width=sizes.width, base=sizes.base, dtype=torch.float64).numpy()
    middle = rows // 2 * columns + columns // 2
    near = (table @ table[middle] / (table[middle] @ table[middle])).reshape(rows, columns)
    return Plots(
        "Sinusoidal positions on a grid",
        f"{rows} x {columns} patches, {sizes.width} channels: the first half says the row, the second the column",
        (
            replace(_values(table, "patch"), names=tuple(patch(place, sizes.grid) for place in range(rows * columns))),
            Heat(f"p · p of patch {patch(middle, sizes.grid)} and all", "row", "column", near, 1.0, first=1),
        ),
    )


def _rotary(sizes: FigureSizes) -> Plots:
    places = torch.arange(sizes.length)
    cosines = rotary_table(places, width=sizes.width, base=sizes.base, dtype=torch.float64).cos.numpy()
    turns = rotary_frequencies(sizes.width, base=sizes.base).numpy()
    mean = np.cos(np.arange(sizes.length)[:, None] * turns).mean(1)
    across = np.arange(sizes.length, dtype=np.float64)
    return Plots(
        "Rotary positions",
        f"{sizes.length} positions, heads of {sizes.width} channels: the later a pair, the slower it turns",
        (
            Heat("Cosine of the angle", "position", "pair of channels", cosines, 1.0),
            Curves("Mean cosine by distance: the score of a query and a key that are alike", "distance",
                   (("mean over pairs", across, mean),)),
        ),
    )  # fmt: skip


def _alibi(sizes: FigureSizes) -> Plots:
    slopes = alibi_slopes(sizes.bias_heads, dtype=torch.float64).numpy()
    across = np.arange(sizes.length, dtype=np.float64)
    bias = 0.0 - slopes[:, None] * across
    series = tuple((f"head {head}", across, row) for head, row in enumerate(bias))
    return Plots(
        "ALiBi",
        f"{sizes.bias_heads} heads: −slope · |i − j| is added, slopes from {slopes.max():.4g} to {slopes.min():.4g}",
        (
            Heat("What is added to a score, by distance", "head", "distance", bias, float(np.abs(bias).max()) or 1.0),
            Curves("The same as lines", "distance", series),
        ),
    )


def _relative(sizes: FigureSizes) -> Plots:
    """Values are learnt, so the buckets are drawn: which differences share a number."""
    how = {"buckets": sizes.buckets, "max_distance": sizes.max_distance, "bidirectional": not sizes.causal}
    reach = torch.arange(-sizes.length + 1, 1 if sizes.causal else sizes.length)
    found = relative_bucket(reach, **how).numpy()
    side = sizes.buckets if sizes.causal else sizes.buckets // 2
    last = int((relative_bucket(-torch.arange(sizes.max_distance + 1), **how) == side - 1).int().argmax())
    curve = ("bucket", reach.numpy().astype(np.float64), found.astype(np.float64))
    signed = np.where(reach.numpy() > 0, side - found, found)
    places = np.arange(sizes.length)
    table = np.concatenate([signed, np.zeros(sizes.length)])[places[None] - places[:, None] + sizes.length - 1]
    return Plots(
        "Relative positions in buckets",
        f"{sizes.buckets} buckets, one learnt number a head and bucket; from distance {last} on all share the last",
        (
            Curves("Bucket by difference j − i", "difference", (curve,), steps=True),
            Heat("Bucket of each pair: earlier keys above 0, later ones below", "query", "key", table, float(side - 1)),
        ),
    )


# A kind -> what it takes, and how it is made.
POSITIONS: dict[str, tuple[frozenset[str], Callable[[FigureSizes], Plots]]] = {
    "sinusoidal": (frozenset({"length", "width", "base"}), _sinusoidal),
    "grid": (frozenset({"grid", "width", "base"}), _grid),
    "rotary": (frozenset({"length", "width", "base"}), _rotary),
    "alibi": (frozenset({"length", "bias_heads"}), _alibi),
    "relative": (frozenset({"length", "buckets", "max_distance", "causal"}), _relative),
}


def position_plots(kind: str, **given: int | float | bool | tuple[int, int]) -> Plots:
    """The embedding of a kind with the given sizes; an option of another kind is refused.

    >>> [part.values.shape for part in position_plots("sinusoidal", length=5, width=6).parts[:1]]
    [(5, 6)]
    """
    if kind not in POSITIONS:
        raise ValueError(f"there are no positions {kind!r}{nearest(kind, POSITIONS)}; there are {', '.join(POSITIONS)}")
    taken, make = POSITIONS[kind]
    for name, value in given.items():
        if name not in taken:
            names = ", ".join(f"--{one.replace('_', '-')}" for one in sorted(taken))
            raise ValueError(f"--{name.replace('_', '-')} is no option of --positions {kind}, which takes {names}")
        sizes = value if isinstance(value, tuple) else (value,)
        if any(isinstance(size, int) and not isinstance(size, bool) and not 1 <= size <= 4096 for size in sizes):
            raise ValueError(f"--{name.replace('_', '-')} is from 1 to 4,096, not {value}")
        if name == "base" and not SMALLEST_BASE <= float(sizes[0]) <= LARGEST_BASE:
            raise ValueError(f"--base is from 0.001 to 1e30, not {value}")
    return make(FigureSizes(**given))  # pyright: ignore[reportArgumentType]


def _values(table: Float[np.ndarray, "L D"], down: str) -> Heat:
    return Heat("Values", down, "channel", table, float(np.abs(table).max()) or 1.0)


def _alike(table: Float[np.ndarray, "L D"]) -> Heat:
    """pᵢ · pⱼ as a share of pᵢ · pᵢ, which is alike for all."""
    product = table @ table.T
    return Heat("How alike two positions are: pᵢ · pⱼ", "i", "j", product / product.max(), 1.0)


def _by_distance(table: Float[np.ndarray, "L D"]) -> Curves:
    """Only the distance matters, so the first row tells all."""
    product = table @ table[0]
    distance = np.arange(len(table), dtype=np.float64)
    return Curves("pᵢ · pⱼ by distance", "distance", (("share of pᵢ · pᵢ", distance, product / product[0]),))


GAP = 12.0  # between the two largest scores: beyond it the largest weight is 1 but for 1e-5
POINTS = 61
SATURATED, KEYS, ROWS = 0.99, 16, 2000  # a weight above this; keys of a row; rows that are drawn by chance
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def softmax_plots(scores: tuple[float, ...]) -> Plots:
    """
    >>> softmax_plots((0.0, 1.0)).parts[1].values.round(4).tolist()
    [[0.1966, -0.1966], [-0.1966, 0.1966]]
    """
    if not 2 <= len(scores) <= 64 or not np.isfinite(scores).all():
        raise ValueError(f"a softmax is drawn of 2 to 64 finite scores, as 1,5,-1; there are {len(scores)}")
    z = torch.tensor(scores, dtype=torch.float64)
    weights, jacobian = z.softmax(-1).numpy(), softmax_jacobian(z).numpy()
    largest = float(np.abs(jacobian).max())
    return Plots(
        f"Softmax of {', '.join(f'{one:g}' for one in scores)}",
        f"largest weight {weights.max():.6g}, norm of the Jacobian {float(jacobian_norm(z)):.6g} (never above 0.5)",
        (
            Heat("Weights a", "weights", "key", weights[None], 1.0, both=False),
            Heat("Jacobian ∂a/∂z = diag(a) − a aᵀ", "weight", "score", jacobian, largest or 1.0),
            _growing(z),
            _by_width(),
        ),
    )


def _growing(z: Float[torch.Tensor, " n"]) -> Curves:
    """As the scores are multiplied by more and more: first the softmax decides, then it no longer listens."""
    first, second = z.topk(2).values.tolist()
    most = min(max(GAP / (first - second), 1e-3), 1e3) if first > second else 1.0
    factors = torch.linspace(0, most, POINTS, dtype=torch.float64)
    rows = factors[:, None] * z
    series = (
        ("largest weight", factors.numpy(), rows.softmax(-1).amax(-1).numpy()),
        ("norm of the Jacobian", factors.numpy(), jacobian_norm(rows).numpy()),
    )
    return Curves("Both, as all scores are multiplied", "factor", series)


def _by_width() -> Curves:
    draw = torch.Generator().manual_seed(0)
    shares = np.array([_saturated(width, draw) for width in WIDTHS])
    across = np.log2(np.array(WIDTHS, dtype=np.float64))
    title = f"Rows with a weight above {SATURATED}, of {ROWS:,} with {KEYS} random keys, by width of the head"
    return Curves(title, "log2 of the width K", (("q·k", across, shares[:, 0]), ("q·k / √K", across, shares[:, 1])))


def _saturated(width: int, draw: torch.Generator) -> tuple[float, float]:
    q = torch.randn(ROWS, 1, width, generator=draw, dtype=torch.float64)
    k = torch.randn(ROWS, KEYS, width, generator=draw, dtype=torch.float64)
    scores = (q * k).sum(-1)
    plain, scaled = (one.softmax(-1).amax(-1) > SATURATED for one in (scores, scores / width**0.5))
    return plain.double().mean().item(), scaled.double().mean().item()
