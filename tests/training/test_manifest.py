"""A manifest is a claim: whatever cannot be true is refused, although its hash is right."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from headway.config.run_files import RunFiles
from headway.data.hashes import hash_of
from headway.training import checkpoint, manifest
from headway.training.checkpoint import Damaged
from headway.training.distributed import World
from headway.training.loop import TrainingLoop
from headway.training.slices import Piece
from tests.training.small import config, run, work

ALONE, PART = World(), "part-0000-of-0001.safetensors"


def kept(directory: Path) -> Path:
    place = directory / "step-00000007"
    checkpoint.save(place, {"x": torch.randn(5, 3), "y": torch.tensor(2.5)}, {"step": 7}, ALONE)
    return place


def edit(place: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest as whoever knows its format would: with a new hash."""
    body = json.loads((place / "manifest.json").read_text())
    del body["sha256"]
    change(body)
    text = json.dumps(body, sort_keys=True).encode()
    (place / "manifest.json").write_text(json.dumps({**body, "sha256": hashlib.sha256(text).hexdigest()}))


def piece(file: object, offset: object, shape: object) -> dict[str, object]:
    return {"file": file, "offset": offset, "shape": shape}


def slices_of(*parts: dict[str, object]) -> Callable[[dict[str, Any]], object]:
    return lambda body: body["tensors"]["x"].update(slices=list(parts))


def named(file: str) -> Callable[[dict[str, Any]], object]:
    """The same file by another path."""

    def change(body: dict[str, Any]) -> None:
        body["files"][file] = body["files"].pop(PART)
        for said in body["tensors"].values():
            said["slices"][0]["file"] = file

    return change


WRONG = {
    "no slices": (slices_of(), "covers 0 of 15 numbers"),
    "half of it": (slices_of(piece(PART, [0, 0], [2, 3])), "covers 6 of 15 numbers"),
    "too far": (slices_of(piece(PART, [1, 0], [5, 3])), "outside of the shape"),
    "far away": (slices_of(piece(PART, [2**62, 0], [5, 3])), "outside of the shape"),
    "below": (slices_of(piece(PART, [-5, 0], [5, 3])), "is not a file with an offset and a shape of 2 axes"),
    "negative size": (slices_of(piece(PART, [0, 0], [-5, -3])), "is not a file with an offset"),
    "a fraction": (slices_of(piece(PART, [0, 0], [5.0, 3])), "is not a file with an offset"),
    "a truth": (slices_of(piece(PART, [False, 0], [5, 3])), "is not a file with an offset"),
    "one axis": (slices_of(piece(PART, [0], [15])), "is not a file with an offset"),
    "no offset": (slices_of({"file": PART, "shape": [5, 3]}), "is not a file with an offset"),
    "a word": (lambda body: body["tensors"]["x"].update(slices=["all"]), "is not a file with an offset"),
    "an empty slice": (slices_of({}), "has the slice {}, which is not a file with an offset"),
    "a null slice": (lambda body: body["tensors"]["x"].update(slices=[None]), "has the slice None, which is not"),
    "no list": (lambda body: body["tensors"]["x"].update(slices=None), "a list of slices"),
    "a negative shape": (lambda body: body["tensors"]["x"].update(shape=[-5, -3]), r"has the shape \[-5, -3\]"),
    "an object as dtype": (lambda body: body["tensors"]["x"].update(dtype={}), "a known dtype"),
    "no dtype": (lambda body: body["tensors"]["x"].pop("dtype"), "a known dtype"),
    "unlisted": (slices_of(piece("other", [0, 0], [5, 3])), "has a slice in 'other', which is not among its files"),
    "no hash": (lambda body: body["files"][PART].pop("sha256"), "without its size and hash"),
    "no size": (lambda body: body["files"][PART].update(bytes=-1), "without its size and hash"),
    "upwards": (named("../step-00000008/" + PART), "names '../step-00000008/.*', which is no file of its own"),
    "absolute": (named("/etc/passwd"), "names '/etc/passwd', which is no file of its own directory"),
    "itself": (named("manifest.json"), "is no file of its own directory"),
    "no tensors": (lambda body: body.update(tensors=[]), "has no object 'tensors'"),
    "no facts": (lambda body: body.pop("facts"), "has no object 'facts'"),
    "another dtype": (lambda body: body["tensors"]["x"].update(dtype="I32"), "does not hold 'x' as manifest.json says"),
    "turned": (
        lambda body: body["tensors"]["x"].update(shape=[3, 5], slices=[piece(PART, [0, 0], [3, 5])]),
        "does not hold 'x' as",
    ),
    "left out": (lambda body: body["tensors"].pop("x"), "does not hold 'x' as manifest.json says"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    place, (change, complaint) = kept(tmp_path), WRONG[name]
    edit(place, change)
    x = torch.full((5, 3), 7.0)
    with pytest.raises(Damaged, match=complaint) as told:
        checkpoint.load(place, {"x": x}, ALONE)
    assert str(told.value).startswith("checkpoint step-00000007 is damaged: ")
    assert x.eq(7).all() and checkpoint.newest(tmp_path, ALONE).path is None


def test_twice_is_refused_too(tmp_path: Path) -> None:
    place = kept(tmp_path)
    save_file({"x": torch.zeros(2, 3)}, place / "more.safetensors")

    def change(body: dict[str, Any]) -> None:
        body["files"]["more.safetensors"] = hash_of(place / "more.safetensors")
        body["tensors"]["x"]["slices"].append(piece("more.safetensors", [3, 0], [2, 3]))

    edit(place, change)
    with pytest.raises(Damaged, match=r"covers numbers twice, by slices from \(0, 0\) and from \(3, 0\)"):
        checkpoint.load(place, {"x": torch.zeros(5, 3)}, ALONE)


def test_a_link_out_of_the_directory_is_refused_and_one_to_the_directory_is_not(tmp_path: Path) -> None:
    place = kept(tmp_path / "far")
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / place.name).symlink_to(place)
    x = torch.zeros(5, 3)
    checkpoint.load(tmp_path / "near" / place.name, {"x": x}, ALONE)
    assert x.any()
    (place / PART).rename(tmp_path / "outside")
    (place / PART).symlink_to(tmp_path / "outside")
    with pytest.raises(Damaged, match="is no file of its own directory"):
        checkpoint.load(place, {"x": x}, ALONE)
    (place / PART).unlink()
    os.mkfifo(place / PART)
    with pytest.raises(Damaged, match="is no file of its own directory"):
        checkpoint.load(place, {"x": x}, ALONE)


@given(st.data())
def test_a_cover_is_what_a_count_of_each_number_says(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=3)))
    boxes = []
    for _ in range(data.draw(st.integers(0, 4))):
        offset = tuple(data.draw(st.integers(0, size)) for size in shape)
        boxes.append(Piece(offset, tuple(data.draw(st.integers(0, s - o)) for s, o in zip(shape, offset, strict=True))))
    # Cut in two along an axis now and then, since random boxes seldom cover all.
    if shape and data.draw(st.booleans()):
        axis = data.draw(st.integers(0, len(shape) - 1))
        cut, zero = data.draw(st.integers(0, shape[axis])), (0,) * len(shape)
        ends = (*shape[:axis], cut, *shape[axis + 1 :]), (*shape[:axis], shape[axis] - cut, *shape[axis + 1 :])
        boxes = [Piece(zero, ends[0]), Piece((*zero[:axis], cut, *zero[axis + 1 :]), ends[1])]
    count = np.zeros(shape, int)
    for box in boxes:
        count[tuple(slice(start, end) for start, end in zip(box.offset, box.ends, strict=True))] += 1
    assert (manifest.cover(shape, boxes) is None) == bool((count == 1).all())


FACTS = {
    "before the first": ({"step": -1}, "has the step -1, which is not a whole number from 0"),
    "another step": ({"step": 5}, "is of step 5"),
    "half a step": ({"step": 6.0}, "has the step 6.0"),
    "a best step": ({"best_step": -4}, "has the best_step -4"),
    "a word": ({"best": "low"}, "has the lowest loss 'low', which is no number"),
    "a stranger": ({"momentum": 1}, "has no state of a run"),
    "no watch": ({"watch": {}}, "has no state of a run"),
    "a truth": ({"best": True}, "has the lowest loss True, which is no number"),
    "no loss": ({"best": float("nan")}, "has the lowest loss nan, which is no number"),
    "a later best": ({"best_step": 9}, "has the best_step 9, which is none of its 6 steps"),
    "a best of none": ({"best": None}, "has the best_step 4, which is none of its 6 steps"),
    "time as a word": ({"seconds": "long"}, "has the seconds 'long', which are no time"),
    "time to come": ({"seconds": -3.0}, "has the seconds -3.0, which are no time"),
    "no end of time": ({"seconds": float("inf")}, "has the seconds inf, which are no time"),
    "data as a number": ({"data": 3}, "has the data 3, which is no hash"),
    "sums as a list": ({"meter": [3]}, "has no state of a run"),
    "a sum as a word": ({"meter": {"loss": "3", "loss/count": 1.0}}, "the sum 'loss' is '3'"),
    "a sum of nothing": ({"meter": {"loss": 3.0, "loss/count": 0.0}}, "the sum 'loss' has no count"),
    "a sum without a count": ({"meter": {"loss": 3.0}}, "the sum 'loss' has no count"),
    "a count without a sum": ({"meter": {"loss/count": 1.0}}, "the sum 'loss/count' has no count"),
    "a watch of words": ({"watch": {"recent": ["a"], "first": None, "lowest": None}}, "'a' is no loss"),
    "a bound as a word": ({"watch": {"recent": [], "first": "a", "lowest": None}}, "'a' is no loss"),
    "a watch as a list": ({"watch": []}, "has no state of a run"),
}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed after its checkpoint of step 6."""
    path = tmp_path_factory.mktemp("killed")
    run(path, config(), until=8)
    return path


@pytest.mark.parametrize("name", FACTS)
def test_facts_that_cannot_be_give_way_to_the_checkpoint_before(tmp_path: Path, killed: Path, name: str) -> None:
    changed, complaint = FACTS[name]
    shutil.copytree(killed, tmp_path / "run")
    edit(tmp_path / "run/checkpoints/step-00000006", lambda body: body["facts"]["training"].update(changed))
    found = TrainingLoop(work(config()), RunFiles(tmp_path / "run"), World(), resume=True)
    assert found.notes[0].startswith("checkpoint step-00000006 is damaged: manifest.json ")
    assert complaint in found.notes[0] and found.notes[0].endswith("; using step-00000004")
    assert found.trainer.facts.step == 4


@pytest.mark.parametrize("damage", ["no slices", "no manifest", "no part"])
def test_a_run_without_a_checkpoint_that_is_whole_does_not_begin_again(tmp_path: Path, damage: str) -> None:
    run(tmp_path, config(keep=1), until=4)
    for place in checkpoint.checkpoints(tmp_path / "checkpoints"):
        if damage == "no slices":
            edit(place, lambda body: [said.update(slices=[]) for said in body["tensors"].values()])
        else:
            (place / {"no manifest": "manifest.json", "no part": PART}[damage]).unlink()
    with pytest.raises(
        ValueError, match=r"has no checkpoint to go on from: checkpoint step-0000000\d is damaged.*--overwrite"
    ):
        TrainingLoop(work(config()), RunFiles(tmp_path), World(), resume=True)
    assert len(checkpoint.checkpoints(tmp_path / "checkpoints")) > 0, "they stay as they are"


@pytest.mark.parametrize("left", ["an empty directory", "no directory"])
def test_a_run_whose_checkpoints_are_gone_does_not_begin_again(tmp_path: Path, left: str) -> None:
    """One that was killed before its first checkpoint does."""
    run(tmp_path, config(), until=2)
    shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)
    assert "it begins again from the first step" in str(run(tmp_path, config(), resume=True, until=8).notes)
    shutil.rmtree(tmp_path / "checkpoints")
    if left == "an empty directory":
        (tmp_path / "checkpoints").mkdir()
    before = (tmp_path / "metrics.jsonl").read_bytes()
    with pytest.raises(ValueError, match=r"no checkpoint to go on from, and metrics.jsonl says that some were saved"):
        TrainingLoop(work(config()), RunFiles(tmp_path), World(), resume=True)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
