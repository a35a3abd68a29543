"""`headway.save`: a model in the layout of its family, so that the library it came from loads it."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from headway.data.files import write_json
from headway.data.publish import PREFIX, is_working, make_directory, replacing
from headway.data.tokenizer import TEMPLATES, Tokenizer
from headway.hub.carried_files import BASE_CARD, CARD, Carried, carry
from headway.hub.checks import check_written
from headway.hub.content_hash import CONTENT, content_hash
from headway.hub.families.common import unfit
from headway.hub.family import Entry, Family, family_named
from headway.hub.hashes import HASHES, MEANING, STEP, is_carried, write_hashes
from headway.hub.parts import parts_of
from headway.hub.receipt import hash_of
from headway.hub.safetensors_file import write
from headway.hub.store import DECODING, HASH, INDEX, WEIGHTS

SHARD = 5 * 10**9  # bytes in one file at most
DECODERS = ("language", "seq2seq")
# Whatever else lies in a directory is somebody's work, and no model replaces it.
OWN = (*MEANING, HASHES, "*.safetensors", "*.safetensors.index.json", CARD, BASE_CARD, ".gitattributes")


def save(
    model: nn.Module,
    path: str | Path,
    *,
    tokenizer: Tokenizer | None = None,
    layout: str | None = None,
    overwrite: bool = False,
    shard: int = SHARD,
) -> Carried:
    """Write config.json, the weights and the tokenizer (the model's own by default) into a directory: all, or nothing.

    What came with a model that was loaded comes along (licence, card, processors, chat template, settings that headway
    has no word for); the result lists what was carried, changed and dropped.

    `layout` is that of the model's family, or "headway", which can say every model and is the default of quantised
    weights; one that cannot say this model is refused. The directory is made beside the place first, and gets its name
    when it is whole and on the disk: whenever the process is killed or the power fails, the model before or the new one
    stands there.
    """
    check_place(path, overwrite)
    target = Path(path).resolve()
    make_directory(target.parent)
    write_into = _writer(model, layout)
    with replacing(target) as whole:
        write_into(whole, shard)
        if (known := tokenizer or getattr(model, "tokenizer", None)) is not None:
            known.save(whole)
        found = carry(model, known, whole, target.name)
        write_hashes(whole, found.carried)
    return found


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
    if foreign := min((one for one in _foreign(target) if not is_carried(target, one)), default=None):
        name = foreign.relative_to(target)
        raise ValueError(f"{target} holds {name}, which is no file of a model and would be lost: choose another place")


def _foreign(directory: Path, inner: bool = False) -> Iterator[Path]:
    """What is not of a model; the folders of a sentence encoder's steps are looked into, and hold none themselves."""
    for entry in directory.iterdir():
        if not entry.is_dir():
            if not any(fnmatchcase(entry.name, pattern) for pattern in OWN):
                yield entry
        elif is_working(entry):  # a process was killed while it tried whether the place can be written
            continue
        elif inner or not (STEP.fullmatch(entry.name) or entry.name == TEMPLATES):
            yield entry
        else:
            yield from _foreign(entry, inner=True)


def _check_writable(target: Path) -> None:
    """Try it: permission bits say nothing of read-only and virtual file systems."""
    above = next((parent for parent in target.parents if parent.exists()), target)
    for place in [above, *([target] if target.exists() else [])]:
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=place):
            pass


def _writer(model: Any, layout: str | None) -> Callable[[Path, int], None]:
    """What writes a model: its layout's family, or for a sentence encoder several in one directory."""
    config = model.config
    layout = "headway" if layout is None and config.weights is not None else layout
    if config.weights is not None and layout != "headway":
        raise unfit(str(layout), "weights", str(config.weights))
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
    config = {**said, "dtype": str(next(iter(model.parameters())).dtype).removeprefix("torch.")}
    if pictures := config.pop("preprocessor", None):
        write_json(directory / "preprocessor_config.json", pictures)
    write_json(directory / "config.json", config)
    if decoding := _decoding(model, config):
        write_json(directory / "generation_config.json", decoding)
    write_tensors(tensors, directory, digest, shard)


def _decoding(model: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """What generation_config.json says: the tokens that decoding depends on, and the model's defaults."""
    defaults = model.generation_defaults
    said = {} if defaults is None else dict(defaults.said)
    if "eos_token_id" in config and model.config.kind_or_name() in DECODERS:
        keys = ("bos_token_id", "pad_token_id", *DECODING)
        said |= {key: config[key] for key in keys if key in config}
    return said


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
    return named | family.written(model.config), hash_of(model)


def write_tensors(tensors: dict[str, Tensor], directory: Path, digest: str, shard: int) -> None:
    parts = list(_parts(tensors, shard))
    notes = {HASH: digest, CONTENT: content_hash(tensors, digest)}
    if len(parts) == 1:
        write(directory / WEIGHTS, parts[0], {"format": "pt", **notes})
        return
    places = {}
    for number, part in enumerate(parts, start=1):
        file = f"model-{number:05d}-of-{len(parts):05d}.safetensors"
        write(directory / file, part, {"format": "pt"})
        places |= dict.fromkeys(part, file)
    total = sum(tensor.nbytes for tensor in tensors.values())
    write_json(directory / INDEX, {"metadata": {"total_size": total, **notes}, "weight_map": places})


def _parts(tensors: dict[str, Tensor], shard: int):
    part: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if part and sum(one.nbytes for one in part.values()) + tensor.nbytes > shard:
            yield part
            part = {}
        part[name] = tensor
    yield part
