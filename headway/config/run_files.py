"""The directory of a training run: which file is where, and how those that say what happened are read. No torch."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.config.read_file import open_file, parse_json, read_settings
from headway.config.size_limits import MEBI

CONFIG, METRICS, MACHINE = "config.yaml", "metrics.jsonl", "machine.json"
DAMAGED = "metrics.damaged.jsonl"  # lines of the metrics that were no rows when the run was resumed

_ROW_BYTES = MEBI  # a longer line is no row of ours


def is_run(path: Path) -> bool:
    """Whether a directory is one that `headway train` has made."""
    return (path / CONFIG).is_file() or (path / METRICS).is_file()


def read_rows(path: Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """The lines of a metrics.jsonl, each with its row; None for one that is damaged or was cut in two."""
    if not path.exists():
        return
    with open_file(path) as file:
        while line := file.readline(_ROW_BYTES):
            yield line, _row(line)


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = parse_json(line, METRICS)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("kind"), str) and _is_step(row.get("step", 0)) else None


def _is_step(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def read_mapping(path: Path) -> dict[str, Any] | None:
    """The mapping in a run's YAML or JSON file, empty where there is no file; None where it cannot be read."""
    try:
        found = read_settings(path) if path.exists() else {}
    except (ValueError, OSError):
        return None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True)
class RunFiles:
    """A run's directory, and what stands where in it."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def tokenizer(self) -> Path:
        return self.path / "tokenizer"

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def start(self) -> Path:
        """The model that the run began with, where it was given from Python."""
        return self.path / "start"

    @property
    def config(self) -> Path:
        return self.path / CONFIG

    @property
    def metrics(self) -> Path:
        return self.path / METRICS

    @property
    def machine(self) -> Path:
        return self.path / MACHINE

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:08d}"
