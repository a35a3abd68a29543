"""`headway.load`: a model and its tokenizer from a directory, with a receipt; or a refusal, never random weights."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway.config import Frozen
from headway.data.files import read_json, read_optional
from headway.data.tokenizer import Tokenizer
from headway.hub.account import account, canonical_names, check_cover, check_header, check_tied, check_unused
from headway.hub.asked import asked
from headway.hub.family import Family, family_of
from headway.hub.receipt import Hasher, Receipt
from headway.hub.store import FLOATS, Store
from headway.hub.table import Entry, Table
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
        names = canonical_names(family, store)
        ours = _understood(family, config, names, directory)
        kinds = _dtypes(family.table(ours), store, names)
        model, receipt = fill(on_meta(ours), family, ours, store, names, _dtype(dtype, kinds))
    return Loaded(model.eval(), Tokenizer.read(directory), replace(receipt, asked=asked(directory)))


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


def _understood(family: Family, config: Mapping[str, Any], names: Mapping[str, str], directory: Path) -> Frozen:
    try:
        return family.read(config, frozenset(names))
    except KeyError as error:
        raise ValueError(f"{directory / 'config.json'} does not say {error.args[0]!r}") from None


def _dtypes(table: Table, store: Store, names: Mapping[str, str]) -> set[str]:
    """What the weights are stored in; masks and frequencies that stand beside them have no say."""
    return {store.headers[names[row.theirs]].dtype for row in table if row.theirs in names}


def _dtype(asked: torch.dtype | str | None, kinds: set[str]) -> torch.dtype:
    if asked is not None:
        found = getattr(torch, asked, None) if isinstance(asked, str) else asked
        if not isinstance(found, torch.dtype) or found not in FLOATS.values():
            raise ValueError(f"weights are float64, float32, bfloat16 or float16, not {asked}")
        return found
    stored = [kind for kind in FLOATS if kind in kinds]
    return torch.float32 if not stored or stored[0] == "F16" else FLOATS[stored[0]]


def fill(
    model: Any, family: Family, config: Frozen | None, store: Store, names: dict[str, str], dtype: torch.dtype
) -> tuple[Any, Receipt]:
    """A model without memory, with the weights of a store; every tensor accounted for."""
    table, hasher = family.table(config), Hasher()
    unused = account(family, table, store, names)
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    entries = [row for row in table if isinstance(row, Entry)]
    check_cover(entries, shapes)
    for entry in entries:
        check_header(entry, store, names, shapes)
    model = with_room(model, dtype)
    for entry in entries:
        _take(model, entry, store.tensor(names[entry.theirs]), shapes, hasher)
    tied = check_tied(table, store, names)
    check_unused(family, config, store, unused)
    digest = hasher.hexdigest()
    if store.said is not None and store.said != digest:
        raise ValueError(f"the weights in {store.directory} are not those that were saved: their hash has changed")
    stands = str(dtype).removeprefix("torch.")
    family_name, whole = _name_of(family, config), len(entries)
    receipt = Receipt(
        str(store.directory), family_name, whole, whole, tied, unused, (), parameters(model), stands, digest
    )
    return model, receipt


def _name_of(family: Family, config: Any) -> str:
    """Several relatives share one file of this package, and are still called by their own names."""
    return family.name if config is None else config.family


@torch.no_grad()
def _take(model: nn.Module, entry: Entry, theirs: Tensor, shapes: Mapping[str, torch.Size], hasher: Hasher) -> None:
    """One tensor of theirs into our model: the only copy that is made."""
    rows = [shapes[name][0] for name in entry.names]
    for name, part in zip(entry.names, entry.forwards(theirs, rows), strict=True):
        hasher.add(name, part)
        model.get_parameter(name).copy_(part)
