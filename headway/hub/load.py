"""`headway.load`: a model and its tokenizer from a directory, with a receipt; or a refusal, never random weights."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway.config import Frozen
from headway.data.files import read_json, read_optional
from headway.data.tokenizer import Tokenizer
from headway.hub.family import Family, family_of
from headway.hub.receipt import Hasher, Receipt
from headway.hub.store import FLOATS, Store
from headway.hub.table import Entry, Table, Tied
from headway.models import on_meta, parameters, with_room


class Loaded(NamedTuple):
    """`model, tokenizer, receipt = headway.load(path)`; the tokenizer is None where the directory has none."""

    model: Any
    tokenizer: Tokenizer | None
    receipt: Receipt


def load(path: str | Path, *, dtype: torch.dtype | str | None = None) -> Loaded:
    """Read a model from a directory; without `dtype` in the one it is stored in (float16 becomes float32: on a CPU
    its products are many times slower)."""
    if (Path(path) / "modules.json").is_file():
        from headway.hub.sentence import load_sentence

        return load_sentence(Path(path), dtype)
    return load_model(path, dtype=dtype)


def load_model(path: str | Path, *, dtype: torch.dtype | str | None = None) -> Loaded:
    """The same for a directory that holds one model and no steps behind it."""
    directory = _directory(path)
    config = read_config(directory)
    family = family_of(config, directory / "config.json")
    with Store(directory) as store:
        names = _canonical_names(family, store)
        ours = _understood(family, config, names, directory)
        model, receipt = fill(on_meta(ours), family, ours, store, names, _dtype(dtype, store))
    return Loaded(model.eval(), Tokenizer.read(directory), receipt)


# What decoding depends on stands in generation_config.json, in newer directories there alone.
DECODING = ("eos_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id", "bad_words_ids")


def read_config(directory: Path) -> dict[str, Any]:
    """config.json, with what generation_config.json says of decoding and preprocessor_config.json of pictures."""
    config = read_json(directory / "config.json")
    said = read_optional(directory / "generation_config.json")
    config |= {key: said[key] for key in DECODING if said.get(key) is not None}
    if pictures := read_optional(directory / "preprocessor_config.json"):
        config["preprocessor"] = pictures
    return config


def _directory(path: str | Path) -> Path:
    directory = Path(path)
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "does not exist"
        raise ValueError(f"{directory} {what}: a model is a directory with config.json and model.safetensors")
    if not (directory / "config.json").is_file():
        raise ValueError(f"{directory} has no config.json, so nobody can say what its tensors mean")
    return directory


def _canonical_names(family: Family, store: Store) -> dict[str, str]:
    """Name in the table -> name in the file, less what holds no weights."""
    found: dict[str, str] = {}
    for name in store.headers:
        known = family.canonical(name)
        if known in found:
            raise ValueError(f"{store.directory} holds {found[known]!r} and {name!r}, two names of one tensor")
        found[known] = name
    return found


def _understood(family: Family, config: Mapping[str, Any], names: Mapping[str, str], directory: Path) -> Frozen:
    try:
        return family.read(config, frozenset(names))
    except KeyError as error:
        raise ValueError(f"{directory / 'config.json'} does not say {error.args[0]!r}") from None


def _dtype(asked: torch.dtype | str | None, store: Store) -> torch.dtype:
    if asked is not None:
        found = getattr(torch, asked, None) if isinstance(asked, str) else asked
        if found not in FLOATS.values():
            raise ValueError(f"weights are float64, float32, bfloat16 or float16, not {asked}")
        return found
    kinds = {header.dtype for header in store.headers.values() if header.dtype in FLOATS}
    stored = [kind for kind in FLOATS if kind in kinds]
    return torch.float32 if not stored or stored[0] == "F16" else FLOATS[stored[0]]


def fill(
    model: Any, family: Family, config: Frozen | None, store: Store, names: dict[str, str], dtype: torch.dtype
) -> tuple[Any, Receipt]:
    """A model without memory, with the weights of a store; every tensor accounted for."""
    table, hasher = family.table(config), Hasher()
    unused = _account(family, table, store, names)
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    entries = [row for row in table if isinstance(row, Entry)]
    _check_cover(entries, shapes)
    for entry in entries:
        _check_header(entry, store, names, shapes)
    model = with_room(model, dtype)
    for entry in entries:
        _take(model, entry, store.tensor(names[entry.theirs]), shapes, hasher)
    tied = _check_tied(table, store, names)
    digest = hasher.hexdigest()
    if store.said is not None and store.said != digest:
        raise ValueError(f"the weights in {store.directory} are not those that were saved: their hash has changed")
    stands = str(dtype).removeprefix("torch.")
    receipt = Receipt(
        str(store.directory), _name_of(family, config), len(entries), len(entries), tied, unused, (), parameters(model), stands, digest
    )  # fmt: skip
    return model, receipt


def _name_of(family: Family, config: Any) -> str:
    """Several relatives share one file of this package, and are still called by their own names."""
    return family.name if config is None else config.family


def _account(family: Family, table: Table, store: Store, names: dict[str, str]) -> tuple[str, ...]:
    """Every tensor of the table must be there, and every tensor that is there must be explained."""
    _use_other_names(table, names)
    missing = [row.theirs for row in table if isinstance(row, Entry) and row.theirs not in names]
    if missing:
        raise ValueError(f"{store.directory} lacks {_some(missing)}; no weight is made up for it")
    known = {row.theirs for row in table}
    left = [name for known_as, name in names.items() if known_as not in known]
    ignored = [name for name in left if any(re.fullmatch(one, family.canonical(name)) for one in family.ignored)]
    unexplained = [name for name in left if name not in ignored]
    if unexplained:
        raise ValueError(
            f"{store.directory} holds {_some(unexplained)}, which a {family.name} of this config.json does not have"
        )
    return tuple(ignored)


def _use_other_names(table: Table, names: dict[str, str]) -> None:
    """Where a file holds a tied tensor under its second name alone, that name serves."""
    for row in table:
        if isinstance(row, Tied) and row.same_as not in names and row.theirs in names:
            names[row.same_as] = names.pop(row.theirs)


def _some(names: list[str]) -> str:
    return f"{names[0]!r}" + (f" and {len(names) - 1} more tensors" if len(names) > 1 else "")


def _check_cover(entries: list[Entry], shapes: Mapping[str, torch.Size]) -> None:
    covered = [name for entry in entries for name in entry.names]
    assert sorted(covered) == sorted(shapes), set(covered) ^ set(shapes)


def _check_header(entry: Entry, store: Store, names: dict[str, str], shapes: Mapping[str, torch.Size]) -> None:
    header, name = store.headers[names[entry.theirs]], names[entry.theirs]
    expected = entry.shape([shapes[ours] for ours in entry.names])
    if header.shape != expected:
        raise ValueError(f"{store.directory}: {name!r} has shape {header.shape}, and config.json makes it {expected}")
    if header.dtype not in FLOATS:
        raise ValueError(
            f"{store.directory}: {name!r} is stored as {header.dtype}; headway reads floating-point weights"
        )


@torch.no_grad()
def _take(model: nn.Module, entry: Entry, theirs: Tensor, shapes: Mapping[str, torch.Size], hasher: Hasher) -> None:
    """One tensor of theirs into our model: the only copy that is made."""
    rows = [shapes[name][0] for name in entry.names]
    for name, part in zip(entry.names, entry.forwards(theirs, rows), strict=True):
        hasher.add(name, part)
        model.get_parameter(name).copy_(part)


def _check_tied(table: Table, store: Store, names: dict[str, str]) -> tuple[str, ...]:
    tied = [row for row in table if isinstance(row, Tied)]
    for row in tied:
        if row.theirs in names and row.same_as in names:
            first, second = names[row.same_as], names[row.theirs]
            if not torch.equal(store.tensor(first), store.tensor(second)):
                raise ValueError(
                    f"{store.directory}: config.json ties {second!r} to {first!r}, and the file holds two different tensors"
                )
    return tuple(row.theirs for row in tied)
