"""Two real processes learn what one does: the same losses, norms and weights, and checkpoints that either can read."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch

from headway.training.parallel import World
from tests.runs.launch import losses, weights, work_through
from tests.runs.worker import Job, run
from tests.thorough import THOROUGH

NEAR = 1e-5
KINDS = {"ddp": ("ddp", 1), "fsdp": ("fsdp", 1), "tensor": ("ddp", 2)}
OTHERS = ("t5", "davit", "frozen") if THOROUGH else ("t5",)
# Resumed after SAVED. What is added up or cut wrongly shows after the first steps; thorough waits for what creeps in.
SAVED, STEPS, SOME, FEW = (10, 30, 20, 5) if THOROUGH else (3, 9, 5, 3)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every run of this file: those of one process here, those of two all in one go."""
    place, threads = tmp_path_factory.mktemp("runs"), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for model in ("gpt", "bert"):
            run(Job(str(place / f"{model}-one"), model, steps=STEPS, save=SAVED), World())
        run(Job(str(place / "muon-one"), optim="muon", steps=SOME), World())
        for model in (*OTHERS, "lora"):
            run(Job(str(place / f"{model}-one"), model, steps=FEW), World())
        _keep_first(place / "gpt-one", *(place / f"one-to-{kind}" for kind in KINDS))
        work_through(_jobs(place), place / "jobs.json")
        for kind in KINDS:
            _keep_first(place / f"gpt-{kind}", place / f"{kind}-to-one")
            run(Job(str(place / f"{kind}-to-one"), steps=STEPS, resume=True), World())
    finally:
        torch.set_num_threads(threads)
    return place


def _jobs(place: Path) -> list[Job]:
    found = [Job(str(place / "lora-ddp"), "lora", steps=FEW, save=FEW)]
    for name, (kind, tensor) in KINDS.items():
        models = ("gpt", "bert")
        found += [Job(str(place / f"{one}-{name}"), one, kind, tensor, steps=STEPS, save=SAVED) for one in models]
        found.append(Job(str(place / f"parts-{name}"), "bert", kind, tensor, accumulate=2, steps=SOME))
        found += [Job(str(place / f"{one}-{name}"), one, kind, tensor, steps=FEW) for one in OTHERS]
        found.append(Job(str(place / f"muon-{name}"), "gpt", kind, tensor, optim="muon", steps=SOME))
        found.append(Job(str(place / f"one-to-{name}"), "gpt", kind, tensor, steps=STEPS, resume=True))
        found.append(Job(str(place / f"spoilt-{name}"), "gpt", kind, tensor, steps=SAVED, spoilt=2))
        found.append(Job(str(place / f"again-{name}"), "gpt", kind, tensor, steps=SAVED, save=SAVED))
        found.append(Job(str(place / f"again-{name}"), "gpt", kind, tensor, steps=STEPS, resume=True))
    return found


def _keep_first(source: Path, *targets: Path) -> None:
    """A run as it was after its first checkpoint."""
    for target in targets:
        kept = f"checkpoints/step-{SAVED:08d}"
        shutil.copytree(source / kept, target / kept)


def _close(one: Path, other: Path, *, steps: int = STEPS, first: int = 0) -> None:
    ours, theirs = (torch.tensor(losses(place)[-(steps - first) :], dtype=torch.float64) for place in (one, other))
    assert ours.shape == theirs.shape == (steps - first, 2)
    assert (ours[:, 0] - theirs[:, 0]).abs().max() < NEAR
    _close_weights(one, other)


def _close_weights(one: Path, other: Path) -> None:
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.shape == theirs[name].shape, name
        # What every key has more of changes no softmax: without rotary positions the gradient of a key's bias is 0 but
        # for rounding, which is all that Adam then follows.
        if "gpt" not in one.name and name.endswith("attention.key.bias"):
            continue
        assert (tensor - theirs[name]).abs().max() < NEAR, name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", ["gpt", "bert"])
def test_two_processes_learn_what_one_does(runs: Path, model: str, kind: str) -> None:
    _close(runs / f"{model}-one", runs / f"{model}-{kind}")
    assert losses(runs / f"{model}-{kind}", 0) == losses(runs / f"{model}-{kind}", 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", OTHERS)
def test_relative_biases_cross_attention_and_channels_too(runs: Path, model: str, kind: str) -> None:
    _close(runs / f"{model}-one", runs / f"{model}-{kind}", steps=FEW)


def test_adapters_alone_are_trained_and_kept(runs: Path) -> None:
    _close(runs / "lora-one", runs / "lora-ddp", steps=FEW)
    manifest = json.loads((runs / f"lora-ddp/checkpoints/step-{FEW:08d}/manifest.json").read_text())
    assert manifest["tensors"] and all(".adapters." in name or "updates" in name for name in manifest["tensors"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_that_one_process_has_to_repeat_is_repeated_by_all(runs: Path, kind: str) -> None:
    """What is not finite in one process alone: parts of a model that others hold would wait for ever."""
    found = [losses(runs / f"spoilt-{kind}", rank) for rank in (0, 1)]
    finite = [[math.isfinite(loss) for loss, _ in one] for one in found]
    assert finite == [[step != 2 for step in range(1, SAVED + 1)]] * 2
    assert [found[0][0], *found[0][2:]] == [found[1][0], *found[1][2:]]


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_a_batch_change_nothing(runs: Path, kind: str) -> None:
    whole, parts = (torch.tensor(losses(runs / name)) for name in ("bert-one", f"parts-{kind}"))
    assert (whole[:SOME] - parts).abs()[:, 0].max() < NEAR


@pytest.mark.parametrize("kind", KINDS)
def test_muon_sees_whole_matrices(runs: Path, kind: str) -> None:
    _close(runs / "muon-one", runs / f"muon-{kind}", steps=SOME)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_by_two_and_resumed_by_one(runs: Path, kind: str) -> None:
    _close(runs / "gpt-one", runs / f"{kind}-to-one", first=SAVED)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_by_one_and_resumed_by_two(runs: Path, kind: str) -> None:
    _close(runs / "gpt-one", runs / f"one-to-{kind}", first=SAVED)


@pytest.mark.parametrize("kind", KINDS)
def test_resumed_by_as_many_is_the_same_bit_for_bit(runs: Path, kind: str) -> None:
    assert losses(runs / f"gpt-{kind}") == losses(runs / f"again-{kind}")
    ours, theirs = weights(runs / f"gpt-{kind}"), weights(runs / f"again-{kind}")
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


@pytest.mark.parametrize(("kind", "files"), [("ddp", 1), ("fsdp", 2), ("tensor", 2)])
def test_each_entry_is_written_once(runs: Path, kind: str, files: int) -> None:
    place = runs / f"gpt-{kind}" / "checkpoints" / f"step-{SAVED:08d}"
    manifest = json.loads((place / "manifest.json").read_text())
    assert len(manifest["files"]) == files == len(list(place.glob("part-*-of-0002.safetensors")))
    assert manifest["machine"]["processes"] == 2
    for name, tensor in manifest["tensors"].items():
        held = sum(int(torch.tensor(one["shape"]).prod()) for one in tensor["slices"])
        assert held == int(torch.tensor(tensor["shape"]).prod()), name
    cut = manifest["tensors"]["model/stack.blocks.0.feedforward.down.weight"]["slices"]
    assert [one["offset"] for one in cut] == {"ddp": [[0, 0]], "fsdp": [[0, 0], [6, 0]], "tensor": [[0, 0], [0, 13]]}[
        kind
    ]
