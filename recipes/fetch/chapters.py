"""The English verses again as one plain text, recipes/data/verses.txt: a chapter a paragraph.

Chapters stand in the order of a hash of their names, so that the last tenth of the file is a fair sample of all books.
Where a verse is missing (recipes/fetch/verses.py leaves some out) a new paragraph begins: what stood apart does not
become adjacent.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from recipes.fetch.packages import fraction

PARTS = ("train", "validation", "test")


def make(place: Path) -> str:
    chapters: dict[str, dict[int, str]] = defaultdict(dict)
    for reference, text in _verses(place / "verses"):
        chapter, _, number = reference.rpartition(".")
        chapters[chapter][int(number)] = text
    found = [run for name in sorted(chapters, key=fraction) for run in runs(chapters[name].items())]
    (place / "verses.txt").write_text("\n\n".join(found) + "\n", encoding="utf-8")
    return f"{len(chapters):,} chapters, {len(found):,} paragraphs in verses.txt"


def runs(verses: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Verses whose numbers follow one another, joined.

    >>> list(runs([(2, "b"), (1, "a"), (5, "e")]))
    ['a b', 'e']
    """
    found: list[str] = []
    last = None
    for number, text in sorted(verses):
        if found and number - 1 != last:
            yield " ".join(found)
            found = []
        found.append(text)
        last = number
    if found:
        yield " ".join(found)


def _verses(place: Path) -> Iterator[tuple[str, str]]:
    for part in PARTS:
        if not (path := place / f"{part}.tsv").is_file():
            raise ValueError(f"there is no {path}: fetch verses first")
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                yield row["reference"], row["source"]
