"""Masks: who may attend to whom. True = may attend, everywhere, without exception.

A mask relates *positions* (causal, window, …) or places in the call (padding, segments, a table). Masks compose with
`&`, `|` and `~`, and nothing is tabulated until somebody asks for a part:

>>> (causal() & window(2)).table(4).int()[0, 0].tolist()
[[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
>>> (causal() & window(256)).count(16384)
4161664
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from headway.ops.mask.base import Mask
from headway.ops.mask.by_index import Given, Keep, Packed, Segments
from headway.ops.mask.positions import Causal, Full, Global, Grid, Selected, Tiles, Window

__all__ = [
    "CAUSAL", "Mask", "allowed", "blocked", "causal", "dilated", "everything", "global_tokens", "packed", "padding",
    "segments", "selected", "tiles", "window",
]  # fmt: skip


def everything() -> Mask:
    """Everybody sees everybody."""
    return Full()


def causal() -> Mask:
    """A query sees keys at its own and at earlier positions."""
    return Causal()


CAUSAL = causal()  # the mask of a causal layer under no other: known by identity


def window(size: int | Grid, *, grid: Grid | None = None) -> Mask:
    """|i - j| < size; on a grid of Y x X positions (row by row), in both axes. `causal() & window(n)` sees n keys."""
    return Window(_both(size, "window", grid), (1, 1), _grid(grid))


def dilated(
    size: int | Grid, *, dilation: int | Grid = 1, grid: Grid | None = None, step: int | Grid | None = None
) -> Mask:
    """|i - j| is 0, dilation, … (size - 1) · dilation; on a grid, in both axes.

    With dilation 1 it is `window(size)`. The keyword was once `step`, which is refused.
    """
    if step is not None:
        raise ValueError(f"dilated(step={step}) is now written dilated(dilation={step})")
    return Window(_both(size, "window", grid), _both(dilation, "dilation", grid), _grid(grid))


def tiles(size: int | Grid, *, grid: Grid | None = None) -> Mask:
    """Windows that do not overlap: a query sees the keys of its own tile."""
    return Tiles(_both(size, "tile", grid), _grid(grid))


def selected(positions: Sequence[int] | Tensor) -> Mask:
    """Tokens at these positions see all and are seen by all (compose with `window(...) | selected(...)`)."""
    if isinstance(positions, Tensor):
        whole = positions.ndim == 1 and not positions.is_floating_point() and positions.dtype != torch.bool
    else:
        whole = all(isinstance(one, int) and not isinstance(one, bool) for one in positions)
    if not whole:
        raise ValueError(f"selected takes a list of positions (whole numbers), not {positions!r}")
    if isinstance(positions, Tensor):
        return Selected(positions.long().unique())
    return Selected(torch.tensor(sorted(set(positions)), dtype=torch.long, device="cpu"))


def global_tokens() -> Mask:
    """Extra tokens outside the sequence, at negative positions, see all and are seen by all."""
    return Global()


def padding(
    *,
    lengths: Sequence[int] | Tensor | None = None,
    keep: Tensor | None = None,
    ignore: Tensor | None = None,
    total: int | None = None,
    side: str = "right",
) -> Mask:
    """Key padding, by name: real `lengths` (padded on `side` to `total`), or a B M table of keys to `keep` or `ignore`.

    >>> padding(lengths=[1, 3], side="left").table(1, 3).int()[:, 0, 0].tolist()
    [[0, 0, 1], [1, 1, 1]]
    """
    given = [name for name, value in (("lengths", lengths), ("keep", keep), ("ignore", ignore)) if value is not None]
    if len(given) != 1:
        raise ValueError(f"padding takes one of lengths, keep (True = real) or ignore (True = padding), not {given}")
    if lengths is not None:
        return Keep(_keep(lengths, total, side))
    table = keep if keep is not None else ignore
    assert table is not None
    _require_boolean(table, f"padding({given[0]}=...)")
    if table.ndim != 2:
        raise ValueError(f"padding({given[0]}=...) takes a B M table, not shape {tuple(table.shape)}")
    return Keep(table if keep is not None else ~table)


def packed(lengths: Sequence[int] | Tensor) -> Mask:
    """Texts of these lengths one after the other in a row, without padding: each sees itself and nobody else.

    Softmax attention computes each run of equally long texts as a batch of its own, so packing texts sorted by length
    costs Σ length² pairs and not one more.

    >>> packed([1, 2]).table(3).int()[0, 0].tolist()
    [[1, 0, 0], [0, 1, 1], [0, 1, 1]]
    """
    sizes = torch.as_tensor(lengths, dtype=None if len(lengths) else torch.long)
    if sizes.ndim != 1 or sizes.is_floating_point() or sizes.dtype == torch.bool or bool((sizes < 0).any()):
        raise ValueError(f"packed takes the length of each text, whole numbers of at least 0, not {lengths!r}")
    return Packed(tuple(sizes.tolist()))


def segments(query: Tensor, key: Tensor | None = None) -> Mask:
    """Packed sequences: tokens with one segment number (L, or B L) see each other and nobody else."""
    pair = [query, query if key is None else key]
    for ids in pair:
        if ids.ndim not in (1, 2) or ids.is_floating_point() or ids.dtype == torch.bool:
            raise ValueError(f"segments takes whole numbers of shape L or B L, not {ids.dtype} {tuple(ids.shape)}")
    first, second = (ids[None] if ids.ndim == 1 else ids for ids in pair)
    return Segments(first, second)


def allowed(table: Tensor) -> Mask:
    """Any boolean table broadcastable to B H L M: True = may attend. An adjacency matrix is one."""
    _require_boolean(table, "a mask")
    if table.ndim > 4:
        raise ValueError(f"a mask broadcasts to B H L M (4 axes); this one has shape {tuple(table.shape)}")
    return Given(table[(None,) * (4 - table.ndim)])


def blocked(table: Tensor) -> Mask:
    """The other polarity, by name: True = may *not* attend."""
    _require_boolean(table, "blocked(...)")
    return allowed(~table)


def _require_boolean(table: Tensor, what: str) -> None:
    if table.dtype == torch.bool:
        return
    if table.is_floating_point():
        raise ValueError(
            f"{what} is boolean, True = may attend, and this tensor is {table.dtype}: pass additive scores as bias=, "
            "a 0/1 table as table.bool()"
        )
    raise ValueError(
        f"{what} is boolean, and this tensor is {table.dtype}: pass allowed(table == 1) if 1 means may attend, "
        "blocked(table == 1) if 1 means may not"
    )


def _keep(lengths: Sequence[int] | Tensor, total: int | None, side: str) -> Tensor:
    sizes = torch.as_tensor(lengths)
    if sizes.ndim != 1 or sizes.is_floating_point() or sizes.dtype == torch.bool or sizes.numel() == 0:
        raise ValueError(f"padding(lengths=...) takes one whole number per row of the batch, not {lengths!r}")
    total = int(sizes.max()) if total is None else total
    if int(sizes.min()) < 0 or int(sizes.max()) > total:
        raise ValueError(f"lengths {sizes.tolist()} do not fit into {total} keys")
    if side not in ("left", "right"):
        raise ValueError(f"padding is on the left or on the right, not {side!r}")
    index = torch.arange(total, device=sizes.device)
    index = index if side == "right" else index.flip(0)
    return index[None] < sizes[:, None]


def _both(size: int | Grid, what: str, grid: Grid | None) -> Grid:
    pair = (size, size) if isinstance(size, int) else tuple(size) if isinstance(size, Sequence) else (size,)
    if len(pair) != 2 or any(not isinstance(side, int) or isinstance(side, bool) or side < 1 for side in pair):
        raise ValueError(f"a {what} has a whole size of at least 1, or one for each axis of a grid, not {size!r}")
    if grid is None and not isinstance(size, int):
        raise ValueError(f"a {what} of {size!r} has two axes: pass grid=(rows, columns) too")
    return pair[0], pair[1]


def _grid(grid: Grid | None) -> Grid | None:
    return None if grid is None else _both(grid, "grid", grid)
