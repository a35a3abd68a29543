"""The one way to read a file piece by piece: regular files and standard input, plain or compressed with gzip."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.config.read_file import open_file
from headway.config.size_limits import check_expansion

_GZIP = b"\x1f\x8b"


def name_of(file: Path) -> str:
    """How a sentence calls a file; `-` is stdin."""
    return "standard input" if str(file) == "-" else str(file)


def stdin_bytes(instead: str = "a file") -> Any:
    """Standard input as bytes; where the shell has closed it, that is said."""
    if sys.stdin is None:
        raise ValueError(f"standard input is closed: give {instead}, or something to read")
    return sys.stdin.buffer


@contextmanager
def open_stream(file: Path) -> Iterator[io.BufferedReader]:
    """The bytes of a file, or of stdin for `-`. What is compressed with gzip is told by its first bytes."""
    if str(file) == "-":
        given = stdin_bytes()
        stream = given if isinstance(given, io.BufferedReader) else io.BufferedReader(given)
        try:
            yield _unpacked(stream, file)
        finally:
            if stream is not given:
                stream.detach()  # or it closes what it was made of
        return
    with open_file(file) as opened:
        yield _unpacked(opened, file)  # type: ignore[arg-type] a file that is open to be read is buffered


def _unpacked(stream: io.BufferedReader, file: Path) -> io.BufferedReader:
    if stream.peek(2)[:2] == _GZIP:
        return io.BufferedReader(_Expanded(stream, name_of(file)), 1 << 17)
    if file.suffix == ".gz":
        raise ValueError(f"{file} is not compressed with gzip, though its name says so")
    return stream


class _Expanded(io.RawIOBase):
    """What gzip has compressed. A file that becomes too many times its size is refused where that shows."""

    def __init__(self, stream: io.BufferedReader, name: str) -> None:
        self._counted = _Counted(stream)
        self._file: Any = gzip.GzipFile(fileobj=io.BufferedReader(self._counted))
        self._name, self._size = name, 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        try:
            count = self._file.readinto(into)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self._name} is compressed with gzip and damaged: {error}") from None
        self._size += count
        check_expansion(self._counted.size, self._size, self._name)
        return count


class _Counted(io.RawIOBase):
    """A stream, and how many bytes of it were read."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream, self.size = stream, 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        found = self._stream.readinto1(into)
        self.size += found
        return found
