"""A model at many sizes: a table with a row for each, and a plot of FLOPs over the size and how they are shared out."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headway.config import Frozen, nearest
from headway.config.size_limits import SIZE, check_size
from headway.cost.input_lengths import PriceRequest, whole
from headway.cost.limits import limits
from headway.cost.memory import memory_of
from headway.cost.price import drafted, found_in
from headway.cost.resize import resized
from headway.cost.sheet import Sheet
from headway.cost.show.report import sums
from headway.render.table import BYTES, Amount, Cell, Table

SETTINGS = ("length", "source_length", "batch", "past", "new")
CONFIGS = ("width", "layers")
MOST = 1000  # sizes in one sweep

_RANGE = re.compile(r"([a-z_-]+)=(\d+)\.\.(\d+)(?::(\d+))?")
_LIST = re.compile(r"([a-z_-]+)=(\d+(?:,\d+)*)")


@dataclass(frozen=True)
class Sweep:
    """A name and its values.

    >>> read_sweep("length=128..1024").values
    (128, 256, 512, 1024)
    """

    name: str
    values: tuple[int, ...]


def read_sweep(text: str) -> Sweep:
    """`length=128..65536` doubles, `length=128..1024:128` counts up by 128, `width=64,100` names them.

    >>> read_sweep("batch=1..7:3").values, read_sweep("width=64,96").values
    ((1, 4, 7), (64, 96))
    """
    ranged, listed = _RANGE.fullmatch(text), _LIST.fullmatch(text)
    found = ranged or listed
    if found is None:
        raise ValueError(
            f"a sweep is NAME=FIRST..LAST (doubling), NAME=FIRST..LAST:STEP or NAME=A,B,C, for example "
            f"length=128..65536; not {text!r}"
        )
    name = found[1].replace("-", "_")
    if name not in (*SETTINGS, *CONFIGS):
        known = (*SETTINGS, *CONFIGS)
        raise ValueError(f"there is no sweep over {found[1]}{nearest(name, known)}; there are {', '.join(known)}")
    values = _values(ranged, text) if ranged else tuple(int(one) for one in found[2].split(","))
    return Sweep(name, _fewer(values))


def _values(found: re.Match[str], text: str) -> tuple[int, ...]:
    first, last, step = int(found[2]), int(found[3]), found[4]
    if not 1 <= first <= last or step == "0":
        raise ValueError(f"a sweep goes upwards from at least 1, in steps of at least 1; not {text!r}")
    if step is not None:
        return _fewer(range(first, last + 1, int(step)))
    return tuple(_doubled(first, last))


def _fewer(values: Sequence[int]) -> tuple[int, ...]:
    if len(values) > MOST:
        raise ValueError(f"a sweep of {len(values):,} sizes is too long: at most {MOST:,}")
    return tuple(values)


def _doubled(first: int, last: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= 2


def swept(sweep: Sweep, target: Any, asked: PriceRequest, *, name: str) -> list[Sheet]:
    """A sheet for each size, everything else as it was asked; refused before any of them is finished."""
    return [_finished(sheet, asked) for sheet in list(_drafts(sweep, target, asked, name))]


def _drafts(sweep: Sweep, target: Any, asked: PriceRequest, name: str) -> Iterator[Sheet]:
    config = found_in(target)
    if sweep.name in CONFIGS and not isinstance(config, Frozen):
        raise ValueError(f"{name} is a module of its own: only a configuration has another {sweep.name}")
    field = {"source_length": "source"}.get(sweep.name, sweep.name)
    if sweep.name in CONFIGS:
        # All are made before the first is priced: a size that is refused is said at once.
        for one in [resized(whole(config), sweep.name, value) for value in sweep.values]:
            yield drafted(one, asked, name=name)
        return
    for value in sweep.values:
        yield drafted(config, replace(asked, **{field: check_size(value, SIZE, sweep.name)}), name=name)


def _finished(sheet: Sheet, asked: PriceRequest) -> Sheet:
    """Without the sizes at which the bottleneck changes, which are the same in all rows."""
    memory, setting = sheet.memory, replace(sheet.setting, past=0)
    if sheet.config is not None:
        memory = memory_of(sheet.config, setting, optimiser=asked.optimiser, new=asked.new or 0)
    return replace(sheet, bottleneck=limits(sheet.operations, None, setting), memory=memory)


def sweep_table(sweep: Sweep, sheets: Sequence[Sheet]) -> Table:
    """Sizes down, quantities across."""
    rows = [(value, *map(_cell, row(sheet).items())) for value, sheet in zip(sweep.values, sheets, strict=True)]
    first = sweep.name.replace("_", " ")
    return Table(f"{sheets[0].name} over {first}", (first, *row(sheets[0])), rows)


def _cell(item: tuple[str, Any]) -> Cell:
    name, value = item
    return Amount(value, BYTES) if name.startswith("peak") and value is not None else value


def row(sheet: Sheet) -> dict[str, Any]:
    """What is compared over sizes."""
    return {
        **sums(sheet),
        "peak forward": None if sheet.memory is None else sheet.memory.peak_forward,
        "peak step": None if sheet.memory is None else sheet.memory.peak_step,
        "bottleneck": None if sheet.bottleneck is None else sheet.bottleneck.now.part,
    }


def sweep_record(sweep: Sweep, sheets: Sequence[Sheet]) -> list[dict[str, Any]]:
    """For programs: one object for each size."""
    return [
        {"name": sheet.name, sweep.name: value, **{_key(name): one for name, one in row(sheet).items()}}
        for value, sheet in zip(sweep.values, sheets, strict=True)
    ]


def _key(name: str) -> str:
    return {"parameters": "params", "dense MACs": "macs", "dense FLOPs": "flops"}.get(
        name, name.replace(" ", "_").lower()
    )


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
    names, layers = _plotted_shares(sheets)
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


def _plotted_shares(sheets: Sequence[Sheet]) -> tuple[list[str], list[list[float]]]:
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
