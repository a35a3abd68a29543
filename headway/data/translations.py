"""Pairs of English and another language out of installed packages: gettext's catalogues, and CLDR's names in Babel."""

import gettext as catalogues
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# %(name)s, %d, {name}, <b>, &amp;: what a program fills in, and no word of any language.
HOLES = re.compile(r"%\(\w+\)[a-z]|%[-\d.]*[sdrifgx%]|\{[^{}]*\}|</?\w[^<>]*>|&\w+;")
MOST = 0.3  # of a text may be such holes
NAMES = ("languages", "territories", "scripts", "variants", "currencies", "months", "days", "quarters", "eras")

Found = tuple[str, dict[str, str]]


def gettext(package: str, language: str) -> Iterator[Found]:
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


def cldr(language: str) -> Iterator[Found]:
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
