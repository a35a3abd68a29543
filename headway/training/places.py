"""Directories that appear and disappear as a whole.

Hidden names hold what is being made (`.step-00000200.new`), what gives way to it (`.old`) and what is being removed
(`.gone`). A process may be killed between any two lines: `clean` then finds out what was meant.
"""

import os
import re
import shutil
from pathlib import Path

NAME = re.compile(r"step-\d{8,}")


def temporary(place: Path) -> Path:
    """Where a directory is made before it gets its name."""
    return place.with_name(f".{place.name}.new")


def publish(working: Path, place: Path) -> None:
    """Give a finished directory its name; one that had it gives way."""
    _sync(working)
    old = place.with_name(f".{place.name}.old")
    if place.exists():
        discard(old)
        place.rename(old)
    working.rename(place)
    _sync(place.parent)
    discard(old)


def discard(place: Path) -> None:
    """Remove a directory, which is no longer seen from the first moment on."""
    gone = place.with_name(f".{place.name.strip('.')}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    if place.exists():
        place.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def clean(directory: Path) -> None:
    """Finish what a killed process has begun: unfinished directories go, one that gave way in vain comes back."""
    for old in directory.glob(".step-*.old"):
        place = old.with_name(old.name[1:-4])
        if not place.exists():
            old.rename(place)
    for kind in ("new", "old", "gone"):
        for left in directory.glob(f".step-*.{kind}"):
            shutil.rmtree(left, ignore_errors=True)


def _sync(directory: Path) -> None:
    """A rename is on the disk only when its directory is."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
