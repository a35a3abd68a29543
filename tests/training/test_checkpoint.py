"""Checkpoints: what goes in comes out, whole or not at all, and what is damaged is found out."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headway.config import AttentionConfig
from headway.hub import safetensors_file
from headway.hub.parts import parts_of
from headway.nn.attention import Attention
from headway.training import checkpoint
from headway.training.checkpoint import Damaged, load, newest, prune, save
from headway.training.distributed import World

ALONE = World()


def tensors() -> dict[str, Tensor]:
    """One of every kind that is awkward."""
    base, generator = torch.randn(7, 11), torch.Generator().manual_seed(5)
    return {
        "first/half": base[:3],
        "second/half": base[3:],
        "turned": base.T,
        "every other": base[:, ::2],
        "double": torch.randn(5, dtype=torch.float64),
        "half": torch.randn(3, 5).bfloat16(),
        "other half": torch.randn(3).half(),
        "number": torch.tensor(2.5),
        "count": torch.tensor(2**62 + 1),
        "empty": torch.empty(0, 5),
        "state": generator.get_state(),
        "flags": torch.tensor([True, False, True]),
        "odd": torch.tensor([float("nan"), float("inf"), -0.0]),
        'name "with" ünïcode': torch.arange(13, dtype=torch.int32),
    }


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        one[name]
        .contiguous()
        .reshape(-1)
        .view(torch.uint8)
        .equal(other[name].contiguous().reshape(-1).view(torch.uint8))
        for name in one
    )


def blank(like: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.zeros_like(tensor) for name, tensor in like.items()}


def kept(directory: Path, *steps: int) -> list[Path]:
    for step in steps:
        save(directory / f"step-{step:08d}", {"x": torch.full((3,), float(step))}, {"step": step}, ALONE)
    return [directory / f"step-{step:08d}" for step in steps]


def test_what_goes_in_comes_out_bit_for_bit(tmp_path: Path) -> None:
    given = tensors()
    save(tmp_path / "step-00000003", given, {"step": 3, "rate": 0.1, "names": ["a"], "none": None}, ALONE)
    into = blank(given)
    assert not same(given, into)
    assert load(tmp_path / "step-00000003", into, ALONE) == {"step": 3, "rate": 0.1, "names": ["a"], "none": None}
    assert same(given, into)


def test_it_is_loaded_in_place_into_any_layout(tmp_path: Path) -> None:
    given = {"x": torch.randn(5, 7), "y": torch.randn(())}
    save(tmp_path / "step-00000001", given, {}, ALONE)
    memory = torch.zeros(7, 10)
    into = {"x": memory.T[::2], "y": torch.zeros(())}
    load(tmp_path / "step-00000001", into, ALONE)
    assert memory.T[::2].equal(given["x"]) and not memory.T[1::2].any()


def test_a_part_of_a_weight_is_loaded_into_that_weight(tmp_path: Path) -> None:
    layer = Attention(AttentionConfig(width=12, heads=3))
    given = {name: p.clone() for name, p in parts_of(layer).items()}
    save(tmp_path / "step-00000001", parts_of(layer), {}, ALONE)
    with torch.no_grad():
        layer.qkv.weight.zero_()
    load(tmp_path / "step-00000001", parts_of(layer), ALONE)
    assert same(given, parts_of(layer)) and bool(layer.qkv.weight.any())


def test_the_files_are_plain_safetensors(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    given = tensors()
    save(tmp_path / "step-00000001", given, {}, ALONE)
    found = load_file(tmp_path / "step-00000001" / "part-0000-of-0001.safetensors")
    assert same({name: tensor for name, tensor in given.items() if tensor.numel()}, found)


def test_a_checkpoint_of_something_else_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (place,) = kept(tmp_path, 1)
    x = torch.full((3,), 7.0)
    with pytest.raises(ValueError, match=r"has no tensor 'y' \(1 are missing\)"):
        load(place, {"x": x, "y": x}, ALONE)
    with pytest.raises(ValueError, match=r"has 'x' as F32 of shape \(3,\), and this run as F32 of shape \(5,\)"):
        load(place, {"x": torch.zeros(5)}, ALONE)
    with pytest.raises(ValueError, match=r"this run as BF16"):
        load(place, {"x": torch.zeros(3, dtype=torch.bfloat16)}, ALONE)
    assert x.eq(7).all()


@pytest.mark.parametrize("where", [0, 9, -1])
def test_one_flipped_bit_in_the_data_is_found(tmp_path: Path, where: int) -> None:
    (place,) = kept(tmp_path, 1)
    file = next(place.glob("part-*"))
    content = bytearray(file.read_bytes())
    content[where] ^= 4
    file.write_bytes(content)
    with pytest.raises(
        Damaged, match=r"step-00000001 is damaged: part-0000-of-0001.safetensors is not what was written"
    ):
        load(place, {"x": torch.zeros(3)}, ALONE)


def test_every_damage_of_the_manifest_is_found(tmp_path: Path) -> None:
    (place,) = kept(tmp_path, 200)
    file = place / "manifest.json"
    text = file.read_text()
    for broken in ("", text[:-30], "[]", "{}", text.replace('"step": 200', '"step": 201'), text.replace("[3]", "[5]")):
        assert broken != text
        file.write_text(broken)
        with pytest.raises(Damaged, match=r"step-00000200 is damaged: manifest.json"):
            load(place, {"x": torch.zeros(3)}, ALONE)
    file.write_text(text)
    assert load(place, {"x": torch.zeros(3)}, ALONE) == {"step": 200}


def test_a_damaged_one_gives_way_to_the_one_before_and_says_so(tmp_path: Path) -> None:
    old, middle, new = kept(tmp_path, 90, 100, 1000)
    assert newest(tmp_path, ALONE).path == new and newest(tmp_path, ALONE).notes == ()
    next(new.glob("part-*")).unlink()
    next(middle.glob("part-*")).write_bytes(b"")
    found = newest(tmp_path, ALONE)
    assert found.path == old
    part = "part-0000-of-0001.safetensors"
    assert found.notes == (
        f"checkpoint step-00001000 is damaged: {part} is missing; using step-00000090",
        f"checkpoint step-00000100 is damaged: {part} is not what was written; using step-00000090",
    )
    (old / "manifest.json").write_text("{")
    assert newest(tmp_path, ALONE).path is None and len(newest(tmp_path, ALONE).notes) == 3
    assert newest(tmp_path / "nowhere", ALONE) == checkpoint.Newest(None)


def test_another_machine_is_mentioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 17)
    kept(tmp_path, 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 19)
    (note,) = newest(tmp_path, ALONE).notes
    assert note == "not bit for bit the run that was saved: threads 17 then, 19 now"


def test_pruning_keeps_the_newest_and_the_best(tmp_path: Path) -> None:
    all_of_them = kept(tmp_path, 1, 2, 3, 4, 5)
    prune(tmp_path, 2, all_of_them[1])
    assert [place.name[-1] for place in checkpoint.checkpoints(tmp_path)] == ["5", "4", "2"]
    prune(tmp_path, 1)
    assert [place.name[-1] for place in checkpoint.checkpoints(tmp_path)] == ["5"]
    assert sorted(os.listdir(tmp_path)) == ["step-00000005"]


def test_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    (place,) = kept(tmp_path, 1)
    save(place, {"x": torch.zeros(3)}, {"again": True}, ALONE)
    assert load(place, {"x": torch.ones(3)}, ALONE) == {"again": True}
    assert os.listdir(tmp_path) == ["step-00000001"]


class _FullDisk:
    """Takes so many bytes and no more, over all files."""

    def __init__(self, room: int) -> None:
        self.room, self.real = room, safetensors_file.write_hashed

    def __call__(self, path: Path, parts: object) -> dict[str, object]:
        content = b"".join(bytes(part) for part in parts)  # type: ignore[attr-defined]
        path.write_bytes(content[: self.room])
        self.room -= len(content)
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.real(path, [content])


@pytest.mark.parametrize("room", [0, 100, 500])
def test_a_full_disk_is_an_error_and_leaves_older_ones_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    (old,) = kept(tmp_path, 1)
    monkeypatch.setattr(safetensors_file, "write_hashed", _FullDisk(room))
    with pytest.raises(OSError, match="No space left"):
        kept(tmp_path, 2)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == [old.name]
    assert newest(tmp_path, ALONE).path == old


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_real_full_disk_speaks_up(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        safetensors_file.write(Path("/dev/full"), {"x": torch.zeros(10**5)})


class _Killed(BaseException):
    """No handler sees a kill -9."""


class _Clock:
    """Kills at the n-th change of the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, moment: int) -> None:
        self.left = moment
        for name in ("fsync", "rename", "mkdir", "rmdir", "unlink"):
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, change: Callable[..., None]) -> Callable[..., None]:
        def call(*args: object, **options: object) -> None:
            self.left -= 1
            if self.left < 0:
                raise _Killed
            change(*args, **options)

        return call


def _killed_at(directory: Path, monkeypatch: pytest.MonkeyPatch, moment: int) -> bool:
    """Save 1 and 2; then replace 2, save 3 and remove all but the newest, as far as one gets."""
    kept(directory, 1, 2)
    with monkeypatch.context() as patched:
        _Clock(patched, moment)
        try:
            kept(directory, 2, 3)
            prune(directory, 1)
        except _Killed:
            return True
    return False


def test_a_kill_at_any_moment_leaves_the_newest_whole_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, moment = [], 0
    while _killed_at(place := tmp_path / str(moment), monkeypatch, moment):
        found = newest(place, ALONE)
        assert found.path is not None and found.notes == (), moment
        x = torch.zeros(3)
        facts = load(found.path, {"x": x}, ALONE)
        assert x.eq(facts["step"]).all()
        assert not [name for name in os.listdir(place) if name.startswith(".")]
        assert found.path.name == f"step-{facts['step']:08d}"
        steps.append(facts["step"])
        moment += 1
    assert steps == sorted(steps) and set(steps) == {2, 3} and len(steps) > 20
