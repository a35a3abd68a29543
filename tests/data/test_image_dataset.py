"""Pictures from folders, arrays and scikit-learn: what is read, in which order, and what is refused in one sentence."""

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from headway.config.vision import Images
from headway.data.image_dataset import read_images
from tests.processes import Processes

DRAW = np.random.default_rng(3)
PIXELS = DRAW.integers(0, 256, (11, 5, 7), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 1, 0, 2, 2, 0, 1, 1, 0])


def pictures_in(folder: Path, names: tuple[str, ...] = ("cat", "dog"), size: tuple[int, int] = (7, 5)) -> np.ndarray:
    """Two grey pictures per class, as files; their pixels in the order of the names."""
    found = []
    for name in names:
        (folder / name).mkdir(parents=True)
        for number in (1, 2):
            pixels = DRAW.integers(0, 256, size[::-1], dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
            found.append(pixels)
    return np.stack(found)


def everything(dataset: Any) -> np.ndarray:
    return dataset.take(np.arange(len(dataset)))


CUT = """
import os, sys
from pathlib import Path
import numpy as np
from headway.data.image_dataset import read_images
place = Path(sys.argv[1])
if place.is_dir():
    found = read_images([str(place)], cache=place.parent / "kept")
    (file,) = (place.parent / "kept").glob("*.npy")
else:
    found, file = read_images([str(place)]), place
os.truncate(file, 300)
try:
    found.take(np.arange(len(found)))
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["array", "folder"])
def test_pictures_that_are_cut_short_while_they_are_mapped(kind: str, tmp_path: Path, processes: Processes) -> None:
    """Looking at a page that is gone ended the process with SIGBUS."""
    place = tmp_path / ("x.npy" if kind == "array" else "all")
    if kind == "array":
        np.save(place, np.zeros((99, 64, 64), np.uint8))
        np.save(tmp_path / "x-labels.npy", np.arange(99) % 3)
    else:
        pictures_in(place, size=(128, 128))
    child = processes.start(CUT, str(place))
    assert child.wait() == 0 and f"{place} was cut short while it was read" in child.stdout


# What is read


@pytest.mark.parametrize("tail", ["-labels", "_labels"])
def test_a_pair_of_npy_is_mapped(tail: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", PIXELS)
    np.save(tmp_path / f"x{tail}.npy", LABELS)
    dataset = read_images([str(tmp_path / "x.npy")])
    assert isinstance(dataset.arrays[0].pixels.base, np.memmap)
    assert (dataset.size, dataset.channels, dataset.names, len(dataset)) == ((5, 7), 1, ("0", "1", "2"), 11)
    np.testing.assert_allclose(everything(dataset)[..., 0], PIXELS / 255, atol=1e-7)
    assert dataset.labels.tolist() == LABELS.tolist()
    # A pattern finds both files, and one of them is no place of its own.
    assert len(read_images([str(tmp_path / "*.npy")])) == 11


@pytest.mark.parametrize(("pixels", "expected"), [
    (PIXELS, PIXELS / 255),
    (PIXELS / 255, PIXELS / 255),
    (PIXELS.astype(np.float32), PIXELS / 255),
    (np.stack([PIXELS] * 3, -1), np.stack([PIXELS] * 3, -1) / 255),
])  # fmt: skip
def test_an_npz_of_bytes_or_of_numbers(pixels: np.ndarray, expected: np.ndarray, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", images=pixels, label=LABELS.astype(np.float64))
    dataset = read_images([str(tmp_path / "x.npz")])
    np.testing.assert_allclose(everything(dataset).squeeze(), expected.squeeze(), atol=1e-6)
    assert dataset.labels.tolist() == LABELS.tolist()


def test_names_as_labels_are_sorted(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", images=PIXELS, label=np.array(["c", "a", "b"])[LABELS])
    dataset = read_images([str(tmp_path / "x.npz")])
    assert dataset.names == ("a", "b", "c") and dataset.labels[:3].tolist() == [2, 0, 1]


@pytest.mark.parametrize("packed", [True, False])
def test_idx_as_mnist_has_it(packed: bool, tmp_path: Path) -> None:
    tail, write = (".gz", gzip.compress) if packed else ("", bytes)
    header = bytes([0, 0, 8, 3]) + np.array(PIXELS.shape, ">u4").tobytes()
    (tmp_path / f"t10k-images-idx3-ubyte{tail}").write_bytes(write(header + PIXELS.tobytes()))
    header = bytes([0, 0, 8, 1]) + np.array([11], ">u4").tobytes()
    (tmp_path / f"t10k-labels-idx1-ubyte{tail}").write_bytes(write(header + LABELS.astype(np.uint8).tobytes()))
    dataset = read_images([str(tmp_path / f"t10k-images-idx3-ubyte{tail}")])
    np.testing.assert_allclose(everything(dataset)[..., 0], PIXELS / 255, atol=1e-7)
    assert dataset.labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("kept", [True, False])
def test_a_folder_per_class(kept: bool, tmp_path: Path) -> None:
    pixels, cache = pictures_in(tmp_path / "all"), tmp_path / "data" if kept else None
    (tmp_path / "all" / "cat" / "notes.txt").write_text("not a picture")
    heard: list[tuple[int, int]] = []
    dataset = read_images([str(tmp_path / "all")], cache=cache, progress=lambda *seen: heard.append(seen))
    assert (dataset.names, dataset.size, dataset.channels) == (("cat", "dog"), (5, 7), 1)
    np.testing.assert_allclose(everything(dataset)[..., 0], pixels / 255, atol=1e-7)
    assert dataset.labels.tolist() == [0, 0, 1, 1] and heard[-1] == (4, 4)
    heard.clear()  # the second time they are mapped, until a picture changes
    read_images([str(tmp_path / "all")], cache=cache, progress=lambda *seen: heard.append(seen))
    assert bool(heard) != kept
    Image.new("L", (7, 5)).save(tmp_path / "all" / "dog" / "3.png")
    assert len(read_images([str(tmp_path / "all")], cache=cache)) == 5


def test_pictures_are_brought_to_one_size(tmp_path: Path) -> None:
    pictures_in(tmp_path / "all")
    Image.new("RGB", (20, 30), (200, 0, 0)).save(tmp_path / "all" / "dog" / "9.png")
    assert read_images([str(tmp_path / "all")]).take(np.array([4])).shape == (1, 5, 7, 1)
    own = read_images([str(tmp_path / "all")], size=(3, 2), channels=3, images=Images(resize=(5, 7), crop=(3, 2)))
    assert own.take(np.array([4]))[0, 1, 1].tolist() == pytest.approx([200 / 255, 0, 0])


def test_several_places_are_one_album(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=PIXELS[:4], label=LABELS[:4])
    np.savez(tmp_path / "b.npz", images=PIXELS[4:] / 255, label=LABELS[4:])
    dataset = read_images([str(tmp_path / "a.npz"), str(tmp_path / "b.npz")])
    rows = np.array([9, 0, 4, 3, 10])
    np.testing.assert_allclose(dataset.take(rows)[..., 0], PIXELS[rows] / 255, atol=1e-6)
    assert dataset.labels.tolist() == LABELS.tolist()


# Digits and splits


def test_digits_are_split_once_and_for_all() -> None:
    whole, train, test = (read_images([name]) for name in ("digits-all", "digits", "digits-test"))
    assert (len(whole), len(train), len(test), whole.size) == (1797, 1437, 360, (8, 8))
    own = {x.tobytes() for x in everything(train)}
    assert sum(x.tobytes() in own for x in everything(test)) == 0
    # The numbers of three test pictures, so that another permutation is noticed.
    pictures = {x.tobytes(): row for row, x in enumerate(everything(whole))}
    assert [pictures[x.tobytes()] for x in everything(test)[:3]] == [1, 13, 17]
    assert everything(whole).max() == 1.0


def test_a_part_is_held_back_from_every_class(tmp_path: Path) -> None:
    labels = np.repeat(np.arange(5), 40)
    np.savez(
        tmp_path / "x.npz", images=np.arange(200, dtype=np.uint8)[:, None, None] + np.zeros((1, 2, 3)), label=labels
    )
    dataset = read_images([str(tmp_path / "x.npz")])
    rest, held = dataset.split(0.2)
    assert (len(rest), len(held)) == (160, 40)
    assert set(held.labels.tolist()) == set(rest.labels.tolist()) == set(range(5))
    assert sorted([*everything(rest)[:, 0, 0, 0], *everything(held)[:, 0, 0, 0]]) == sorted(
        everything(dataset)[:, 0, 0, 0]
    )
    assert np.array_equal(everything(dataset.split(0.2)[1]), everything(held))


def test_mean_and_deviation_are_those_of_the_pixels(tmp_path: Path) -> None:
    pixels = DRAW.integers(0, 256, (11, 5, 7, 3), dtype=np.uint8)
    pixels[..., 2] = 51
    np.savez(tmp_path / "x.npz", images=pixels, label=LABELS)
    images = read_images([str(tmp_path / "x.npz")]).measure()
    np.testing.assert_allclose(images.mean, (pixels / 255).mean((0, 1, 2)), atol=1e-7)
    np.testing.assert_allclose(images.std[:2], (pixels / 255).std((0, 1, 2))[:2], atol=1e-7)
    assert images.std[2] == 1.0


# Mistakes


def saved(folder: Path, **arrays: Any) -> str:
    np.savez(folder / "x.npz", **arrays)
    return str(folder / "x.npz")


@pytest.mark.parametrize(("arrays", "options", "sentence"), [
    (dict(images=PIXELS, label=LABELS * 0), {}, "x.npz are of one class, '0': there is nothing to learn"),
    (dict(images=PIXELS, label=LABELS - 1), {}, "classes count from 0, and .*x.npz has the label -1"),
    (dict(images=PIXELS, label=LABELS), dict(names=("a", "b")), "has the label 2, and the 2 classes count from 0"),
    (dict(images=PIXELS, label=LABELS[:7]), {}, r"11 images, and labels of shape \(7,\)"),
    (dict(images=PIXELS, label=LABELS + 0.5), {}, "labels are whole numbers or names, and those of .* are float64"),
    (dict(images=PIXELS[0], label=LABELS), {}, r"N Y X or N Y X C, and those of .* are uint8 of shape \(5, 7\)"),
    (dict(images=PIXELS[:0], label=LABELS[:0]), {}, r"shape \(0, 5, 7, 1\)"),
    (dict(images=np.stack([PIXELS] * 2, -1), label=LABELS), {}, "1, 3 or 4 channels, the last axis, and those .* 2"),
    (dict(images=PIXELS / 100 - 1, label=LABELS), {}, "from 0 to 1 or from 0 to 255, and those of .* from -1"),
    (dict(images=PIXELS * np.nan, label=LABELS), {}, "from nan to nan"),
    (dict(images=PIXELS), {}, "holds images, and not 'images' and 'label'"),
    (dict(images=PIXELS, label=LABELS), dict(size=(8, 8)), "5 x 7 pixels, and 8 x 8 are expected"),
    (dict(images=PIXELS, label=LABELS), dict(channels=3), "have 1 channels, and 3 are expected"),
    (dict(images=PIXELS, label=np.array(["a", "b"] * 5 + ["z"])), dict(names=("a", "b")),
     "the class 'z' of .* was never seen in training; there are a, b"),
])  # fmt: skip
def test_arrays_that_are_refused(arrays: Any, options: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_images([saved(tmp_path, **arrays)], **options)


def test_places_that_are_refused(tmp_path: Path) -> None:
    for name, sentence in [
        ("nowhere", "there is no file or folder .*nowhere; pictures by name are digits"),
        ("*.npz", "no file matches"),
        ("text.txt", "text.txt holds no pictures: give a folder"),
        ("empty", "empty has no folders: pictures are expected in one folder per class"),
        ("bare", "there are no pictures in .*bare/cat"),
        ("half.npz", "half.npz is no array of numbers|half.npz cannot be read as an array"),
        ("alone.npy", "the classes of alone.npy are expected beside it, in alone-labels.npy or alone_labels.npy"),
        ("train-images-idx3-ubyte", "expected beside it, in train-labels-idx1-ubyte"),
    ]:
        (tmp_path / "text.txt").write_text("hello")
        (tmp_path / "empty").mkdir(exist_ok=True)
        (tmp_path / "bare" / "cat").mkdir(parents=True, exist_ok=True)
        if name == "half.npz":
            (tmp_path / name).write_bytes(b"PK\x03\x04 and then nothing")
        if name == "alone.npy":
            np.save(tmp_path / name, PIXELS)
        if name == "train-images-idx3-ubyte":
            (tmp_path / name).write_bytes(b"")
        with pytest.raises(ValueError, match=sentence):
            read_images([str(tmp_path / name)])
    with pytest.raises(ValueError, match="there are no pictures: name a folder"):
        read_images([])


def test_an_unreadable_picture_is_named_and_leaves_no_cache(tmp_path: Path) -> None:
    pictures_in(tmp_path / "all")
    (tmp_path / "all" / "dog" / "2.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"dog/2\.png cannot be read as a picture"):
        read_images([str(tmp_path / "all")], cache=tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_sizes_of_two_arrays_that_differ(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=PIXELS, label=LABELS)
    np.savez(tmp_path / "b.npz", images=PIXELS[:, :4], label=LABELS)
    with pytest.raises(ValueError, match=r"b.npz have 4 x 7 pixels, and 5 x 7 are expected: bring all of them to one"):
        read_images([str(tmp_path / "a.npz"), str(tmp_path / "b.npz")])


def test_without_scikit_learn_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ValueError, match=r'pip install "headway\[data\]"'):
        read_images(["digits"])
