"""hashes.json of a run: its settings and the contents of its data, compared when it is resumed."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headway.app.settings import read
from headway.config.run_files import RunFiles
from headway.config.train import TrainConfig
from headway.data.files import read_optional, write_json
from headway.data.hashes import FileHash, hash_of, stamp, verify_first
from headway.data.image_files import CACHED, labels_of
from headway.data.paths import find_data

HASHES = "hashes.json"
SOURCE_WAY_OUT = "put back what it was, or touch the file to train on what it is now"
CACHE_WAY_OUT = "remove it, and it is made again"
Say = Callable[[str], None]


def write_run_hashes(place: RunFiles, config: TrainConfig) -> None:
    """Note the settings, and the hash of every file that the data is read from."""
    known = _read(place).get("sources", {})
    body = {"settings": config.model_dump(mode="json"), "sources": {}}
    for path in _sources(place, config):
        state = _state(path)
        before = known.get(str(path), {})
        same = {key: before.get(key) for key in state} == state
        body["sources"][str(path)] = {**state, "sha256": before["sha256"] if same else hash_of(path)["sha256"]}
    write_json(place.path / HASHES, {**body, "sha256": stamp(body)})


def verify_run(place: RunFiles, config: TrainConfig, say: Say) -> dict[Path, FileHash]:
    """Name settings that were edited, refuse data that has changed unseen; returns what is left to hash."""
    body = _read(place)
    if not body:
        say(f"{place.path} has no {HASHES}: there is nothing to verify its settings and its data by")
        return {}
    for name, old, new in _differences(body["settings"], TrainConfig(**read(place.config)).model_dump(mode="json")):
        say(f"{place.config} was edited: {name} was {old!r} and is {new!r}")
    expected, changed = {}, []
    for path in _sources(place, config):
        said, own = body["sources"].get(str(path)), _is_cache(place, path)
        # A source of another size or time is seen to have changed, and is read anew.
        if said and not own and {key: said[key] for key in ("bytes", "time")} != _state(path):
            changed.append(path)
        elif said:
            expected[path] = FileHash(said["bytes"], said["sha256"], CACHE_WAY_OUT if own else SOURCE_WAY_OUT)
    if changed:
        more = f" and {len(changed) - 1:,} more have" if len(changed) > 1 else " has"
        say(f"{changed[0]}{more} changed since: the run goes on with what is there now")
    return verify_first(expected)


def _read(place: RunFiles) -> dict[str, Any]:
    """The record, empty where there is none."""
    found = read_optional(place.path / HASHES)
    said = found.pop("sha256", None)
    if found and stamp(found) != said:
        raise ValueError(
            f"{place.path / HASHES} is not what was written: put it back, or remove it to go on without verifying"
        )
    return found


def _state(path: Path) -> dict[str, int]:
    known = path.stat()
    return {"bytes": known.st_size, "time": known.st_mtime_ns}


def _sources(place: RunFiles, config: TrainConfig) -> list[Path]:
    """The files of the data, classes of pictures too; standard input and scaled pictures are the run's own."""
    data = config.data
    names = [
        str(place.data / "stdin") if name == "-" else name for name in (*data.train, *data.validation, *data.pairs)
    ]
    files = [one.file for name in names for one in _found(name)]
    files += [labels_of(path) for path in files if path is not None]
    files += sorted(place.data.glob(f"{CACHED}*.npy"))
    return [path.resolve() for path in dict.fromkeys(files) if path is not None and path.is_file()]


def _is_cache(place: RunFiles, path: Path) -> bool:
    return path.parent == place.data.resolve() and path.name.startswith(CACHED)


def _found(name: str) -> list[Any]:
    try:
        return list(find_data([name]))
    except ValueError:  # a source of another kind, such as pictures by name
        return []


def _differences(old: Any, new: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted names of settings that differ.

    >>> list(_differences({"optim": {"rate": 1, "clip": 2}}, {"optim": {"rate": 3, "clip": 2}}))
    [('optim.rate', 1, 3)]
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            yield from _differences(old.get(key), new.get(key), f"{name}.{key}".removeprefix("."))
    elif old != new:
        yield name, old, new
