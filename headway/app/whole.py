"""A file that is written whole or not at all."""

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> Path:
    """Write text beside the place and move it there; whoever reads meanwhile sees the old file."""
    handle, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(made, 0o666 & ~_mask())  # a temporary file is for its owner alone, a page is not
        os.replace(made, path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
    return path


def _mask() -> int:
    """The user's own mask; asking for it means to set it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
