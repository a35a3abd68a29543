"""hashes.json of a model's directory: what its configuration and its tokenizer were when the model was saved.

The weights have a hash of their own, in their file. A directory without hashes.json is loaded as it is, and the receipt
says that there was nothing to verify it by.
"""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from headway.data.files import read_optional, write_json
from headway.data.hashes import hash_of

HASHES = "hashes.json"
# Files that a load reads besides the weights.
MEANING = (
    "config.json", "generation_config.json", "tokenizer*.json", "vocab.*", "merges.txt", "special_tokens_map.json",
    "preprocessor_config.json", "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json",
    "*.spm", "chat_template.jinja", "adapter_*",
)  # fmt: skip
STEP = re.compile(r"\d+_[A-Z]\w*")  # 1_Pooling


def write_hashes(directory: Path, carried: Sequence[str] = ()) -> None:
    """The hash of every file that gives the weights their meaning, and of others that came with the model.

    The second are not compared when it is loaded: they say whose files these are when a model is written over them.
    """
    files = {name: hash_of(directory / name)["sha256"] for name in _files(directory)}
    others = {name: hash_of(directory / name)["sha256"] for name in carried if name not in files}
    write_json(directory / HASHES, {"files": files, **({"carried": others} if others else {})})


def is_carried(directory: Path, file: Path) -> bool:
    """Whether a file came with the model, and is still as it was."""
    listed = read_optional(directory / HASHES).get("carried")
    known = listed.get(file.relative_to(directory).as_posix()) if isinstance(listed, dict) and file.is_file() else None
    return known is not None and hash_of(file)["sha256"] == known


def verify(directory: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(files whose hash is as saved, files without a hash); one that has changed is refused."""
    found = read_optional(directory / HASHES)
    listed, present = found.get("files", {}), list(_files(directory))
    way_out = f"put back what was saved, or remove {directory / HASHES} to load it as it is"
    if not isinstance(listed, dict):
        raise ValueError(f"{directory / HASHES} has no object 'files': {way_out}")
    if gone := sorted(listed.keys() - set(present)):
        raise ValueError(f"{directory / gone[0]} was saved with the model and is missing: {way_out}")
    for name, digest in listed.items():
        if hash_of(directory / name)["sha256"] != digest:
            raise ValueError(f"{directory / name} is not what was saved, its hash has changed: {way_out}")
    return tuple(name for name in present if name in listed), tuple(name for name in present if name not in listed)


def _files(directory: Path) -> Iterator[str]:
    """By their names in the directory, those of a sentence encoder's steps too."""
    for path in sorted(directory.iterdir()):
        inner = (
            [path / one.name for one in sorted(path.iterdir())] if STEP.fullmatch(path.name) and path.is_dir() else []
        )
        for one in (path, *inner):
            if any(fnmatchcase(one.name, pattern) for pattern in MEANING) and one.is_file():
                yield one.relative_to(directory).as_posix()
