"""English and Spanish verses (King James, and Reina-Valera 1909), both in the public domain, verse beside verse.

Two packages of Debian hold them in SWORD's zText format with the same numbering, and with Strong's number of the Hebrew
or Greek word beside most words. Those numbers tell where the two count verses differently (Job 38-40, 1 Samuel 24):

    overlap = |a ∩ b| / |a ∪ b|     of a verse's numbers in both languages; below LEAST the pair is left out

Held out by a hash of the reference: 1,000 verses for the test and 1,000 for validation. Verses that nearly repeat a
held-out one (as Kings and Isaiah do) are left out of the training part.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from recipes.fetch.alike import pairs
from recipes.fetch.packages import debian, fraction, write_tsv

MODULES = "/usr/share/sword/modules/texts/ztext"
ENGLISH, SPANISH = ("sword-text-kjv", "engKJV2006eb"), ("sword-text-sparv", "spaRV1909eb")
LEAST, HELD = 0.3, 1000
RATIO = 2.2  # of characters; one that is longer holds two verses


class Verse(NamedTuple):
    book: str
    source: str
    target: str
    reference: str


def make(place: Path) -> str:
    found = list(_verses())
    order = sorted(range(len(found)), key=lambda at: fraction(found[at].reference))
    held = {"test": order[:HELD], "validation": order[HELD : 2 * HELD]}
    hidden = set(order[: 2 * HELD])
    near = _near([verse.source for verse in found], hidden) | _near([verse.target for verse in found], hidden)
    parts = {"train": sorted(set(order) - hidden - near), **{name: sorted(rows) for name, rows in held.items()}}
    for part, rows in parts.items():
        write_tsv(place / "verses" / f"{part}.tsv", Verse._fields, [found[at] for at in rows])
    return ", ".join(f"{len(rows):,} verses in verses/{part}.tsv" for part, rows in parts.items())


def _near(texts: list[str], hidden: set[int]) -> set[int]:
    """Texts that are not held out and like one that is."""
    alike = [(a, b) for a, b in pairs(texts) if (a in hidden) != (b in hidden)]
    return {b if a in hidden else a for a, b in alike}


def _verses() -> Iterator[Verse]:
    with TemporaryDirectory() as away:
        english, spanish = (
            debian(package, f"{MODULES}/{module}", Path(away)) for package, module in (ENGLISH, SPANISH)
        )
        for part in ("ot", "nt"):
            yield from together(entries(english, part), entries(spanish, part))


def together(english: list[str], spanish: list[str]) -> Iterator[Verse]:
    """Pairs that say the same; each chapter's own entry counts as its verse 0, and those of a book come before it."""
    chapter, number = "", 0
    for one, other in zip(english, spanish, strict=True):
        begun = re.search(r'<chapter [^>]*osisID="([^"]+)"', one)
        chapter, number = (begun[1], 0) if begun else (chapter, number + 1)
        source, target = plain(one), plain(other)
        is_book = re.search(r'<div [^>]*type="book"', one) and "<milestone" in one
        if begun or is_book or not chapter or not source or not target:
            continue
        if overlap(one, other) >= LEAST and max(len(source), len(target)) <= RATIO * min(len(source), len(target)):
            yield Verse(chapter.split(".")[0], source, target, f"{chapter}.{number}")


def entries(place: Path, part: str) -> list[str]:
    """All entries of a testament: .bzs says where blocks stand in .bzz, .bzv where entries stand in their blocks."""
    raw = {end: (place / f"{part}.{end}").read_bytes() for end in ("bzs", "bzv", "bzz")}
    blocks = [zlib.decompress(raw["bzz"][at : at + size]) for at, size, _ in struct.iter_unpack("<III", raw["bzs"])]
    return [blocks[block][at : at + size].decode() for block, at, size in struct.iter_unpack("<IIH", raw["bzv"])]


def overlap(one: str, other: str) -> float:
    """How many of the Hebrew or Greek words of two verses are the same; 1 where a verse names none."""
    a, b = (set(" ".join(re.findall(r'lemma="([^"]*)"', text)).replace("strong:", "").split()) for text in (one, other))
    return len(a & b) / len(a | b) if a and b else 1.0


def plain(entry: str) -> str:
    """A verse without marks (a few are of another kind, as \\nd), notes, and the letters' names over parts of a psalm.

    >>> plain('¶ In the <w lemma="strong:H7225">beginning</w>:<note>a</note> <l level="1"/> God')
    'In the beginning: God'
    """
    entry = re.sub(r"<note.*?</note>|<foreign>.*?</foreign>|¶|\\\w+", "", entry, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", "", entry).split())
