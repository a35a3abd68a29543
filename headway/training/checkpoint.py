"""The state of a run on disk: whole or not at all, and readable by any number of processes.

A checkpoint is a directory, `step-00000200`. Each process writes the parts of tensors that it holds to a safetensors
file of its own; `manifest.json` says which part of which tensor is where, and has the hash of every file. All of it is
written in a hidden directory beside, forced to the disk, and renamed at the end: a process killed at any moment, or a
full disk, leaves older checkpoints as they were. Nothing is pickled, so nothing in a checkpoint can run.

Directories appear and disappear as a whole. Hidden names hold what is being made (`.step-00000200.new`), what gives
way to it (`.new` or `.old`) and what is being removed (`.gone`). A process may be killed between any two lines: `clean`
then finishes what was begun.
"""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.data.hashes import stamp
from headway.data.publish import make_directory, publish
from headway.hub import safetensors_file
from headway.hub.safetensors_file import DTYPES
from headway.training import manifest, slices
from headway.training.distributed import World, differences, machine
from headway.training.manifest import MANIFEST, Damaged
from headway.training.slices import Piece, Share


@dataclass(frozen=True)
class Newest:
    """The newest checkpoint that is whole, if there is any, and what has to be said about those that are not."""

    path: Path | None
    notes: tuple[str, ...] = ()


Tensors = Mapping[str, Tensor | Share]


def save(place: Path, tensors: Tensors, facts: Mapping[str, Any], world: World) -> None:
    """Keep these tensors and facts (anything JSON knows) in the directory `place`, in all processes together."""
    working, problem, written = temporary(place), None, None
    shares = _shares(tensors)
    pieces = {name: share.piece for name, share in shares.items()}
    before = world.gather(pieces)[: world.rank]
    try:
        if world.first:
            make_directory(place.parent)
            discard(working)
            working.mkdir()
    except OSError as error:
        problem = error
    _agree_or_give_up(problem, working, world)
    try:
        written = _write_own(working, shares, _missing(pieces, before), world)
    except OSError as error:
        problem = error
    _agree_or_give_up(problem, working, world)
    everything = world.gather(written)
    try:
        if world.first:
            _write_manifest(working, shares, facts, everything, world)
            _publish(working, place)
    except OSError as error:
        problem = error
    _agree_or_give_up(problem, working, world)


def _shares(tensors: Tensors) -> dict[str, Share]:
    return {name: one if isinstance(one, Share) else Share.of(one) for name, one in tensors.items()}


def _missing(pieces: Mapping[str, Piece], before: list[Mapping[str, Piece]]) -> dict[str, Piece]:
    """What this process holds and none of those before it."""
    return {
        name: piece
        for name, piece in pieces.items()
        if not piece.empty and not any(other.get(name) == piece for other in before)
    }


def _write_own(
    working: Path, shares: Mapping[str, Share], mine: Mapping[str, Piece], world: World
) -> tuple[str, dict[str, Any], Mapping[str, Piece]] | None:
    """This process's file, where it has anything to keep."""
    if not mine:
        return None
    file = f"part-{world.rank:04d}-of-{world.size:04d}.safetensors"
    return file, safetensors_file.write(working / file, {name: shares[name].held for name in mine}), mine


def _write_manifest(
    working: Path, shares: Mapping[str, Share], facts: Mapping[str, Any], everything: list[Any], world: World
) -> None:
    files = [one for one in everything if one is not None]
    for name, written, _ in files:
        path = working / name
        if not path.exists() or path.stat().st_size != written["bytes"]:
            raise OSError(f"{name} of another process is not in {working.parent}: all machines have to share it")
    listed = {
        name: {
            "shape": list(share.shape),
            "dtype": DTYPES[share.held.dtype],
            "slices": [
                {"file": file, "offset": pieces[name].offset, "shape": pieces[name].shape}
                for file, _, pieces in files if name in pieces
            ],
        }
        for name, share in shares.items()
    }  # fmt: skip
    stamps = {name: written for name, written, _ in files}
    body = {**manifest.FORMAT, "machine": machine(world), "facts": facts, "files": stamps, "tensors": listed}
    text = json.dumps({**body, "sha256": stamp(body)})
    safetensors_file.write_hashed(working / MANIFEST, [text.encode()])


def _agree_or_give_up(problem: OSError | None, working: Path, world: World) -> None:
    """Either every process goes on, or none does, and nothing of the attempt is left."""
    problems = world.gather(None if problem is None else str(problem))
    if any(problems):
        world.barrier()
        if world.first:
            discard(working)
        rank = next(rank for rank, text in enumerate(problems) if text)
        raise problem or OSError(f"process {rank} could not write its part of the checkpoint: {problems[rank]}")


def verify(place: Path, world: World) -> dict[str, Any]:
    """Hash every file and compare it with the manifest, each in one process; returns it, or raises Damaged in all."""
    complaint, body = None, None
    try:
        body = manifest.read(place)
        for name in list(body["files"])[world.rank :: world.size]:
            manifest.check_file(place, name, body)
    except (Damaged, OSError) as error:
        complaint = str(error)
    if complaints := [text for text in world.gather(complaint) if text]:
        raise Damaged(complaints[0])
    assert body is not None
    return body


@torch.no_grad()
def load(place: Path, into: Tensors, world: World, *, check: bool = True) -> dict[str, Any]:
    """Read a checkpoint into these tensors, in place, whoever wrote it; returns its facts.

    Each process reads what it holds. `check=False` leaves out the hashes, where `newest` has just looked at them.
    """
    body = verify(place, world) if check else manifest.read(place)
    shares = _shares(into)
    _fits(place, body["tensors"], shares)
    for name, share in shares.items():
        for one in body["tensors"][name]["slices"]:
            piece = Piece(tuple(one["offset"]), tuple(one["shape"]))
            common = share.piece.common(piece)
            if not common.empty:
                found = slices.read(place / one["file"], name, common.within(piece))
                share.held[common.within(share.piece)].copy_(found)
    world.barrier()
    return body["facts"]


def _fits(place: Path, saved: Mapping[str, Any], into: Mapping[str, Share]) -> None:
    """Refuse a checkpoint of something else before anything is written."""
    if absent := sorted(into.keys() - saved.keys()):
        raise ValueError(f"checkpoint {place.name} has no tensor {absent[0]!r} ({len(absent)} are missing): it is of "
                         "another model or optimiser")  # fmt: skip
    for name, share in into.items():
        kept, dtype = (saved[name]["dtype"], tuple(saved[name]["shape"])), DTYPES[share.held.dtype]
        if kept != (dtype, share.shape):
            raise ValueError(f"checkpoint {place.name} has {name!r} as {kept[0]} of shape {kept[1]}, and this run as "
                             f"{dtype} of shape {share.shape}")  # fmt: skip


def checkpoints(directory: Path) -> list[Path]:
    """The checkpoints in a directory, the newest first; whether they are intact is not looked at."""
    found = [path for path in directory.glob("step-*") if NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=step_of, reverse=True)


def newest(directory: Path, world: World, *, check_facts: Callable[[Path, Any], object] = lambda *_: None) -> Newest:
    """The newest checkpoint that is intact; left-overs of a process that was killed are cleared away.

    `check_facts` raises ValueError of facts that cannot be.
    """
    if world.first:
        clean(directory)
    notes: list[str] = []
    for place in world.share(checkpoints(directory)):
        try:
            body = verify(place, world)
            try:
                check_facts(place, body["facts"])
            except ValueError as error:
                raise manifest.damaged(place, f"{MANIFEST} {error}") from None
            told = differences(body["machine"], world)
            return Newest(place, (*(f"{note}; using {place.name}" for note in notes), *([told] if told else ())))
        except Damaged as error:
            notes.append(str(error))
    return Newest(None, tuple(f"{note}; there is none before it" for note in notes))


def prune(directory: Path, keep: int, best: Path | None = None) -> None:
    """Remove all but the newest `keep` checkpoints and the best one."""
    for place in checkpoints(directory)[keep:]:
        if best is None or place.name != best.name:
            discard(place)


def forget_after(directory: Path, place: Path) -> None:
    """Remove checkpoints of later steps than this one's: a run that goes on from it writes them again."""
    for later in checkpoints(directory):
        if step_of(later) > step_of(place):
            discard(later)


NAME = re.compile(r"step-\d{8,}")


def step_of(place: Path) -> int:
    """The step of a checkpoint, by its name."""
    return int(place.name.removeprefix("step-"))


def temporary(place: Path) -> Path:
    """Where a directory is made before it gets its name."""
    return place.with_name(f".{place.name}.new")


def _publish(working: Path, place: Path) -> None:
    """Give a finished directory its name; one that had it gives way."""
    old = place.with_name(f".{place.name}.old")
    discard(old)
    publish(working, place, old)
    discard(working)
    discard(old)


def discard(place: Path) -> None:
    """Remove a directory, which is no longer seen from the first moment on."""
    gone = place.with_name(f".{place.name.strip('.')}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    if place.exists():
        place.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def clean(directory: Path) -> None:
    """Finish what a killed process has begun: unfinished directories go, one that gave way in vain comes back."""
    for old in directory.glob(".step-*.old"):
        place = old.with_name(old.name[1:-4])
        if not place.exists():
            old.rename(place)
    for kind in ("new", "old", "gone"):
        for left in directory.glob(f".step-*.{kind}"):
            shutil.rmtree(left, ignore_errors=True)
