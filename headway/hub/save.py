"""`headway.save`: a model in the layout of its family, so that the library it came from loads it."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn

from headway.data.files import write_json
from headway.data.tokenizer import Tokenizer
from headway.hub.checks import check_written
from headway.hub.family import Entry, Family, family_named
from headway.hub.parts import parts_of
from headway.hub.receipt import hash_of
from headway.hub.store import DECODING, HASH, INDEX, WEIGHTS
from headway.models import parameters

SHARD = 5 * 10**9  # bytes in one file at most
DECODERS = ("language", "seq2seq")
# Whatever else lies in a directory is somebody's work, and no model replaces it.
OWN = (
    "config.json", "generation_config.json", "*.safetensors", "*.safetensors.index.json", "tokenizer*.json", "vocab.*",
    "merges.txt", "special_tokens_map.json", "preprocessor_config.json", "README.md", "modules.json",
    "sentence_bert_config.json", "config_sentence_transformers.json", "*.spm", ".gitattributes",
)  # fmt: skip
_STEP = re.compile(r"\d+_[A-Z]\w*")  # 1_Pooling
_BESIDE = ".headway-"  # how the directories begin that are made beside a place


def save(
    model: nn.Module,
    path: str | Path,
    *,
    tokenizer: Tokenizer | None = None,
    layout: str | None = None,
    overwrite: bool = False,
    shard: int = SHARD,
) -> None:
    """Write config.json, the weights and the tokenizer (the model's own by default) into a directory: all, or nothing.

    `layout` is that of the model's family, or "headway", which can say every model; one that cannot say this model is
    refused. The directory is made beside the place first and moved there when it is whole.
    """
    check_place(path, overwrite)
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    write = _writer(model, layout)
    with tempfile.TemporaryDirectory(prefix=_BESIDE, dir=target.parent) as made:
        whole = Path(made) / "model"
        whole.mkdir()
        write(whole, shard)
        if (known := tokenizer or getattr(model, "tokenizer", None)) is not None:
            known.save(whole)
        (whole / "README.md").write_text(card(model, target.name), encoding="utf-8")
        _share(whole)
        if target.exists():
            target.replace(Path(made) / "old")
        whole.replace(target)
        shutil.rmtree(Path(made) / "old", ignore_errors=True)


def check_place(path: str | Path, overwrite: bool, *, how: str = "say overwrite") -> None:
    """Refuse a place where nothing can be written, or where more than a model would be lost."""
    if path == "":
        raise ValueError("an empty path is no place for a model: name a directory")
    target = Path(path)
    try:
        if target.is_symlink():
            raise ValueError(f"{target} is a symbolic link: name the directory itself")
        if target.exists():
            _check_standing(target, overwrite, how)
        _check_writable(target.resolve())
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ValueError(f"{target} cannot be written: {reason}; choose another place") from None


def _check_standing(target: Path, overwrite: bool, how: str) -> None:
    """Refuse to write over anything, and to replace what is not a model's even when asked to overwrite."""
    if not target.is_dir():
        raise ValueError(f"{target} is a file: a model is written into a directory")
    if not any(target.iterdir()):
        return
    if not overwrite:
        raise ValueError(f"{target} is not empty: choose another place, or {how}")
    if not any((target / name).is_file() for name in ("config.json", "modules.json")):
        raise ValueError(f"{target} holds no model, and is not overwritten: choose another place")
    if foreign := min(_foreign(target), default=None):
        name = foreign.relative_to(target)
        raise ValueError(f"{target} holds {name}, which is no file of a model and would be lost: choose another place")


def _foreign(directory: Path, inner: bool = False) -> Iterator[Path]:
    """What is not of a model; the folders of a sentence encoder's steps are looked into, and hold none themselves."""
    for entry in directory.iterdir():
        if not entry.is_dir():
            if not any(fnmatchcase(entry.name, pattern) for pattern in OWN):
                yield entry
        elif inner or not _STEP.fullmatch(entry.name):
            yield entry
        else:
            yield from _foreign(entry, inner=True)


def _check_writable(target: Path) -> None:
    """Try it: permission bits say nothing of read-only and virtual file systems."""
    above = next((parent for parent in target.parents if parent.exists()), target)
    for place in [above, *([target] if target.exists() else [])]:
        with tempfile.TemporaryDirectory(prefix=_BESIDE, dir=place):
            pass


def _share(directory: Path) -> None:
    """Give every file the mode that a plain file gets here: safetensors makes its own for the owner alone."""
    plain = directory / ".mode"
    plain.touch()
    for file in directory.rglob("*.safetensors"):
        file.chmod(plain.stat().st_mode)
    plain.unlink()


def _writer(model: Any, layout: str | None) -> Callable[[Path, int], None]:
    """What writes a model: its layout's family, or for a sentence encoder several in one directory."""
    config = model.config
    if layout not in (None, config.family, "headway"):
        other = "" if config.family == "headway" else f' "{config.family}" or layout'
        raise ValueError(f'this model is saved with layout{other} "headway", not {layout!r}')
    if (layout or config.family) == "sentence":
        from headway.hub.sentence import write_sentence

        return partial(write_sentence, model)
    return partial(write_model, layout or config.family, model)


def write_model(layout: str, model: Any, directory: Path, shard: int) -> None:
    """config.json and the weights."""
    family = family_named(layout)
    said = family.write(model.config)  # first: a layout that has no word for the model says so
    check_written(family, layout, model.config, said)
    tensors, digest = _exported(family, model)
    config = {**said, "dtype": str(next(iter(tensors.values())).dtype).removeprefix("torch.")}
    if pictures := config.pop("preprocessor", None):
        write_json(directory / "preprocessor_config.json", pictures)
    write_json(directory / "config.json", config)
    if "eos_token_id" in config and model.config.kind_or_name() in DECODERS:
        keys = ("bos_token_id", "pad_token_id", *DECODING)
        write_json(directory / "generation_config.json", {key: config[key] for key in keys if key in config})
    write_tensors(tensors, directory, digest, shard)


def _exported(family: Family, model: nn.Module) -> tuple[dict[str, Tensor], str]:
    ours = parts_of(model)
    table = [row for row in family.table(model.config) if isinstance(row, Entry)]
    known = {name for entry in table for name in entry.names}
    if unsaid := set(ours) - known:
        raise ValueError(
            f"the layout of {family.name} has no place for {sorted(unsaid)[0]!r}: save with layout='headway'"
        )
    if lacking := known - set(ours):
        raise ValueError(f"the layout of {family.name} needs {sorted(lacking)[0]!r}: save with layout='headway'")
    named = {
        family.exported(entry.theirs, model.config): entry.backwards([ours[name] for name in entry.names])
        for entry in table
    }
    return named, hash_of(model)


def write_tensors(tensors: dict[str, Tensor], directory: Path, digest: str, shard: int) -> None:
    parts = list(_parts(tensors, shard))
    said = {"format": "pt", HASH: digest}
    if len(parts) == 1:
        save_file(parts[0], directory / WEIGHTS, metadata=said)
        return
    places = {}
    for number, part in enumerate(parts, start=1):
        file = f"model-{number:05d}-of-{len(parts):05d}.safetensors"
        save_file(part, directory / file, metadata={"format": "pt"})
        places |= dict.fromkeys(part, file)
    total = sum(tensor.nbytes for tensor in tensors.values())
    write_json(directory / INDEX, {"metadata": {"total_size": total, HASH: digest}, "weight_map": places})


def _parts(tensors: dict[str, Tensor], shard: int):
    part: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if part and sum(one.nbytes for one in part.values()) + tensor.nbytes > shard:
            yield part
            part = {}
        part[name] = tensor
    yield part


def card(model: Any, name: str) -> str:
    """A model card in the layout that model hubs show: metadata first, then a few lines for people."""
    c = model.config
    return f"""---
library_name: headway
tags: [{c.kind}, {c.family}]
---

# {name}

A {c.kind} model in the layout of {c.family}: {parameters(model):,} parameters.

    import headway
    model, tokenizer, receipt = headway.load("{name}")
"""
