"""A run as its directory tells it, whether it goes on, has stopped or was killed in the middle of a line. No torch."""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.config.run_files import CONFIG, MACHINE, METRICS, is_run, read_mapping, read_rows
from headway.render import Series

if TYPE_CHECKING:
    from headway.data.tokenizer import Tokenizer
    from headway.hub.load import Loaded
    from headway.models.model import Model

QUIET = 120.0  # seconds without a new line after which a run without an end is taken for a stopped one, at least
ENDS = {"finished": "finished", "early": "finished", "stopped": "stopped", "failed": "stopped", "diverged": "diverged"}

Row = dict[str, Any]


@dataclass(frozen=True, repr=False)
class Run:
    """What is known of a run: its configuration, its machine, and the rows of its metrics."""

    path: Path
    config: dict[str, Any]
    machine: dict[str, Any]
    rows: list[Row]
    age: float  # seconds since its last line
    notes: list[str] = field(default_factory=list)  # what could not be read
    damaged: bool = False  # its metrics could not

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def task(self) -> str:
        return str(self.config.get("task", "–"))

    @cached_property
    def loaded(self) -> "Loaded":
        """The model that it has exported, its tokenizer and the receipt of the load."""
        from headway.hub import load

        return load(self.path)

    @property
    def model(self) -> "Model":
        """The trained model, in eval mode."""
        return self.loaded.model

    @property
    def tokenizer(self) -> "Tokenizer | None":
        return self.loaded.tokenizer

    def __repr__(self) -> str:
        best = "" if self.best is None else f", best validation loss {self.best[1]:.4f} at step {self.best[0]:,}"
        return f"Run({str(self.path)!r}: {self.task}, {self.state} after {self.step:,} of {self.steps:,} steps{best})"

    def of(self, kind: str) -> list[Row]:
        """The rows of one kind."""
        return [row for row in self.rows if row["kind"] == kind]

    @cached_property
    def step(self) -> int:
        """Steps that are done."""
        return max((row["step"] for row in self.rows if is_step(row.get("step"))), default=0)

    @property
    def steps(self) -> int | None:
        """Steps in all; None where the configuration does not say."""
        found = self.config.get("steps")
        return found if isinstance(found, int) else None

    @property
    def parameters(self) -> int | None:
        found = (row.get("parameters") for row in reversed(self.of("start")))
        return next((count for count in found if is_step(count)), None)

    @property
    def seconds(self) -> float | None:
        """Time spent on training."""
        return max((value for row in self.rows if isfinite(value := _float(row.get("seconds")))), default=None)

    @property
    def tokens(self) -> int | None:
        return max((int(row["tokens"]) for row in self.of("train") if isinstance(row.get("tokens"), int)), default=None)

    @cached_property
    def best(self) -> tuple[int, float] | None:
        """Step and value of the lowest loss on the validation data."""
        found = [(step, loss) for step, loss in self.curve("validation", "loss") if isfinite(loss)]
        return min(found, key=lambda pair: pair[1], default=None)

    @property
    def end(self) -> Row | None:
        """How it ended; a run that was taken up again has not."""
        return self.rows[-1] if self.rows and self.rows[-1]["kind"] == "end" else None

    @property
    def state(self) -> str:
        """finished, stopped, diverged, damaged; running where lines came lately; new where nothing has happened yet."""
        if self.damaged:
            return "damaged"
        if self.end is not None:
            return ENDS.get(str(self.end.get("reason")), "stopped")
        if not self.rows and self.age > QUIET:
            return "new"
        return "running" if self.age < max(QUIET, 5 * self._rhythm) else "stopped"

    @property
    def _rhythm(self) -> float:
        """The longest time between two lines so far: a validation may take a while."""
        times = [value for row in self.rows if isfinite(value := _float(row.get("seconds")))]
        return max((after - before for before, after in pairwise(times)), default=0.0)

    def curve(self, kind: str, name: str) -> list[tuple[int, float]]:
        """(step, value) of a measure; NaN where it was no number."""
        return [(row["step"], _float(row[name])) for row in self.of(kind) if name in row and is_step(row.get("step"))]

    def series(self, kind: str, name: str, label: str, **looks: Any) -> Series:
        return Series(label, self.curve(kind, name), **looks)

    def measures(self, kind: str) -> list[str]:
        """The names of what its rows of one kind measure, in the order of their first appearance."""
        names = dict.fromkeys(name for row in self.of(kind) for name, value in row.items() if _is_measure(value))
        return [name for name in names if name not in ("kind", "step", "seconds", "tokens", "waited")]


def read_run(path: Path) -> Run:
    """Read a run's directory; what is damaged in it is noted and left out."""
    if not is_run(path):
        found = "is no directory" if not path.is_dir() else f"holds neither {METRICS} nor {CONFIG}"
        raise ValueError(f"{path} {found}: a run is a directory that `headway train` has written")
    notes: list[str] = []
    rows = _rows(path / METRICS, notes)
    config, machine = _mapping(path / CONFIG, notes), _mapping(path / MACHINE, notes)
    return Run(path, config, machine, rows or [], _age(path), notes, damaged=rows is None)


def read_or_note(path: Path) -> Run:
    """The same; what cannot be read at all is a damaged run with a note, so that a list has all the others."""
    try:
        return read_run(path)
    except (ValueError, OSError) as error:
        return Run(path, {}, {}, [], _age(path), [f"cannot be read: {error}"], damaged=True)


def _age(path: Path) -> float:
    """Seconds since something was written to a run."""
    newest = 0.0
    for name in (METRICS, CONFIG):
        with suppress(OSError):
            newest = max(newest, (path / name).stat().st_mtime)
    return max(0.0, time.time() - newest)


def _rows(path: Path, notes: list[str]) -> list[Row] | None:
    try:
        lines = list(read_rows(path))
    except (ValueError, OSError) as error:
        notes.append(f"{path.name} cannot be read: {error}")
        return None
    found = [row for _, row in lines if row is not None]
    damaged = sum(row is None and bool(line.strip()) for line, row in lines[:-1])  # the last may be half-written yet
    if damaged:
        notes.append(f"{path.name}: {damaged} damaged line{'s are' if damaged > 1 else ' is'} left out")
    return found


def _mapping(path: Path, notes: list[str]) -> dict[str, Any]:
    """The mapping in a YAML or JSON file; nothing, and a note, where it cannot be read."""
    found = read_mapping(path)
    if found is None:
        notes.append(f"{path.name} cannot be read")
    return found or {}


def _float(value: object) -> float:
    """A measure as a number; JSON has no NaN, so that it may be a word, or nothing."""
    try:
        return nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return nan


def is_step(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_measure(value: object) -> bool:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return numeric or value in ("nan", "inf", "-inf", None)
