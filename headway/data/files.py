"""Small files of a model's directory."""

import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from headway.config.read_file import read_object
from headway.data.publish import sync


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; anything else is refused by name."""
    return read_object(path)


def read_optional(path: Path) -> dict[str, Any]:
    """The same, and nothing where there is no file."""
    return read_json(path) if path.exists() else {}


def write_json(path: Path, content: object) -> None:
    """JSON that people may read too; whole, or the file stays as it was."""
    write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_whole(path: Path, text: str) -> Path:
    """Write text beside the place and move it there, on the disk too; whoever reads meanwhile sees the old file.

    A link stays a link, and what is no file (a pipe, the terminal) is written to, not replaced.
    """
    if _stays(path):
        path.write_text(text, encoding="utf-8")
        return path
    place = Path(os.path.realpath(path))
    handle, made = _beside(place, path)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(made, 0o666 & ~_mask())  # a temporary file is for its owner alone, a page is not
        os.replace(made, place)
        sync(place.parent)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
    return path


def writable(path: Path) -> Path:
    """The path, if a file can be written there; asked before the work that would be lost."""
    if path == Path():
        raise ValueError("the name of the file to write is empty")
    if path.is_dir():
        raise ValueError(f"{path} is a directory: name a file in it")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"cannot write {path}: the directory {path.parent} does not exist")
    if not os.access(path.absolute().parent, os.W_OK):
        raise ValueError(f"cannot write {path}: {path.parent} takes no files from you")
    return path


def _stays(path: Path) -> bool:
    """Whether something is there that another file must not take the place of."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode) or path.absolute().is_relative_to("/dev")
    except OSError:  # nothing is there
        return False


def _beside(place: Path, path: Path) -> tuple[int, str]:
    """A new file in the same directory; where that cannot be, the error names the place that was asked for."""
    try:
        return tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None


def _mask() -> int:
    """The user's own mask; asking for it means to set it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
