"""How much there is to learn from, without reading all of it: bytes are counted, tokens are those of a sample.

A tokenizer is learnt from the sample for that, as training will learn one from the data; nothing is written. Pictures
in folders are counted and not opened.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from headway.config.base import Pair
from headway.config.read_file import open_file
from headway.config.train import DataConfig, TrainConfig
from headway.data.image import open_picture
from headway.data.image_dataset import read_images
from headway.data.image_files import PICTURES
from headway.data.labelled import samples_of
from headway.data.paths import DataFile, find_data
from headway.data.source import documents
from headway.data.text_pairs import pairs_of, twins_of
from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_training import train_tokenizer


@dataclass(frozen=True)
class ImageData:
    """Pictures of one size."""

    count: int
    size: Pair
    channels: int
    labels: tuple[str, ...]


def pictures(places: Sequence[str]) -> ImageData:
    """All pictures of these places; arrays are mapped, of folders the first picture is opened."""
    folders = [Path(place) for place in places if Path(place).is_dir()]
    if not folders:
        album = read_images(places)
        return ImageData(len(album), album.size, album.channels, album.names)
    if len(folders) < len(places):
        raise ValueError("folders and arrays of pictures are planned one kind at a time: name one of them")
    found = [one for folder in folders for one in _inside(folder)]
    if not found:
        raise ValueError(f"there are no pictures in {', '.join(places)}: one folder per class is expected")
    first = open_picture(found[0][0])
    labels = sorted({name for _, name in found})
    if len(labels) < 2:
        raise ValueError(f"all pictures of {', '.join(places)} are of one class, {labels[0]!r}: nothing to learn")
    return ImageData(len(found), (first.height, first.width), len(first.getbands()), tuple(labels))


def _inside(folder: Path) -> list[tuple[Path, str]]:
    """Each picture in the folders of this one, and the name of its class."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return [(path, one.name) for one in classes for path in sorted(one.rglob("*")) if path.suffix.lower() in PICTURES]


SAMPLE = 1 << 20  # characters of which tokens are counted
ROWS = 4096  # rows of which tokens are counted
LOOKED = 1 << 26  # bytes of a table that are read; of a larger one the rest is taken to be like them


@dataclass(frozen=True)
class DataSize:
    """What is known of the data: its size in bytes of text, rows and tokens, and of each row how long it is."""

    tokens: int
    rows: int | None = None  # None: running text
    exact: bool = True  # whether every row was looked at
    complete: bool = True  # whether every row was counted
    sides: tuple[tuple[int, ...], ...] = ()  # tokens of the sampled rows, of each text of a row
    tokenizer: Tokenizer | None = None
    labels: tuple[str, ...] = ()
    pictures: ImageData | None = None

    @property
    def longest(self) -> int:
        return max((max(side) for side in self.sides), default=0)

    def mean(self, side: int) -> int:
        """Tokens of a usual row."""
        return max(1, round(sum(self.sides[side]) / len(self.sides[side])))


def data_size(config: TrainConfig) -> DataSize:
    """At the training data of a task."""
    if "-" in config.data.train:
        raise ValueError("standard input can be read once only, and training reads it again: save it as a file first")
    if config.task == "images":
        found = pictures(config.data.train)
        return DataSize(found.count, found.count, pictures=found, labels=found.labels)
    return _text(config) if config.task in ("language", "masked") else _table(config)


def _text(config: TrainConfig) -> DataSize:
    sample = _sample(config.data)
    tokenizer = train_tokenizer(iter(sample), config.tokenizer, task=config.task)
    counted = sum(len(row) for row in tokenizer.encode_all(sample))
    read = sum(len(text.encode()) for text in sample)
    sizes = [_bytes(place, config.data) for place in find_data(config.data.train)]
    total = sum(size for size, _ in sizes)
    tokens, complete = max(1, round(total * counted / read)), all(exact for _, exact in sizes)
    return DataSize(tokens, exact=complete and read == total, complete=complete, tokenizer=tokenizer)


def _sample(data: DataConfig) -> list[str]:
    """The first texts, as far as they are needed."""
    found: list[str] = []
    left = SAMPLE
    for one in documents(data.train, format=data.format, column=data.text, document=data.document):
        found.append(one.text[:left])
        left -= len(found[-1])
        if left <= 0:
            break
    if not any(found):
        raise ValueError(f"there is no text in {', '.join(data.train)}")
    return found


def _bytes(place: DataFile, data: DataConfig) -> tuple[int, bool]:
    """Bytes of text at one place, and whether that is exact."""
    if place.file is not None and place.format(data.format) == "text" and _plain(place.file):
        return place.file.stat().st_size, True
    texts = documents([_name(place)], format=data.format, column=data.text, document=data.document)
    seen = size = 0
    for one in texts:
        seen, size = seen + one.ends, size + len(one.text.encode())
        if size > LOOKED and place.file is not None and _plain(place.file):
            return round(size * _grown(place.file, seen)), False
    return size, True


def _name(place: DataFile) -> str:
    return place.name if place.file is None else str(place.file)


def _plain(file: Path) -> bool:
    with open_file(file) as stream:
        return stream.read(2) != b"\x1f\x8b"


def _grown(file: Path, lines: int) -> float:
    """How many times as large a file is as its first lines."""
    with open_file(file) as stream:
        read = sum(len(line) for line in islice(stream, lines + 1))
    return max(1.0, file.stat().st_size / max(read, 1))


Row = tuple[str, ...]  # the label (empty: none), and the texts


def _rows(config: TrainConfig, places: Sequence[str]) -> Iterator[Row]:
    d = config.data
    if config.task == "classify":
        for one in samples_of(d, places, paired=d.paired):
            yield one.label, one.text, *([] if one.second is None else [one.second])
    elif config.task == "seq2seq":
        yield from (("", source, target) for _, source, target in pairs_of(d, places))
    else:
        yield from (("", one.first, one.second, *one.negatives) for one in twins_of(d, places))


def _table(config: TrainConfig) -> DataSize:
    """Rows are drawn from all that are read, so that a sorted file gives a fair sample."""
    chance, kept, labels = Random(0), list[Row](), set[str]()
    total, complete = 0.0, True
    for place in find_data(config.data.train):
        seen = size = 0
        for row in _rows(config, [_name(place)]):
            seen, size = seen + 1, size + sum(map(len, row))
            labels.add(row[0])
            _keep(kept, row, round(total) + seen, chance)
            if size > LOOKED and place.file is not None and _plain(place.file):
                complete = False
                break
        total += seen * (_grown(_file(place), seen) if size > LOOKED else 1.0)
    return _measured(config, kept, round(total), complete, labels)


def _file(place: DataFile) -> Path:
    assert place.file is not None
    return place.file


def _keep(kept: list[Row], row: Row, seen: int, chance: Random) -> None:
    if len(kept) < ROWS:
        kept.append(row)
    elif (at := chance.randrange(seen)) < ROWS:
        kept[at] = row


def _measured(config: TrainConfig, kept: list[Row], rows: int, complete: bool, labels: set[str]) -> DataSize:
    most = max(map(len, kept), default=1)  # a pair may have fewer hard negatives than another
    texts: Any = [[row[side] if side < len(row) else "" for row in kept] for side in range(1, most)]
    if not texts:
        raise ValueError(f"there are no rows in {', '.join(config.data.train)}")
    tokenizer = train_tokenizer((text for side in texts for text in side), config.tokenizer, task=config.task)
    sides = [tuple(max(1, len(row)) for row in tokenizer.encode_all(side)) for side in texts]
    if config.task == "classify" and len(sides) > 1:
        sides = [tuple(a + b for a, b in zip(*sides, strict=True))]
    mean = sum(sum(side) for side in sides) / len(kept)
    names = tuple(sorted(labels - {""}))
    return DataSize(round(rows * mean), rows, complete and len(kept) == rows, complete, tuple(sides), tokenizer, names)
