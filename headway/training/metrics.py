"""metrics.jsonl: one JSON object a line, in the order in which things happened.

A run that goes on from a checkpoint takes out what came after it, so that no step stands there twice. A last line that
was cut in two goes too; any other line that is no row is set aside in a file of its own, and named.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headway.config.run_files import DAMAGED, METRICS, read_rows
from headway.data.files import write_whole


class Metrics:
    """A file of rows that is only ever added to; a process that is not the first writes nothing."""

    def __init__(self, directory: Path, *, until: int | None = None, silent: bool = False) -> None:
        """A new file; with `until` the lines of the old one up to that step."""
        self.path = directory / METRICS
        kept, damaged = ([], {}) if until is None or silent else _lines(self.path, until)
        self.notes = tuple(_set_aside(directory / DAMAGED, damaged)) if damaged else ()
        self._file = None if silent else self._begun(kept)

    def _begun(self, kept: list[str]) -> Any:
        return write_whole(self.path, "".join(kept)).open("a", encoding="utf-8")

    def write(self, kind: str, row: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps({"kind": kind} | {name: _plain(value) for name, value in row.items()}) + "\n")
            self._file.flush()

    def sync(self) -> None:
        """What was written is on the disk; a checkpoint that is saved afterwards has all its rows."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _lines(path: Path, until: int) -> tuple[list[str], dict[int, bytes]]:
    """The lines up to a step, without an end that was not one; and lines that are no rows, by number."""
    found = list(read_rows(path))
    if found and not found[-1][0].endswith(b"\n"):
        found.pop()
    rows = [(line, row) for line, row in found if row is not None]
    kept = [line.decode() for line, row in rows if row.get("step", 0) <= until and row["kind"] != "end"]
    damaged = {number: line for number, (line, row) in enumerate(found, start=1) if row is None and line.strip()}
    return kept, damaged


def _set_aside(place: Path, damaged: Mapping[int, bytes]) -> Iterator[str]:
    with place.open("ab") as file:
        file.writelines(damaged.values())
        file.flush()
        os.fsync(file.fileno())
    numbers = ", ".join(map(str, list(damaged)[:5])) + (" ..." if len(damaged) > 5 else "")
    what = f"line {numbers} is no row and was" if len(damaged) == 1 else f"lines {numbers} are no rows and were"
    yield f"{METRICS}: {what} moved to {place.name}"


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


def check_sums(sums: Mapping[str, Any]) -> None:
    """Refuse what no meter has held: each measure is a number, with a count of its own."""
    for name, value in sums.items():
        counted = name.removesuffix("/count")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"the sum {name!r} is {value!r}")
        if not (sums.get(counted) is not None and sums.get(f"{counted}/count", 0) >= 1):
            raise ValueError(f"the sum {name!r} has no count")
