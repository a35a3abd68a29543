"""Pictures to learn from: how many, of which size and classes; those in folders are counted and not opened."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.config.base import Pair
from headway.data.image import open_picture
from headway.data.image_dataset import read_images
from headway.data.image_files import PICTURES


@dataclass(frozen=True)
class Pictured:
    """Pictures of one size."""

    count: int
    size: Pair
    channels: int
    labels: tuple[str, ...]


def pictures(places: Sequence[str]) -> Pictured:
    """All pictures of these places; arrays are mapped, of folders the first picture is opened."""
    folders = [Path(place) for place in places if Path(place).is_dir()]
    if not folders:
        album = read_images(places)
        return Pictured(len(album), album.size, album.channels, album.names)
    if len(folders) < len(places):
        raise ValueError("folders and arrays of pictures are planned one kind at a time: name one of them")
    found = [one for folder in folders for one in _inside(folder)]
    if not found:
        raise ValueError(f"there are no pictures in {', '.join(places)}: one folder per class is expected")
    first = open_picture(found[0][0])
    labels = sorted({name for _, name in found})
    if len(labels) < 2:
        raise ValueError(f"all pictures of {', '.join(places)} are of one class, {labels[0]!r}: nothing to learn")
    return Pictured(len(found), (first.height, first.width), len(first.getbands()), tuple(labels))


def _inside(folder: Path) -> list[tuple[Path, str]]:
    """Each picture in the folders of this one, and the name of its class."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return [(path, one.name) for one in classes for path in sorted(one.rglob("*")) if path.suffix.lower() in PICTURES]
