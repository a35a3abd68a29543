"""What the options of `headway look` mean, and the refusals that come before a model is loaded."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from headway.data.files import writable

PICTURES = (".png", ".svg", ".pdf")  # an --out that is a picture
MOST = 6  # digits of a number on the command line: ranges are written out


def refuse(why: str, given: Mapping[str, object]) -> None:
    """Options that nobody would read are a mistake."""
    if unread := [name for name, value in given.items() if value is not None]:
        raise ValueError(f"{why}: leave {', '.join(unread)} out")


def columns() -> int:
    """Of the terminal, or of what is written into a file."""
    return max(40, min(shutil.get_terminal_size((100, 24)).columns, 160))


def colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def destinations(out: Path | None, html: Path | None, png: Path | None) -> tuple[Path | None, Path | None]:
    """Where the page and the picture go; a file that cannot be written is refused before a model is loaded for it."""
    if out is not None:
        pictured = out.suffix.lower() in PICTURES
        name, other = ("--png", png) if pictured else ("--html", html)
        if other is not None:
            raise ValueError(f"--out {out} and {name} {other} are the same kind of file: leave one out")
        html, png = (html, out) if pictured else (out, png)
    if html is not None and png is not None and html.resolve() == png.resolve():
        raise ValueError(f"the page and the picture cannot both be {html}: name two files")
    for path in (html, png):
        if path is not None:
            writable(path)
    if png is not None:
        from headway.look.picture import require

        require(png, option="--png" if png is not out else "--out")
    return html, png


def numbers(text: str | None, option: str) -> tuple[int, ...] | None:
    """Whole numbers and ranges of them, both ends included.

    >>> numbers("0-3,7", "--layers")
    (0, 1, 2, 3, 7)
    """
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        last = last or (first if "-" not in part else "")
        if not all(one.isascii() and one.isdigit() for one in (first, last)) or int(first) > int(last):
            raise ValueError(f"{option} are whole numbers and ranges of them, for example 0-3,7; not {text!r}")
        if len(last) > MOST:
            raise ValueError(f"{option} has {last}, and no model has so many: ask for fewer")
        found += range(int(first), int(last) + 1)
    return tuple(found)


def rows_of(text: str | None) -> range | None:
    found = numbers(text, "--rows")
    if found is None:
        return None
    if list(found) != list(range(found[0], found[-1] + 1)):
        raise ValueError(f"--rows stand one after the other, for example 10-20; not {text!r}")
    return range(found[0], found[-1] + 1)
