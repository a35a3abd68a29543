"""Rows as a picture: how headway stands to its best peer, and how much of the machine it uses."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from headway.bench.row import Row, more_is_better

SUFFIXES = (".png", ".svg", ".pdf")
BETTER, WORSE, NEUTRAL = "#2a7f9e", "#c8553d", "#8a8a8a"


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

    drawn = [row for row in rows if row.ratio_to_best is not None][::-1]
    figure = Figure(figsize=(11, 1.5 + 0.28 * max(1, len(drawn))), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    places = range(len(drawn))
    ratios = [row.ratio_to_best or 0.0 for row in drawn]
    errors = [ratio * (row.spread or 0.0) / 2 for ratio, row in zip(ratios, drawn, strict=True)]
    left.barh(places, ratios, xerr=errors, color=[colour(row) for row in drawn], ecolor=NEUTRAL)
    left.axvline(1.0, color="black", linewidth=0.8)
    left.set(xscale="log", xlabel="headway / best peer (times and bytes: left of 1 is better)")
    left.set_yticks(places, [f"{row.model}  {row.shape}  {row.precision}" for row in drawn], fontsize=7)
    right.barh(places, [row.share_of_limit or 0.0 for row in drawn], color=NEUTRAL)
    right.set(xlabel="share of the machine's limit", xlim=(0, 1))
    figure.suptitle(title, fontsize=9)
    figure.savefig(path, dpi=150)


def colour(row: Row) -> str:
    """By the verdict where the row has a target, by the ratio where it has none."""
    if row.verdict is not None:
        return {"met": BETTER, "missed": WORSE}.get(row.verdict, NEUTRAL)
    ahead = (row.ratio_to_best or 1.0) > 1.0
    return BETTER if ahead == more_is_better(row.unit) else WORSE
