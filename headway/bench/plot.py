"""Rows as a picture: how headway stands to its best peer, and how much of the machine it uses."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from headway.bench.row import Row, more_is_better

SUFFIXES = (".png", ".svg", ".pdf")
BETTER, WORSE, NEUTRAL = "#2a7f9e", "#c8553d", "#8a8a8a"
LEGEND = "blue: target met; red: missed; grey: unclear; black line: interquartile range"


def require(path: Path) -> None:
    """Refuses before the measurements, not after them, what would make the picture fail."""
    if find_spec("matplotlib") is None:
        raise ValueError('--plot needs matplotlib: pip install "headway[plot]"')
    if path.suffix not in SUFFIXES:
        raise ValueError(f"--plot writes {', '.join(SUFFIXES)}, not {path.name!r}")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--plot cannot write {path}: the directory {path.parent} does not exist")


def plot(rows: Sequence[Row], path: Path, *, title: str = "") -> None:
    """Two panels over the same rows: ratio to the best peer (logarithmic, 1 is equal) and share of the limit."""
    from matplotlib.figure import Figure  # an extra, and slow to import
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    drawn = [row for row in rows if row.ratio_to_best is not None]
    figure = Figure(figsize=(11, 1.6 + 0.2 * len(drawn)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    places = range(len(drawn))
    ratios = [row.ratio_to_best or 1.0 for row in drawn]
    errors = [ratio * (row.spread or 0.0) / 2 for ratio, row in zip(ratios, drawn, strict=True)]
    widths = [ratio - 1 for ratio in ratios]
    left.barh(places, widths, left=1.0, xerr=errors, color=[colour(row) for row in drawn], ecolor="black")
    left.axvline(1.0, color="black", linewidth=0.8)
    left.set(xscale="log", xlabel="headway / best peer", ylim=(len(drawn) - 0.4, -0.6))
    left.set_yticks(places, [f"{row.model}  {row.shape}  {row.precision}" for row in drawn], fontsize=7)
    right.barh(places, [row.share_of_limit or 0.0 for row in drawn], color=NEUTRAL)
    right.set(xlabel="share of limit", xlim=(0, 1))
    left.xaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), major_formatter=FormatStrFormatter("%g"))
    left.xaxis.set_minor_formatter(NullFormatter())
    for axes in (left, right):
        axes.grid(axis="x", alpha=0.3)
    figure.suptitle(f"{title}\n{LEGEND}", fontsize=8)
    figure.savefig(path, dpi=150)


def colour(row: Row) -> str:
    """By the verdict where the row has a target, by the ratio where it has none."""
    if row.verdict is not None:
        return {"met": BETTER, "missed": WORSE}.get(row.verdict, NEUTRAL)
    ahead = (row.ratio_to_best or 1.0) > 1.0
    return BETTER if ahead == more_is_better(row.unit) else WORSE
