"""A resumed run reads what it read before, or says what has changed."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headway.cli import main
from headway.data import hashes
from headway.data.hashes import BackgroundCheck, FileHash, hash_of, verify_first
from headway.training.checkpoint import checkpoints

SETTINGS = [
    "--tokenizer.kind", "byte", "--model.layers", "1", "--model.width", "8", "--model.heads", "1", "--length", "16",
    "--batch", "2", "--samples", "0", "--save-every", "2", "--evaluate-every", "2",
]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two steps."""
    (tmp_path / "tale.txt").write_text("".join(f"Once there were {n} little houses in a row.\n" for n in range(90)))
    assert main(["train", str(tmp_path / "tale.txt"), "--out", str(tmp_path / "run"), "--steps", "2", *SETTINGS]) == 0
    return tmp_path / "run"


def resumed(run: Path, capsys: pytest.CaptureFixture[str], steps: int = 4) -> tuple[int, str]:
    capsys.readouterr()
    return main(["train", "--out", str(run), "--resume", "--steps", str(steps)]), capsys.readouterr().err


def flip(path: Path) -> None:
    """One bit, at the same size and time; of a token the low byte, so that it stays one of the vocabulary."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("name", ["shard-00000.npy", "documents.npy", "marks.npy"])
def test_tokens_that_have_changed_are_refused(run: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = run / "data" / "train" / name
    flip(path)
    code, said = resumed(run, capsys)
    assert code == 2 and f"{path} is not what it was, its hash has changed: remove {path.parent}" in said
    assert [place.name for place in checkpoints(run / "checkpoints")] == ["step-00000002"]


def test_a_manifest_of_tokens_that_was_edited_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run / "data" / "train" / "manifest.json"
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, "bytes": body["bytes"] - 1}))
    code, said = resumed(run, capsys)
    assert code == 2 and f"{path} is not what was written: remove {path.parent}, and it is made again" in said


def test_a_source_that_has_changed_unseen_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = run.parent / "tale.txt"
    flip(source)
    code, said = resumed(run, capsys)
    assert code == 2 and f"{source} is not what it was, its hash has changed: put back what it was, or touch" in said
    os.utime(source)
    code, said = resumed(run, capsys)
    assert code == 0 and "its data or tokenizer has changed since" in said
    assert resumed(run, capsys, 6)[0] == 0


def test_settings_that_were_edited_are_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = run / "config.yaml"
    assert "was edited" not in resumed(run, capsys)[1], "what the command line says is no edit"
    text = file.read_text()
    assert "save_every: 2\n" in text and "smoothing: 0.0\n" in text
    file.write_text(text.replace("save_every: 2\n", "save_every: 3\n").replace("smoothing: 0.0\n", "smoothing: 0.1\n"))
    code, said = resumed(run, capsys, 6)
    assert code == 0 and f"{file} was edited: save_every was 2 and is 3" in said
    assert f"{file} was edited: smoothing was 0.0 and is 0.1" in said and said.count("was edited") == 2
    assert "was edited" not in resumed(run, capsys, 8)[1], "it is said once"


def test_an_old_run_is_resumed_and_it_is_said(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "hashes.json").unlink()
    path = run / "data" / "train" / "manifest.json"
    body = json.loads(path.read_text())
    shards = [{key: one[key] for key in ("tokens", "documents")} for one in body["shards"]]
    path.write_text(json.dumps({k: v for k, v in body.items() if k not in ("sha256", "files")} | {"shards": shards}))
    code, said = resumed(run, capsys)
    assert code == 0 and "there is nothing to verify its settings and its data by" in said
    code, said = resumed(run, capsys, 6)
    assert code == 0 and "nothing to verify" not in said


def test_a_damaged_record_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = run / "hashes.json"
    file.write_text(file.read_text().replace('"steps": 2', '"steps": 3'))
    code, said = resumed(run, capsys)
    assert code == 2 and f"{file} is not what was written: put it back, or remove it" in said


@pytest.mark.parametrize("steps", [3, 60])
def test_what_is_found_while_it_trains_stops_the_run_with_its_state_saved(
    run: Path, steps: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hashes, "START", 0)
    path = run / "data" / "train" / "shard-00000.npy"
    flip(path)
    code, said = resumed(run, capsys, steps)
    assert code == 2 and "files (0.0 GB) by their hashes while it trains" in said
    assert f"{path} is not what it was" in said and "is kept, and --resume goes on from it" in said
    newest = checkpoints(run / "checkpoints")[0]
    assert 2 < int(newest.name[5:]) <= steps


def test_files_are_compared_by_size_at_once_and_by_hash_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [11, 13, 17, 19]
    for size in sizes:
        (tmp_path / str(size)).write_bytes(np.random.default_rng(size).bytes(size))
    said = {tmp_path / str(n): FileHash(**hash_of(tmp_path / str(n)), way_out="go home") for n in sizes}
    monkeypatch.setattr(hashes, "START", 25)
    left = verify_first(said)
    assert [path.name for path in left] == ["17", "19"] and verify_first(said, whole=True) == {}
    assert BackgroundCheck(left).wait() is None and BackgroundCheck().wait() is None
    flip(tmp_path / "19")
    assert verify_first(said) == left
    assert "19 is not what it was, its hash has changed: go home" in str(BackgroundCheck(left).wait())
    with pytest.raises(ValueError, match="19 is not what it was"):
        verify_first(said, whole=True)
    os.truncate(tmp_path / "19", 18)
    with pytest.raises(ValueError, match="19 is not what it was"):
        verify_first(said)
    (tmp_path / "17").unlink()
    with pytest.raises(ValueError, match="17 cannot be verified"):
        verify_first(said)


PICTURES = ["--task", "images", "--batch", "2", "--model.layers", "1", "--model.width", "8", "--model.heads", "1"]


@pytest.mark.parametrize("kind", ["folder", "npy", "idx"])
def test_pictures_and_their_classes_are_verified(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of arrays the classes lie in a file of their own; of a folder the pixels lie in the run, and no touch helps."""
    draw, run = np.random.default_rng(5), tmp_path / "run"
    pixels, labels = draw.integers(0, 256, (20, 8, 8), dtype=np.uint8), np.arange(20, dtype=np.uint8) % 2
    if kind == "folder":
        place = tmp_path / "all"
        for number, (one, label) in enumerate(zip(pixels, labels, strict=True)):
            (place / f"class{label}").mkdir(parents=True, exist_ok=True)
            Image.fromarray(one).save(place / f"class{label}" / f"{number}.png")
    elif kind == "npy":
        place, target = tmp_path / "x.npy", tmp_path / "x-labels.npy"
        np.save(place, pixels)
        np.save(target, labels)
    else:
        place, target = tmp_path / "t-images-idx3-ubyte", tmp_path / "t-labels-idx1-ubyte"
        place.write_bytes(bytes([0, 0, 8, 3]) + np.array(pixels.shape, ">u4").tobytes() + pixels.tobytes())
        target.write_bytes(bytes([0, 0, 8, 1]) + np.array([20], ">u4").tobytes() + labels.tobytes())
    assert main(["train", str(place), "--out", str(run), "--steps", "2", *PICTURES]) == 0
    if kind == "folder":
        (target,) = (run / "data").glob("pictures-*.npy")
    assert resumed(run, capsys, 3)[0] == 0
    flip(target)
    code, said = resumed(run, capsys)
    assert code == 2 and f"{target} is not what it was, its hash has changed" in said
    os.utime(target)
    code, said = resumed(run, capsys)
    assert (code, "remove it, and it is made again" in said) == ((2, True) if kind == "folder" else (0, False))
    if kind == "folder":
        target.unlink()
        assert resumed(run, capsys)[0] == 0
    else:
        assert f"{target} has changed since: the run goes on with what is there now" in said
