"""Where a result goes: to stdout, or whole into a file."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.cost.show.formats import comma_separated, latex, markdown
from headway.cost.show.table import Table
from headway.data.files import write_whole

TEXT, JSON, CSV, LATEX, MARKDOWN = "text", "json", "csv", "latex", "markdown"


def chosen(**asked: bool) -> str:
    """The one format that was asked for.

    >>> chosen(json=False, csv=True)
    'csv'
    """
    found = [name for name, wanted in asked.items() if wanted]
    if len(found) > 1:
        raise ValueError(f"one format at a time: --{found[0]} or --{found[1]}")
    return found[0] if found else TEXT


def formatted(kind: str, *, record: Any, tables: Sequence[Table], flat: Table) -> str:
    """A result in a format that is not for the terminal."""
    if kind == JSON:
        return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if kind == CSV:
        return comma_separated(flat)
    return (latex(tables) if kind == LATEX else markdown(tables)) + "\n"


def writable(path: Path | None) -> None:
    """Refuse a place before anything is computed for it."""
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"{path} is a directory: name a file in it")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"cannot write {path}: the directory {path.parent} does not exist")


def put(text: str, path: Path | None) -> None:
    """Write it, whole or not at all."""
    if path is None:
        sys.stdout.write(text)
    else:
        write_whole(path, text)
