"""What embeddings of positions hold, and what they make of the distance of two positions; drawn without a model."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float

from headway.config import nearest
from headway.look.pattern.asked import patch
from headway.ops.bias import alibi_slopes, relative_bucket
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
class Embedding:
    """One kind of position embedding as it is drawn."""

    title: str
    subtitle: str
    parts: tuple[Heat | Curves, ...]


@dataclass(frozen=True)
class Wanted:
    """Sizes of an embedding; a kind takes those that it knows."""

    length: int = 64
    width: int = 64
    bias_heads: int = 8
    grid: tuple[int, int] = (8, 8)
    base: float = 10000.0
    buckets: int = 32
    max_distance: int = 128
    causal: bool = False


def _sinusoidal(wanted: Wanted) -> Embedding:
    if wanted.width % 2:
        raise ValueError(f"--width is an even number, a sine and a cosine for each wave, not {wanted.width}")
    table = sinusoidal(torch.arange(wanted.length), width=wanted.width, base=wanted.base, dtype=torch.float64)
    return Embedding(
        "Sinusoidal positions",
        f"{wanted.length} positions, {wanted.width} channels: sines and cosines of ever longer waves",
        (_values(table.numpy(), "position"), _alike(table.numpy()), _by_distance(table.numpy())),
    )


def _grid(wanted: Wanted) -> Embedding:
    if wanted.width % 4:
        raise ValueError(f"--width is a multiple of 4, sines and cosines of rows and of columns, not {wanted.width}")
    rows, columns = wanted.grid
    table = sinusoidal_grid(rows, columns, width=wanted.width, base=wanted.base, dtype=torch.float64).numpy()
    middle = rows // 2 * columns + columns // 2
    near = (table @ table[middle] / (table[middle] @ table[middle])).reshape(rows, columns)
    return Embedding(
        "Sinusoidal positions on a grid",
        f"{rows} x {columns} patches, {wanted.width} channels: the first half says the row, the second the column",
        (
            replace(_values(table, "patch"), names=tuple(patch(place, wanted.grid) for place in range(rows * columns))),
            Heat(f"p · p of patch {patch(middle, wanted.grid)} and all", "row", "column", near, 1.0, first=1),
        ),
    )


def _rotary(wanted: Wanted) -> Embedding:
    places = torch.arange(wanted.length)
    cosines = rotary_table(places, width=wanted.width, base=wanted.base, dtype=torch.float64).cos.numpy()
    turns = rotary_frequencies(wanted.width, base=wanted.base).numpy()
    mean = np.cos(np.arange(wanted.length)[:, None] * turns).mean(1)
    across = np.arange(wanted.length, dtype=np.float64)
    return Embedding(
        "Rotary positions",
        f"{wanted.length} positions, heads of {wanted.width} channels: the later a pair, the slower it turns",
        (
            Heat("Cosine of the angle", "position", "pair of channels", cosines, 1.0),
            Curves("Mean cosine by distance: the score of a query and a key that are alike", "distance",
                   (("mean over pairs", across, mean),)),
        ),
    )  # fmt: skip


def _alibi(wanted: Wanted) -> Embedding:
    slopes = alibi_slopes(wanted.bias_heads, dtype=torch.float64).numpy()
    across = np.arange(wanted.length, dtype=np.float64)
    bias = 0.0 - slopes[:, None] * across
    series = tuple((f"head {head}", across, row) for head, row in enumerate(bias))
    return Embedding(
        "ALiBi",
        f"{wanted.bias_heads} heads: −slope · |i − j| is added, slopes from {slopes.max():.4g} to {slopes.min():.4g}",
        (
            Heat("What is added to a score, by distance", "head", "distance", bias, float(np.abs(bias).max()) or 1.0),
            Curves("The same as lines", "distance", series),
        ),
    )


def _relative(wanted: Wanted) -> Embedding:
    """Values are learnt, so the buckets are drawn: which differences share a number."""
    how = {"buckets": wanted.buckets, "max_distance": wanted.max_distance, "bidirectional": not wanted.causal}
    reach = torch.arange(-wanted.length + 1, 1 if wanted.causal else wanted.length)
    found = relative_bucket(reach, **how).numpy()
    side = wanted.buckets if wanted.causal else wanted.buckets // 2
    last = int((relative_bucket(-torch.arange(wanted.max_distance + 1), **how) == side - 1).int().argmax())
    curve = ("bucket", reach.numpy().astype(np.float64), found.astype(np.float64))
    signed = np.where(reach.numpy() > 0, side - found, found)
    places = np.arange(wanted.length)
    table = np.concatenate([signed, np.zeros(wanted.length)])[places[None] - places[:, None] + wanted.length - 1]
    return Embedding(
        "Relative positions in buckets",
        f"{wanted.buckets} buckets, one learnt number a head and bucket; from distance {last} on all share the last",
        (
            Curves("Bucket by difference j − i", "difference", (curve,), steps=True),
            Heat("Bucket of each pair: earlier keys above 0, later ones below", "query", "key", table, float(side - 1)),
        ),
    )


# A kind -> what it takes, and how it is made.
POSITIONS: dict[str, tuple[frozenset[str], Callable[[Wanted], Embedding]]] = {
    "sinusoidal": (frozenset({"length", "width", "base"}), _sinusoidal),
    "grid": (frozenset({"grid", "width", "base"}), _grid),
    "rotary": (frozenset({"length", "width", "base"}), _rotary),
    "alibi": (frozenset({"length", "bias_heads"}), _alibi),
    "relative": (frozenset({"length", "buckets", "max_distance", "causal"}), _relative),
}


def positions(kind: str, **said: int | float | bool | tuple[int, int]) -> Embedding:
    """The embedding of a kind with the sizes said; an option of another kind is refused.

    >>> [part.values.shape for part in positions("sinusoidal", length=5, width=6).parts[:1]]
    [(5, 6)]
    """
    if kind not in POSITIONS:
        raise ValueError(f"there are no positions {kind!r}{nearest(kind, POSITIONS)}; there are {', '.join(POSITIONS)}")
    taken, make = POSITIONS[kind]
    for name, value in said.items():
        if name not in taken:
            names = ", ".join(f"--{one.replace('_', '-')}" for one in sorted(taken))
            raise ValueError(f"--{name.replace('_', '-')} is no option of --positions {kind}, which takes {names}")
        sizes = value if isinstance(value, tuple) else (value,)
        if any(isinstance(size, int) and not isinstance(size, bool) and not 1 <= size <= 4096 for size in sizes):
            raise ValueError(f"--{name.replace('_', '-')} is from 1 to 4,096, not {value}")
        if name == "base" and not SMALLEST_BASE <= float(sizes[0]) <= LARGEST_BASE:
            raise ValueError(f"--base is from 0.001 to 1e30, not {value}")
    return make(Wanted(**said))  # pyright: ignore[reportArgumentType]


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
