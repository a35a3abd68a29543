"""Lines of text from files and from standard input, each with the words for where it stands."""

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path


def name_of(file: Path) -> str:
    """How a sentence calls a file; `-` is stdin."""
    return "standard input" if str(file) == "-" else str(file)


def lines_of(file: Path) -> Iterator[tuple[str, str]]:
    """Where each line stands, and its text."""
    name = name_of(file)
    if str(file) == "-" and sys.stdin is None:
        raise ValueError("standard input is closed: give a file, or something to read")
    with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            yield f"line {number} of {name}", text_of(line, number, name)


def text_of(line: bytes, number: int, name: str) -> str:
    """The text of a line, without its end; the first may begin with a mark of byte order.

    >>> text_of(b"caf\\xe9\\n", 3, "menu.txt")
    Traceback (most recent call last):
    ValueError: line 3 of menu.txt is not UTF-8 text
    """
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"line {number} of {name} is not UTF-8 text") from None
    return text.rstrip("\r\n")
