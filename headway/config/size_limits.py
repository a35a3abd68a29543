"""What is refused because nobody can have it or wait for it: the limits, and what the machine can hold. No torch."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

MEBI = 2**20

# Files that are read whole.
JSON_BYTES = 16 * MEBI  # a configuration, an index of tensors, a record of a run
LARGE_BYTES = 256 * MEBI  # a vocabulary, a tokenizer, the manifest of a checkpoint
PIECE_BYTES = 2**16  # a piece of a vocabulary
SETTINGS_BYTES = MEBI  # YAML and TOML, whose parsers take seconds for a megabyte
DEPTH = 64  # objects within objects
YAML_NODES = 100_000  # with every alias written out

# Files that are read piece by piece.
LINE_CHARACTERS = 16 * MEBI  # of one example
EXPANSION = 200  # times the compressed size; text is five, a log perhaps fifty
EXPANSION_FLOOR = 16 * MEBI  # what any compressed file may become

# Pictures.
PIXELS = 2**27  # of a picture, or of what it is resized to; decoded it takes half a gigabyte
PIXELS_FLOOR = 2**24  # what any picture may have; beyond it each byte of the file has at most so many pixels:
PIXELS_PER_BYTE = 256

# Chat templates: what they may do to make one text.
TEMPLATE_TURNS = 2**18  # of all loops; a message takes some ten
TEMPLATE_CHARACTERS = 2**26  # that are joined or written, all together

# Models and what is asked of them.
SIZE = 2**40  # of any one size
LAYERS = 2_048  # of a stack: building more takes minutes; the deepest that were published have 1,000
QUICK_LAYERS = 100  # what is built at once, so that its tensors can be compared one by one
VOCABULARY = 2**24  # tokens that a tokenizer learns; the largest that were published have 10**6
NEW_TOKENS = 2**24  # of one text
SAMPLES = 2**16  # of one prompt

_lifted: ContextVar[bool] = ContextVar("lifted", default=False)
FORCE = "--force tries it all the same"


@contextmanager
def lift_limits(lifted: bool = True) -> Iterator[None]:
    """Within it nothing is refused for its size or for the memory it needs: what `--force` does."""
    token = _lifted.set(lifted)
    try:
        yield
    finally:
        _lifted.reset(token)


def check_size(value: int, most: int, what: str) -> int:
    """The value, if anybody can have it.

    >>> check_size(10**9, LAYERS, "a stack of layers")
    Traceback (most recent call last):
    ValueError: a stack of layers has at most 2,048, not 1,000,000,000; --force tries it all the same
    """
    if value > most and not _lifted.get():
        raise ValueError(f"{what} has at most {most:,}, not {value:,}; {FORCE}")
    return value


def check_room(count: int, each: int, what: str, unit: str) -> None:
    """Refuse so many of something, at so many bytes each, where the free memory has no place for them."""
    free = available_memory()
    if free is not None and count * each > free and not _lifted.get():
        raise ValueError(
            f"{what} would take {gigabytes(count * each)} of memory, and {gigabytes(free)} are free here: the largest "
            f"that fits has {free // each:,} {unit}; {FORCE}"
        )


def check_expansion(stored: int, size: int, name: str) -> None:
    """Refuse a file that becomes too many times its size when it is unpacked."""
    if size > max(EXPANSION_FLOOR, EXPANSION * stored):
        raise ValueError(
            f"{name} becomes more than {EXPANSION} times its size when it is unpacked, and data does not: unpack it "
            "yourself if that is meant"
        )


def check_memory(needed: int, name: str) -> None:
    """Refuse what does not fit into the memory that is free."""
    free = available_memory()
    if free is not None and needed > free and not _lifted.get():
        raise ValueError(f"{name} would take {gigabytes(needed)} of memory, and {gigabytes(free)} are free here")


def check_pixels(rows: int, columns: int, name: str, stored: int | None = None) -> None:
    """Refuse a picture that is too large; `stored` is the size of its file."""
    pixels = rows * columns
    if pixels > PIXELS:
        raise ValueError(f"{name} has {rows:,} x {columns:,} pixels, and a picture at most {PIXELS:,}")
    if stored is not None and pixels > max(PIXELS_FLOOR, PIXELS_PER_BYTE * stored):
        raise ValueError(
            f"{name} has {rows:,} x {columns:,} pixels in {stored:,} bytes: a picture of that size has more to show"
        )


def gigabytes(count: int) -> str:
    """A size for a sentence.

    >>> gigabytes(1_500_000_000), gigabytes(10**400)[:9]
    ('1.5 GB', '10,000,00')
    """
    tenths = count // 10**8
    return f"{tenths // 10:,}.{tenths % 10} GB"


def available_memory() -> int | None:
    """Bytes of memory that are free, as the system tells; None where it does not."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(found[0][1]) if found else None
