"""Runs side by side: which there are, and how some of them differ. No torch: a list is there at once."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from headway.app.report import noisy
from headway.app.run import Run, read_or_note, read_run
from headway.config.base import nearest
from headway.config.run_files import is_run
from headway.render import (
    Html,
    Section,
    Series,
    Table,
    duration,
    html_table,
    joined,
    line_chart,
    page,
    paragraph,
    smoothed,
)

DEFAULT = Path("runs")


def find_runs(directories: Sequence[Path]) -> list[Run]:
    """The runs in these directories, or these runs, the newest first."""
    found = [path for directory in directories or [DEFAULT] for path in _paths(directory)]
    return sorted((read_or_note(path) for path in dict.fromkeys(found)), key=lambda run: (run.age, run.name))


def _paths(directory: Path) -> list[Path]:
    if is_run(directory):
        return [directory]
    if not directory.is_dir():
        what = f"{directory} is a file" if directory.exists() else f"there is no directory {directory}"
        raise ValueError(f"{what}: `headway train` makes runs/<name>; name another directory, as in headway runs DIR")
    found = sorted(path for path in directory.iterdir() if path.is_dir() and is_run(path))
    if not found:
        raise ValueError(f"there is no run in {directory}: `headway train` makes one")
    return found


def choose(names: Sequence[str], directories: Sequence[Path]) -> list[Run]:
    """Runs by name (of a run in the directories) or path, in the order in which they are named."""
    wanted = list(dict.fromkeys(names))
    if len(wanted) < 2:
        raise ValueError(f"--compare takes at least two different runs, not {len(wanted)}")
    by_path = {name: Path(name) for name in wanted if is_run(Path(name))}
    listed = find_runs(directories) if len(by_path) < len(wanted) else []
    return [read_run(by_path[name]) if name in by_path else _named(name, listed) for name in wanted]


def _named(name: str, listed: Sequence[Run]) -> Run:
    found = [run for run in listed if run.name == name]
    if not found:
        known = [run.name for run in listed]
        raise ValueError(f"there is no run {name!r}{nearest(name, known)}; there are {', '.join(sorted(known))}")
    if len(found) > 1:
        raise ValueError(f"{name!r} may be {' or '.join(str(run.path) for run in found)}: name it by its path")
    return found[0]


def as_json(run: Run) -> dict[str, Any]:
    """A run in numbers; what is not known is null."""
    best = run.best or (None, None)
    return {
        "name": run.name,
        "path": str(run.path),
        "task": run.task,
        "state": run.state,
        "parameters": run.parameters,
        "step": run.step,
        "steps": run.steps,
        "best_loss": best[1],
        "best_step": best[0],
        "tokens": run.tokens,
        "seconds": run.seconds,
    }


def flat(config: object, above: str = "") -> dict[str, object]:
    """A nested configuration as dotted names.

    >>> flat({"optim": {"rate": 0.1}, "steps": 5})
    {'optim.rate': 0.1, 'steps': 5}
    """
    if not isinstance(config, dict) or (not config and above):
        return {above: config}
    found: dict[str, object] = {}
    for name, value in config.items():
        found |= flat(value, f"{above}.{name}" if above else str(name))
    return found


def differences(runs: Sequence[Run]) -> dict[str, list[object]]:
    """What the configurations do not agree on: dotted name -> the value of each run, None where it has none."""
    configs = [flat(run.config) for run in runs]
    names = dict.fromkeys(name for config in configs for name in config)
    rows = {name: [config.get(name) for config in configs] for name in names}
    return {name: values for name, values in rows.items() if any(value != values[0] for value in values)}


def compared(runs: Sequence[Run]) -> dict[str, list[object]]:
    """What was measured: name -> the value of each run; of the validation, where its loss was lowest."""
    rows: dict[str, list[object]] = {
        "state": [run.state for run in runs],
        "steps": [run.step for run in runs],
        "parameters": [run.parameters for run in runs],
        "best validation loss": [run.best and run.best[1] for run in runs],
        "at step": [run.best and run.best[0] for run in runs],
    }
    names = dict.fromkeys(name for run in runs for name in run.measures("validation") if name != "loss")
    for name in names:
        rows[name.replace("_", " ")] = [_there(run, name) for run in runs]
    rows["last training loss"] = [next((y for _, y in reversed(run.curve("train", "loss"))), None) for run in runs]
    rows["tokens per second"] = [
        round(run.tokens / run.seconds) if run.tokens and run.seconds else None for run in runs
    ]
    rows["time"] = [duration(run.seconds) for run in runs]
    return rows


def _there(run: Run, name: str) -> float | None:
    value = dict(run.curve("validation", name)).get(run.best[0]) if run.best else None
    return value if value is not None and isfinite(value) else None


def curves(runs: Sequence[Run]) -> tuple[str, list[Series]]:
    """A curve for each run: of the validation where all have one, else of the training."""
    labels = [run.name for run in runs] if len({run.name for run in runs}) == len(runs) else [str(r.path) for r in runs]
    if all(len(run.curve("validation", "loss")) > 1 for run in runs):
        return "Validation loss", [
            Series(label, run.curve("validation", "loss"), dots=True) for label, run in zip(labels, runs, strict=True)
        ]
    found = [run.curve("train", "loss") for run in runs]
    calm = [smoothed(points, width=len(points) // 40 + 1) for points in found]
    return "Training loss", [Series(label, points) for label, points in zip(labels, calm, strict=True)]


def document(runs: Sequence[Run]) -> str:
    """One page over some runs, their curves over one another."""
    title = " and ".join(run.name for run in runs) if len(runs) < 4 else f"{len(runs)} runs"
    return page(title, _sections(runs), f"{len(runs)} run{'s' if len(runs) > 1 else ''} compared")


def _sections(runs: Sequence[Run]) -> list[Section]:
    names = [run.name for run in runs]
    title, drawn = curves(runs)
    named = enumerate(zip(drawn, runs, strict=True))
    training = [part for tone, (one, run) in named for part in noisy(one.name, run.curve("train", "loss"), tone)]
    more = [line_chart("Training loss", training, log=True)] if title != "Training loss" else []
    changed = [[name, *map(_value, values)] for name, values in differences(runs).items()]
    rows = [[name, *values] for name, values in compared(runs).items()]
    same = paragraph("The configurations are the same.")
    settings: Html = (
        html_table(Table("Options that are not the same", ["option", *names], changed)) if changed else same
    )
    return [
        Section("Loss", joined(line_chart(title, drawn, log=True), *more), "loss"),
        Section(
            "Measures",
            html_table(Table("Each run where its validation loss was lowest", ["measure", *names], rows)),
            "measures",
        ),
        Section("Configurations", settings, "configurations"),
    ]


def _value(value: object) -> object:
    return value if value is None or (isinstance(value, int | float) and not isinstance(value, bool)) else str(value)
