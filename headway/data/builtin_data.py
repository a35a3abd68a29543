"""Sources by name: text that comes with Python, and translations that come with packages.

python                      the language reference (a topic a document)
stdlib                      the source of the standard library (a file a document)
gettext:PACKAGE:LANGUAGE    what a package's interface says, English -> LANGUAGE (gettext:django:de)
cldr:LANGUAGE               names of languages, countries, currencies …, English -> LANGUAGE (cldr:es)

The translations are read from gettext's catalogues of installed packages, and from CLDR's names in Babel.
"""

import gettext as catalogues
import os
import platform
import re
import struct
import sysconfig
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module, metadata
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any

SourceRecord = tuple[str, dict[str, str]]  # where it stands, and its fields


def python_reference() -> Iterator[SourceRecord]:
    """The language reference, as `help()` shows it."""
    from pydoc_data.topics import topics

    for name, text in sorted(topics.items()):
        yield f"the topic {name!r} of the Python reference", {"text": text}


def standard_library() -> Iterator[SourceRecord]:
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


# %(name)s, %d, {name}, <b>, &amp;: what a program fills in, and no word of any language.
HOLES = re.compile(r"%\(\w+\)[a-z]|%[-\d.]*[sdrifgx%]|\{[^{}]*\}|</?\w[^<>]*>|&\w+;")
MOST = 0.3  # of a text may be such holes
NAMES = ("languages", "territories", "scripts", "variants", "currencies", "months", "days", "quarters", "eras")


def gettext(package: str, language: str) -> Iterator[SourceRecord]:
    """What a package says to its users, once per pair; plurals and what is mostly filled in are left out."""
    seen: set[tuple[str, str]] = set()
    for path in _catalogues(package, language):
        for number, (said, translated) in enumerate(_messages(path).items()):
            # A plural's key is a pair, of which more than one form follows; a context comes before \x04.
            pair = (_plain(said.split("\x04")[-1]), _plain(translated)) if isinstance(said, str) else ("", "")
            if pair not in seen and _useful(*pair):
                seen.add(pair)
                yield f"message {number} of {path}", {"source": pair[0], "target": pair[1]}
    if not seen:
        raise ValueError(f"{package} has no translations into {language} that could be used")


def _catalogues(package: str, language: str) -> list[Path]:
    """A package's .mo files of one language, whichever way that is spelt (pt-br, pt_BR)."""
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"the package {package} is not installed: pip install {package}")
    folders: dict[str, list[Path]] = {}
    for place in spec.submodule_search_locations:
        for path in sorted(Path(place).rglob("LC_MESSAGES/*.mo")):
            folders.setdefault(path.parent.parent.name, []).append(path)
    wanted = language.replace("-", "_").lower()
    found = [path for name, paths in folders.items() if name.lower() == wanted for path in paths]
    if not found:
        near = get_close_matches(language, folders, 1)
        hint = f"did you mean {near[0]}?" if near else "it has " + (", ".join(sorted(folders)) or "none at all")
        raise ValueError(f"{package} has no translations into {language!r}: {hint}")
    return found


def _messages(path: Path) -> Mapping[Any, str]:
    try:
        with path.open("rb") as file:
            return catalogues.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    except (OSError, struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no catalogue that gettext can read: {error}") from None


def _plain(text: str) -> str:
    """One line, without the breaks of a narrow screen."""
    return " ".join(text.split())


def _useful(source: str, target: str) -> bool:
    """Whether it is a translation of words, with the same holes on both sides.

    >>> _useful("Log out", "Abmelden"), _useful("%(count)d", "%(count)d"), _useful("Hi %s", "Hallo")
    (True, False, False)
    """
    holes = [HOLES.findall(text) for text in (source, target)]
    few = all(len("".join(hole)) <= MOST * len(text) for hole, text in zip(holes, (source, target), strict=True))
    words = any(letter.isalpha() for letter in source) and any(letter.isalpha() for letter in target)
    return few and words and source != target and Counter(holes[0]) == Counter(holes[1])


def cldr(language: str) -> Iterator[SourceRecord]:
    """Unicode's names of things in English and in another language, once per pair."""
    english, theirs = _locales(language)
    seen: set[tuple[str, str]] = set()
    for kind in (*NAMES, "meta_zones"):
        ours, others = (dict(_flat(getattr(one, kind))) for one in (english, theirs))
        for key in sorted(ours.keys() & others.keys(), key=str):
            pair = (ours[key], others[key])
            if pair not in seen and all(any(letter.isalpha() for letter in side) for side in pair):
                seen.add(pair)
                yield f"{'/'.join(key)} of CLDR's {kind}", {"source": pair[0], "target": pair[1]}


def _locales(language: str) -> tuple[Any, Any]:
    try:
        babel = import_module("babel")
    except ImportError:
        raise ValueError("CLDR's names are read with Babel, which is not installed: pip install babel") from None
    try:
        return babel.Locale.parse("en"), babel.Locale.parse(language.replace("-", "_"))
    except (ValueError, babel.UnknownLocaleError):
        raise ValueError(f"Babel has no names in {language!r}: write a language as in es or pt_BR") from None


def _flat(names: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """The names at the leaves of a tree; narrow and abbreviated ones are no words.

    >>> list(_flat({"wide": {1: "January"}, "narrow": {1: "J"}}))
    [(('wide', '1'), 'January')]
    """
    if isinstance(names, str):
        yield path, names
    elif isinstance(names, Mapping):
        for key in names.keys() - {"narrow", "abbreviated", "short"}:
            yield from _flat(names[key], (*path, str(key)))


SOURCES: dict[str, Callable[..., Iterator[SourceRecord]]] = {
    "python": python_reference,
    "stdlib": standard_library,
    "gettext": gettext,
    "cldr": cldr,
}


def known(place: str) -> bool:
    """Whether a place is the name of a source.

    >>> known("gettext:django:de"), known("./python")
    (True, False)
    """
    return place.split(":")[0] in SOURCES


def read(place: str) -> Iterator[SourceRecord]:
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
