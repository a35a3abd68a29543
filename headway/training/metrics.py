"""metrics.jsonl: one JSON object a line, in the order in which things happened.

A run that goes on from a checkpoint takes out what came after it, so that no step stands there twice.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.config.run_files import METRICS, read_rows
from headway.data.files import write_whole


class Metrics:
    """A file of rows that is only ever added to; a process that is not the first writes nothing."""

    def __init__(self, directory: Path, *, until: int | None = None, silent: bool = False) -> None:
        """A new file; with `until` the lines of the old one up to that step."""
        self.path = directory / METRICS
        kept = [] if until is None or silent else _lines(self.path, until)
        self._file = None if silent else self._begun(kept)

    def _begun(self, kept: list[str]) -> Any:
        return write_whole(self.path, "".join(kept)).open("a", encoding="utf-8")

    def write(self, kind: str, row: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps({"kind": kind} | {name: _plain(value) for name, value in row.items()}) + "\n")
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _lines(path: Path, until: int) -> list[str]:
    """The lines up to a step; an end that was not one goes, and so does a line that was cut in two."""
    return [
        line.decode("utf-8")
        for line, row in read_rows(path)
        if row is not None and row.get("step", 0) <= until and row["kind"] != "end" and line.endswith(b"\n")
    ]


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity; they are written as words."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class Meter:
    """Sums between two lines of a log; a checkpoint keeps them, so that a resumed run writes the same lines."""

    def __init__(self, sums: Mapping[str, float] | None = None) -> None:
        self.sums: dict[str, float] = dict(sums or {})

    def add(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def take(self) -> dict[str, float]:
        """The sums so far; from here on it counts from nothing."""
        found, self.sums = self.sums, {}
        return found
