"""Where data is: files, folders, globs, standard input, and sources that are known by name."""

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from headway.data import builtin_data
from headway.data.stream import name_of

FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv"}


@dataclass(frozen=True)
class DataFile:
    """One file, or one source by its name (`file` is None); `explicit` says whether it was named itself."""

    name: str
    file: Path | None
    explicit: bool = True

    def format(self, wanted: str) -> str:
        """As wanted, or by what the name ends with; `.gz` at the end says nothing."""
        if wanted != "auto" or self.file is None:
            return wanted
        return FORMATS.get(Path(self.file.name.removesuffix(".gz")).suffix.lower(), "text")


def find_data(places: Sequence[str]) -> list[DataFile]:
    """All that the places mean, in their order; what is in a folder or fits a glob, sorted by name.

    The last is looked for before the first is read, so that a mistake is told at once.

    A source's name is that source: a file or folder of the same name is written `./name`.
    """
    if not places:
        raise ValueError(
            "no data was named: give a file, a folder, a glob, - or one of " + ", ".join(builtin_data.SOURCES)
        )
    return [found for place in places for found in _find(place)]


def _find(place: str) -> Iterable[DataFile]:
    path = Path(os.path.expanduser(place))
    if builtin_data.known(place):
        return [DataFile(place, None)]
    if place == "-" or (path.exists() and not path.is_dir()):  # what is no regular file is refused where it is opened
        return [DataFile(name_of(path), path)]
    return _inside(path) if path.is_dir() else _matching(place, path)


def _inside(folder: Path) -> Iterator[DataFile]:
    """Files at any depth; what begins with a dot is not data."""
    paths = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    if not paths:
        raise ValueError(f"the folder {folder} has no files")
    for path in paths:
        yield DataFile(str(path), path, explicit=False)


def _matching(place: str, path: Path) -> Iterator[DataFile]:
    if not glob.has_magic(place):
        raise ValueError(_missing(place, path))
    paths = sorted(Path(found) for found in glob.glob(str(path), recursive=True) if Path(found).is_file())
    if not paths:
        raise ValueError(f"no file matches {place}")
    for one in paths:
        yield DataFile(str(one), one, explicit=False)


def _missing(place: str, path: Path) -> str:
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    near = get_close_matches(path.name, beside, 1)
    near = [str(path.parent / near[0])] if near else get_close_matches(place, builtin_data.SOURCES, 1)
    hint = f"did you mean {near[0]}?" if near else "sources by name are " + ", ".join(builtin_data.SOURCES)
    return f"there is no file or folder {place}; {hint}"


def fingerprint(places: Sequence[str]) -> str:
    """What stands for the data: names, sizes and times of all files; versions of sources by name.

    Standard input has none, because it can be read once only: keep it as a file first.
    """
    said: list[str] = []
    for one in find_data(places):
        if one.file is None:
            said.append(builtin_data.version(one.name))
        elif not one.file.is_file():
            raise ValueError(f"{one.name} can be read once only, and has to be kept as a file to be read again")
        else:
            known = one.file.stat()
            said.append(f"{one.file.resolve()} {known.st_size} {known.st_mtime_ns}")
    return hashlib.sha256("\n".join(said).encode(errors="surrogateescape")).hexdigest()
