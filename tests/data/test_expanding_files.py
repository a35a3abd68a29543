"""Small files that claim to be large, or become large, are refused before they are read."""

import gzip
import io
import os
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from headway.config.size_limits import PIXELS
from headway.config.vision import Images
from headway.data.image import open_picture, read_pixels
from headway.data.image_files import read_arrays
from headway.data.source import documents
from headway.hub.families.image_processor import images_of

LIMITED = """
import resource, sys
from pathlib import Path
from headway.data.image_files import read_arrays
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))
try:
    read_arrays(Path(sys.argv[1]))
except ValueError as error:
    print(error)
"""


def header(shape: tuple[int, ...], descr: str = "|u1") -> bytes:
    text = str({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def archive(path: Path, images: bytes, *, zeros: int = 0, labels: int = 3) -> Path:
    """An .npz whose images are these bytes and so many zeros more."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        with made.open("images.npy", "w", force_zip64=True) as file:
            file.write(images)
            for _ in range(zeros // 2**20):
                file.write(bytes(2**20))
        stored = io.BytesIO()
        np.save(stored, np.arange(labels))
        made.writestr("label.npy", stored.getvalue())
    return path


def refused(path: Path) -> str:
    """What a process that may take a gigabyte says of a file."""
    done = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout


def test_an_archive_that_claims_terabytes(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", header((10**13 // 784, 28, 28)))
    assert path.stat().st_size < 1000
    assert "is not what its header says" in refused(path)


def test_an_archive_that_becomes_gigabytes(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", header((2**19, 32, 32)), zeros=2**29)
    assert path.stat().st_size < 1_000_000
    assert "becomes more than 200 times its size" in refused(path)


def test_an_array_that_claims_terabytes(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(header((2**40, 28, 28)) + bytes(100))
    np.save(tmp_path / "a-labels.npy", np.arange(3))
    assert "is no array of numbers that numpy has saved" in refused(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.zeros((3, 5, 7), np.uint8))
    (tmp_path / "a-labels.npy").write_bytes(header((2**40,), "<i8") + bytes(100))
    assert "is no array of numbers that numpy has saved" in refused(tmp_path / "a.npy")


def test_idx_files_that_claim_or_become_gigabytes(tmp_path: Path) -> None:
    start = b"\0\0\x08\x03" + struct.pack(">III", 2**31, 28, 28)
    images, labels = tmp_path / "train-images-idx3-ubyte.gz", tmp_path / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(b"\0\0\x08\x01" + struct.pack(">I", 3) + bytes(3)))
    images.write_bytes(gzip.compress(start + bytes(100)))
    assert "would take 1,683.6 GB of memory" in refused(images)
    start = b"\0\0\x08\x03" + struct.pack(">III", 2**19, 32, 32)
    squeezed = zlib.compressobj(wbits=31)
    with images.open("wb") as file:
        file.write(squeezed.compress(start))
        for _ in range(2**9):
            file.write(squeezed.compress(bytes(2**20)))
        file.write(squeezed.flush())
    assert "becomes more than 200 times its size" in refused(images)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x93NUMPY", header((3,))[:20], header((3,), "|O") + bytes(24), header((-3, 5, 7)),
        b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000, b"\x93NUMPY\x09\x00" + bytes(60),
        b"\x93NUMPY\x01\x00" + struct.pack("<H", 4) + b"'''\n",
    ],
)  # fmt: skip
def test_damaged_arrays_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    np.save(tmp_path / "a-labels.npy", np.arange(3))
    for path in (tmp_path / "a.npy", archive(tmp_path / "a.npz", content)):
        with pytest.raises(ValueError, match=rf"{path.name} is (no array of numbers|damaged)"):
            read_arrays(path)


@pytest.mark.parametrize("place", range(0, 520, 13))
def test_an_archive_with_a_changed_byte_is_read_or_named(tmp_path: Path, place: int) -> None:
    path = archive(tmp_path / "a.npz", header((3, 5, 7)) + bytes(range(105)))
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 0xFF
    path.write_bytes(content)
    with suppress(ValueError):
        read_arrays(path)


def test_arrays_that_fit_are_read(tmp_path: Path) -> None:
    pixels = np.arange(3 * 5 * 7, dtype=np.uint8).reshape(3, 5, 7)
    np.savez_compressed(tmp_path / "a.npz", images=pixels, label=np.arange(3))
    np.save(tmp_path / "a.npy", pixels)
    np.save(tmp_path / "a-labels.npy", np.arange(3))
    for name in ("a.npz", "a.npy"):
        found, labels = read_arrays(tmp_path / name)
        assert np.array_equal(found[..., 0], pixels) and labels.tolist() == [0, 1, 2]


def png(rows: int, columns: int, *, bits: int = 1) -> bytes:
    """A black picture."""
    squeezed = zlib.compressobj(9)
    row = bytes(1 + -(-columns * bits // 8))
    body = b"".join(squeezed.compress(row * 64) for _ in range(-(-rows // 64))) + squeezed.flush()

    def part(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    start = struct.pack(">IIBBBBB", columns, rows, bits, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", start) + part(b"IDAT", body) + part(b"IEND", b"")


@pytest.mark.parametrize(
    ("rows", "columns", "said"),
    [(13_000, 13_000, f"at most {PIXELS:,}"), (8_000, 8_000, "has more to show"), (40_000, 40_000, "more than")],
)
def test_a_small_file_of_a_huge_picture_is_refused(tmp_path: Path, rows: int, columns: int, said: str) -> None:
    (tmp_path / "a.png").write_bytes(png(rows, columns))
    with pytest.raises(ValueError, match=rf"a\.png cannot be read as a picture: .*{said}"):
        open_picture(tmp_path / "a.png", 3)


def test_a_plain_picture_of_usual_size_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(2000, 3000))
    assert open_picture(tmp_path / "a.png", 3).size == (3000, 2000)


@pytest.mark.parametrize("size", [60_000, (60_000, 60_000)])
def test_a_picture_is_not_made_larger_than_any(tmp_path: Path, size: int | tuple[int, int]) -> None:
    (tmp_path / "a.png").write_bytes(png(3, 5))
    with pytest.raises(ValueError, match=r"100,000 pixels|60,000 pixels"):
        read_pixels(tmp_path / "a.png", Images(resize=size), size=(3, 5), channels=3)


@pytest.mark.parametrize(
    "said",
    [
        {"image_std": "0" * 2**20}, {"image_mean": [0.5] * 2**20}, {"image_std": 3}, {"image_mean": {"a": 1}},
        {"image_std": [None]}, {"image_std": ["x" * 2**20]}, {"size": 60_000}, {"size": {"height": 10**30, "width": 3}},
        {"size": 224, "crop_size": 60_000, "do_center_crop": True}, {"size": {"shortest_edge": 60_000}},
    ],
    ids=lambda said: next(iter(said)),
)  # fmt: skip
def test_what_a_processor_asks_for_is_limited(said: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        images_of(said)
    assert len(str(error.value)) < 500


EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 8 8
%%EndComments
0 0 8 8 rectfill
showpage
"""


def test_a_picture_starts_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow takes an EPS of any name for one, and starts Ghostscript to draw it."""
    trace = tmp_path / "started"
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\necho started >> {trace}\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert shutil.which("gs") == str(program)
    (tmp_path / "x.png").write_bytes(EPS)
    with pytest.raises(
        ValueError, match=r"x\.png cannot be read as a picture: it is none of PNG, JPEG, BMP, GIF, WEBP, TIFF, PPM"
    ):
        open_picture(tmp_path / "x.png", 3)
    assert not trace.exists()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM"])
def test_every_usual_format_is_read(tmp_path: Path, kind: str) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (5, 3), (9, 99, 199)).save(tmp_path / "a", kind)
    assert open_picture(tmp_path / "a", 3).size == (5, 3)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)], ids=["pipe", "device"])
def test_no_picture_or_array_is_waited_for(tmp_path: Path, make: Callable[[Path], None]) -> None:
    for name in ("a.png", "a.npz", "a.npy"):
        make(tmp_path / name)
    np.save(tmp_path / "a-labels.npy", np.arange(3))
    for read in (
        lambda: open_picture(tmp_path / "a.png"),
        lambda: read_arrays(tmp_path / "a.npz"),
        lambda: read_arrays(tmp_path / "a.npy"),
        lambda: list(documents([str(tmp_path / "a.npy")])),
    ):
        with pytest.raises(ValueError, match="and a regular file is expected"):
            read()
