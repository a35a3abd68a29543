"""Lines of text from files and from standard input, plain or compressed, in pieces that fit into memory.

Each comes with the words for where it stands.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

from headway.config.size_limits import LINE_CHARACTERS
from headway.data.stream import name_of, open_stream


def lines_of(file: Path) -> Iterator[tuple[str, str]]:
    """Where each line stands, and its text."""
    for number, text in whole_lines(file, longest=LINE_CHARACTERS):
        yield f"line {number} of {name_of(file)}", text


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


PIECE = 1 << 20  # bytes of a line that are read at once


@dataclass(frozen=True)
class TextLine:
    """A line without its end, or a piece of a very long one: `ends` says whether it is the last.

    `mark` is the end that was taken off; the last line of a file may have none.
    """

    number: int
    text: str
    ends: bool = True
    mark: str = "\n"


def lines(file: Path) -> Iterator[TextLine]:
    """The lines of a file; `-` is stdin. What is compressed with gzip is told by its first bytes, not by its name."""
    with open_stream(file) as stream:
        yield from _decoded(stream, name_of(file))


def _decoded(stream: BufferedIOBase, name: str) -> Iterator[TextLine]:
    number, left, open_ = 1, b"", False
    while raw := stream.readline(PIECE):
        marked, last = raw.endswith(b"\n"), len(raw) < PIECE
        raw = left + raw
        left = b"" if marked or last else raw[_whole(raw) :]
        text = text_of(raw[: len(raw) - len(left)], number, name)
        yield TextLine(number, text, marked or last, "\n" if marked else "")
        number, open_ = number + marked, not (marked or last)
    if open_:  # the file ended with a whole piece
        yield TextLine(number, text_of(left, number, name), ends=True, mark="")


def _whole(raw: bytes) -> int:
    """How many bytes are whole characters: a piece may be cut within one.

    >>> _whole("né".encode()[:2]), _whole("né".encode())
    (1, 3)
    """
    for back in range(1, min(len(raw), 3) + 1):
        lead = raw[-back]
        if lead >> 6 != 0b10:  # the first byte of a character says how many it has
            needed = 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
            return len(raw) - back if needed > back else len(raw)
    return len(raw)


def beginning(file: Path, size: int) -> str:
    """The first lines of a file, of `size` characters or more where it has as many."""
    found, count = [], 0
    for line in lines(file):
        found.append(line.text + line.mark)
        count += len(found[-1])
        if count >= size:
            break
    return "".join(found)


def whole_lines(file: Path, *, longest: int | None = None) -> Iterator[tuple[int, str]]:
    """Numbered lines, each as one text; one with more than `longest` characters is refused."""
    parts: list[str] = []
    size = 0
    for line in lines(file):
        size += len(line.text)
        if longest is None or size <= longest:
            parts.append(line.text)
        if not line.ends:
            continue
        if longest is not None and size > longest:
            raise ValueError(
                f"line {line.number} of {name_of(file)} has {size:,} characters, and one example is a line of at most "
                f"{longest:,}: break it into lines"
            )
        yield line.number, "".join(parts)
        parts, size = [], 0
