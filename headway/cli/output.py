"""Where a result goes: to stdout, or whole into a file."""

import sys
from pathlib import Path

from headway.data import files


def writable(path: Path | None) -> None:
    """Refuse a place before anything is computed for it."""
    if path is not None:
        files.writable(path)


def put(text: str, path: Path | None) -> None:
    """Write it, whole or not at all."""
    if path is None:
        sys.stdout.write(text)
    else:
        files.write_whole(path, text)
