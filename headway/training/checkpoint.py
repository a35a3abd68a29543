"""The state of a run on disk: whole or not at all, and readable by any number of processes.

A checkpoint is a directory, `step-00000200`. Each process writes the parts of tensors that it holds to a safetensors
file of its own; `manifest.json` says which part of which tensor is where, and has the hash of every file. All of it is
written in a hidden directory beside, forced to the disk, and renamed at the end: a process killed at any moment, or a
full disk, leaves older checkpoints as they were. Nothing is pickled, so nothing in a checkpoint can run.

Directories appear and disappear as a whole. Hidden names hold what is being made (`.step-00000200.new`), what gives
way to it (`.old`) and what is being removed (`.gone`). A process may be killed between any two lines: `clean` then
finishes what was begun.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.training import slices
from headway.training.distributed import World, differences, machine
from headway.training.slices import Piece, Share

MANIFEST = "manifest.json"
_FORMAT = {"format": "headway checkpoint", "version": 1}


class Damaged(ValueError):
    """A checkpoint that is not what was written."""


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
            place.parent.mkdir(parents=True, exist_ok=True)
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
            publish(working, place)
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
    return file, slices.write(working / file, {name: shares[name].held for name in mine}), mine


def _write_manifest(
    working: Path, shares: Mapping[str, Share], facts: Mapping[str, Any], everything: list[Any], world: World
) -> None:
    files = [one for one in everything if one is not None]
    for name, stamp, _ in files:
        path = working / name
        if not path.exists() or path.stat().st_size != stamp["bytes"]:
            raise OSError(f"{name} of another process is not in {working.parent}: all machines have to share it")
    listed = {
        name: {
            "shape": list(share.shape),
            "dtype": slices.DTYPES[share.held.dtype],
            "slices": [
                {"file": file, "offset": pieces[name].offset, "shape": pieces[name].shape}
                for file, _, pieces in files if name in pieces
            ],
        }
        for name, share in shares.items()
    }  # fmt: skip
    stamps = {name: stamp for name, stamp, _ in files}
    body = {**_FORMAT, "machine": machine(world), "facts": facts, "files": stamps, "tensors": listed}
    text = json.dumps({**body, "sha256": _stamp(body)})
    slices.write_whole(working / MANIFEST, [text.encode()])


def _stamp(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _agree_or_give_up(problem: OSError | None, working: Path, world: World) -> None:
    """Either every process goes on, or none does, and nothing of the attempt is left."""
    problems = world.gather(None if problem is None else str(problem))
    if any(problems):
        world.barrier()
        if world.first:
            discard(working)
        rank = next(rank for rank, text in enumerate(problems) if text)
        raise problem or OSError(f"process {rank} could not write its part of the checkpoint: {problems[rank]}")


def manifest(place: Path) -> dict[str, Any]:
    """What a checkpoint says of itself."""
    try:
        body = json.loads((place / MANIFEST).read_bytes())
        stamp = body.pop("sha256")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"checkpoint {place.name} is damaged: {MANIFEST} cannot be read ({error})") from None
    if _stamp(body) != stamp:
        raise Damaged(f"checkpoint {place.name} is damaged: {MANIFEST} is not what was written")
    if body.get("version") != _FORMAT["version"]:
        raise ValueError(f"checkpoint {place.name} has version {body.get('version')}; this headway reads version 1")
    return body


def verify(place: Path, world: World) -> dict[str, Any]:
    """Hash every file, each in one process; returns the manifest, or raises Damaged in all of them."""
    complaint, body = None, None
    try:
        body = manifest(place)
        for name in list(body["files"])[world.rank :: world.size]:
            if not (place / name).exists():
                raise Damaged(f"checkpoint {place.name} is damaged: {name} is missing")
            if slices.hash_of(place / name) != body["files"][name]:
                raise Damaged(f"checkpoint {place.name} is damaged: {name} is not what was written")
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
    body = verify(place, world) if check else manifest(place)
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
        kept, dtype = (saved[name]["dtype"], tuple(saved[name]["shape"])), slices.DTYPES[share.held.dtype]
        if kept != (dtype, share.shape):
            raise ValueError(f"checkpoint {place.name} has {name!r} as {kept[0]} of shape {kept[1]}, and this run as "
                             f"{dtype} of shape {share.shape}")  # fmt: skip


def checkpoints(directory: Path) -> list[Path]:
    """The checkpoints in a directory, the newest first; whether they are intact is not looked at."""
    found = [path for path in directory.glob("step-*") if NAME.fullmatch(path.name) and (path / MANIFEST).exists()]
    return sorted(found, key=lambda path: int(path.name[5:]), reverse=True)


def newest(directory: Path, world: World, *, check: bool = True) -> Newest:
    """The newest checkpoint that is intact; left-overs of a process that was killed are cleared away."""
    if world.first:
        clean(directory)
    notes: list[str] = []
    for place in world.share(checkpoints(directory)):
        try:
            if check:
                verify(place, world)
            told = differences(manifest(place)["machine"], world)
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
        if int(later.name[5:]) > int(place.name[5:]):
            discard(later)


NAME = re.compile(r"step-\d{8,}")


def temporary(place: Path) -> Path:
    """Where a directory is made before it gets its name."""
    return place.with_name(f".{place.name}.new")


def publish(working: Path, place: Path) -> None:
    """Give a finished directory its name; one that had it gives way."""
    _sync(working)
    old = place.with_name(f".{place.name}.old")
    if place.exists():
        discard(old)
        place.rename(old)
    working.rename(place)
    _sync(place.parent)
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


def _sync(directory: Path) -> None:
    """A rename is on the disk only when its directory is."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
