"""Rows as a table for the terminal and as a plot: the ratio to the best peer, the share of the machine's limit."""

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from headway.bench.row import Row, more_is_better
from headway.bench.targets import TargetRow
from headway.render.table import BYTES, Amount, Cell, Table

NOT_MEASURED = "not measured"
COLOURS = {"met": "green", "missed": "red", "unclear": "yellow", NOT_MEASURED: "magenta"}


def table(rows: Iterable[Row], *, title: str = "") -> Table:
    """One line a row.

    >>> figures = {"headway": 1.5, "peers": {"torch": 3.0}, "best_peer": "torch", "ratio_to_best": 0.5}
    >>> made = table([Row("toy", "sum", "L9", "float32", **figures)])
    >>> [str(cell) for cell in made.rows[0][:6]]
    ['sum', 'L9', 'float32', '1.5 ms', 'torch 3 ms', '0.500 x']
    """
    columns = (
        "model",
        "shape",
        "precision",
        "headway",
        "best peer",
        "ratio",
        "spread",
        "of limit",
        "target",
        "verdict",
    )
    return Table(title, columns, [_cells(row) for row in rows], styles=COLOURS)


def _cells(row: Row) -> list[Cell]:
    peer = None if row.best_peer is None else row.peers[row.best_peer]
    ratio = row.ratio_to_best
    return [
        row.model,
        row.shape,
        row.precision,
        _figure(row.headway, row.unit),
        None if peer is None else Amount(peer, text=f"{row.best_peer} {_figure(peer, row.unit)}"),
        None if ratio is None else Amount(ratio, text=f"{ratio:.3f} x"),
        _percent(row.spread),
        _percent(row.share_of_limit),
        row.target,
        row.verdict,
    ]


def targets_table(rows: Iterable[TargetRow], *, title: str = "") -> Table:
    """The user's own models: one line for each target and phase."""
    columns = (
        "target", "phase", "batch x length", "precision", "time", "spread", "rate", "ratio to first", "peak memory",
    )  # fmt: skip
    return Table(title, columns, [_target_cells(row) for row in rows], styles=COLOURS)


def _target_cells(row: TargetRow) -> list[Cell]:
    sizes = str(row.batch) if row.length is None else f"{row.batch} x {row.length}"
    start = [row.target, row.phase, sizes, row.precision]
    if row.milliseconds is None or row.peak_bytes is None:
        return [*start, NOT_MEASURED, None, None, None, None]
    ratio = Amount(row.ratio_to_first or 1.0, text=f"{row.ratio_to_first:.3f} x")
    figures = [_figure(row.milliseconds, "ms"), _percent(row.spread), _figure(row.rate, row.unit), ratio]
    return [*start, *figures, Amount(row.peak_bytes, BYTES)]


def remarks(rows: Iterable[Row | TargetRow]) -> list[str]:
    """The rows' notes, and how many rows met their targets."""
    rows = list(rows)
    notes = [
        f"{row.target if isinstance(row, TargetRow) else f'{row.model} {row.shape} {row.precision}'}: {row.note}"
        for row in rows
        if row.note
    ]
    verdicts = [row.verdict for row in rows if isinstance(row, Row) and row.verdict]
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts))
    return [*dict.fromkeys(notes), *([counts] if counts else [])]


def _figure(value: float | None, unit: str) -> Amount | None:
    if value is None:
        return None
    return Amount(value, text=f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}")


def _percent(value: float | None) -> Amount | None:
    return None if value is None else Amount(value, text=f"{value:.0%}")


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


def draw(rows: Sequence[Row], path: Path, *, title: str = "") -> None:
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
