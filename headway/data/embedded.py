"""Sources by name: text that comes with Python, and translations that come with packages.

python                      the language reference (a topic a document)
stdlib                      the source of the standard library (a file a document)
gettext:PACKAGE:LANGUAGE    what a package's interface says, English -> LANGUAGE (gettext:django:de)
cldr:LANGUAGE               names of languages, countries, currencies …, English -> LANGUAGE (cldr:es)
"""

import os
import platform
import sysconfig
import tokenize
from collections.abc import Callable, Iterator
from importlib import metadata
from inspect import signature
from pathlib import Path

from headway.data.translations import cldr, gettext

Found = tuple[str, dict[str, str]]  # where it stands, and its fields


def python() -> Iterator[Found]:
    """The language reference, as `help()` shows it."""
    from pydoc_data.topics import topics

    for name, text in sorted(topics.items()):
        yield f"the topic {name!r} of the Python reference", {"text": text}


def stdlib() -> Iterator[Found]:
    """Every module of the standard library that is no test, in the order of their names."""
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(_modules(root)):
        with tokenize.open(path) as file:  # which reads the encoding that a file declares
            yield f"{path.relative_to(root)} of the standard library", {"text": file.read()}


# Installed packages, tests (some are wrong on purpose), and what differs from one machine to the next.
_OTHER = ("site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__")
_MACHINE = ("config-", "_sysconfigdata")


def _modules(root: Path) -> Iterator[Path]:
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name not in _OTHER and not name.startswith(_MACHINE)]
        yield from (Path(folder, name) for name in names if name.endswith(".py") and not name.startswith(_MACHINE))


SOURCES: dict[str, Callable[..., Iterator[Found]]] = {
    "python": python,
    "stdlib": stdlib,
    "gettext": gettext,
    "cldr": cldr,
}


def known(place: str) -> bool:
    """Whether a place is the name of a source.

    >>> known("gettext:django:de"), known("./python")
    (True, False)
    """
    return place.split(":")[0] in SOURCES


def read(place: str) -> Iterator[Found]:
    """The records of a source: `text`, or `source` and `target`."""
    name, *said = place.split(":")
    parts = list(signature(SOURCES[name]).parameters)
    if len(said) != len(parts) or not all(said):
        raise ValueError(f"{place} is no source: write {':'.join([name, *(part.upper() for part in parts)])}")
    return SOURCES[name](*said)


def version(place: str) -> str:
    """The name and all versions that its content depends on."""
    name, *said = place.split(":")
    package = {"gettext": said[0] if said else "", "cldr": "babel"}.get(name)
    try:
        return f"{place} {metadata.version(package) if package else platform.python_version()}"
    except metadata.PackageNotFoundError:
        return place
