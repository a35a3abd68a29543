"""A sweep as a picture: FLOPs over the size, and how they are shared out."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from headway.cost.sheet import Sheet
from headway.cost.show.sweep import Sweep, row

SUFFIXES = (".png", ".svg", ".pdf")
CURVES = {"dense FLOPs": "-", "useful FLOPs": "--", "executed FLOPs": ":", "other FLOPs": "-."}


def require(path: Path) -> None:
    """Refuses before anything is computed what would make the picture fail."""
    if find_spec("matplotlib") is None:
        raise ValueError('--plot needs matplotlib: pip install "headway[plot]"')
    if path.suffix not in SUFFIXES:
        raise ValueError(f"--plot writes {', '.join(SUFFIXES)}, not {path.name!r}")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--plot cannot write {path}: the directory {path.parent} does not exist")


def plot(sweep: Sweep, sheets: Sequence[Sheet], path: Path) -> None:
    """Two panels over one axis: the counts (both logarithmic), and the parts' shares of the dense FLOPs."""
    from matplotlib.figure import Figure  # an extra, and slow to import

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    counts = [row(sheet) for sheet in sheets]
    for name, style in CURVES.items():
        values = [one[name] for one in counts]
        if None not in values:
            left.plot(sweep.values, values, style, label=name, marker="o", markersize=3)
    left.set(xscale="log", yscale="log", ylabel="FLOPs of a forward pass")
    names, layers = _shares(sheets)
    right.stackplot(sweep.values, *layers, labels=names, alpha=0.8)
    right.set(xscale="log", ylabel="share of the dense FLOPs", ylim=(0, 1))
    for axes in (left, right):
        _ruled(axes, sweep)
    figure.suptitle(sheets[0].name)
    _saved(figure, path)


def _ruled(axes, sweep: Sweep) -> None:
    """The sizes themselves on the axis, where they have room."""
    values = list(sweep.values)
    axes.set(xlabel=sweep.name.replace("_", " "), xlim=(values[0], max(values[-1], values[0] + 1)))
    if len(values) <= 12:
        axes.set_xticks(values, [f"{value:,}" for value in values], rotation=30, fontsize=7)
        axes.set_xticks([], minor=True)
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)


def _shares(sheets: Sequence[Sheet]) -> tuple[list[str], list[list[float]]]:
    found = [{} if sheet.bottleneck is None else sheet.bottleneck.shares for sheet in sheets]
    names = dict.fromkeys(name for one in found for name in one)
    names = [name for name in names if any(one.get(name) for one in found)]
    return names, [[one.get(name, 0.0) for one in found] for name in names]


def _saved(figure, path: Path) -> None:
    """Beside the place first, so that nothing half-written stands there."""
    made = path.with_name(f".{path.stem}.partial{path.suffix}")
    try:
        figure.savefig(made, dpi=150)
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)
