"""Pixels as a PNG file, with nothing but zlib (the format: W3C, Portable Network Graphics, third edition)."""

import struct
import zlib
from base64 import b64encode

_COLOURS = {1: 0, 3: 2, 4: 6}  # channels -> the format's number for grey, RGB, RGBA


def png(pixels: bytes, *, width: int, height: int, channels: int) -> bytes:
    """A picture of 8 bits a channel, row by row.

    >>> png(bytes([0, 255]), width=2, height=1, channels=1)[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    if channels not in _COLOURS:
        raise ValueError(f"a picture has 1, 3 or 4 channels, not {channels}")
    line = width * channels
    if len(pixels) != line * height or not pixels:
        raise ValueError(f"{len(pixels)} bytes are no picture of {height} x {width} with {channels} channels")
    rows = b"".join(b"\0" + pixels[start : start + line] for start in range(0, len(pixels), line))  # 0: no filter
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[channels], 0, 0, 0)
    parts = (_part(b"IHDR", head), _part(b"IDAT", zlib.compress(rows, 9)), _part(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _part(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def data_address(picture: bytes) -> str:
    """A PNG as an address that a page can carry within."""
    return f"data:image/png;base64,{b64encode(picture).decode()}"
