"""`headway.load`: a model and its tokenizer, with a receipt; of a directory or a run all weights or a refusal."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from headway.config import Frozen
from headway.data.files import read_json, read_optional
from headway.data.tokenizer import Tokenizer
from headway.hub.checks import account, canonical_names, check_cover, check_header, check_tied, check_unused
from headway.hub.family import Entry, Family, Table, family_of
from headway.hub.parts import parts_of
from headway.hub.receipt import Hasher, Receipt
from headway.hub.sentence_modules import MODULES
from headway.hub.store import FLOATS, Store, read_config
from headway.hub.target import Directory, Function, Preset, Target, resolve
from headway.models import build, on_meta, parameters, with_room
from headway.models.model import Model


class Loaded(NamedTuple):
    """`model, tokenizer, receipt = headway.load(path)`; the tokenizer is None where the directory has none."""

    model: Model
    tokenizer: Tokenizer | None
    receipt: Receipt


@dataclass(frozen=True)
class OpenModel:
    """What a target means, as every verb that runs a model gets it.

    `weights` are loaded (of a directory or a run), random (of a configuration), or given (by a function of one's own,
    or by whoever passes a module: then there is no target). `beside` is what a function returned beside its model.
    """

    model: Any
    name: str
    weights: Literal["loaded", "random", "given"] = "given"
    tokenizer: Any = None
    beside: Any = None
    receipt: Receipt | None = None
    target: Target | None = None
    notes: tuple[str, ...] = ()

    @property
    def run(self) -> Path | None:
        """The run of `headway train` that the model comes from."""
        return self.target.run if isinstance(self.target, Directory) else None

    @property
    def title(self) -> str:
        """The name as it was typed; of an absolute path the end, since pages are given to others.

        >>> OpenModel(None, "runs/first").title, OpenModel(None, "/home/me/models/bert").title
        ('runs/first', 'models/bert')
        """
        path = Path(self.name)
        return "/".join(path.parts[-2:]) if path.is_absolute() else self.name


def open_model(target: str | Path, *, dtype: torch.dtype | str | None = None, seed: int = 0) -> OpenModel:
    """The model that a run, a directory, a preset or package.module:function means, in eval mode.

    What a preset configures has random weights; for what a function makes, torch's draws begin at the seed.

    >>> open_model("bare-block").notes
    ('The weights are random: a preset has none of its own.',)
    """
    found = resolve(target)
    if isinstance(found, Directory):
        model, tokenizer, receipt = load_directory(found.path, dtype=dtype)
        return OpenModel(model, str(target), "loaded", tokenizer, receipt=receipt, target=found)
    return make_model(found, dtype=dtype, seed=seed)


def make_model(target: Preset | Function, *, dtype: torch.dtype | str | None = None, seed: int = 0) -> OpenModel:
    """The same of a target that has no weights on disk."""
    made = target.config if isinstance(target, Preset) else target.made(seed)
    model, beside = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    kind = None if dtype is None else as_dtype(dtype)
    random = isinstance(model, Frozen)
    if isinstance(model, Frozen):
        model = build(model, seed=seed, dtype=kind or torch.float32).eval()
    elif not isinstance(model, nn.Module):
        raise ValueError(f"{target.name} gives a {type(made).__name__}: a model or its configuration is expected")
    elif kind is not None:
        model = model.to(kind)
    family = getattr(getattr(model, "config", None), "family", None) or type(model).__name__
    stands = str(next((p.dtype for p in model.parameters()), torch.float32)).removeprefix("torch.")
    receipt = Receipt(target.name, str(family), 0, 0, (), (), (), parameters(model), stands, "")
    return OpenModel(
        model, target.name, "random" if random else "given", beside if isinstance(beside, Tokenizer) else None,
        beside, receipt, target, notes=(RANDOM,) if random else (),
    )  # fmt: skip


RANDOM = "The weights are random: a preset has none of its own."


def load(target: str | Path, *, dtype: torch.dtype | str | None = None, seed: int = 0) -> Loaded:
    """A model with its tokenizer: from a run, a directory, the name of a preset, or package.module:function.

    Without `dtype` in the one that it is stored in (float16 becomes float32: on a CPU its products are many times
    slower). A preset has sizes and no weights: they are drawn from `seed`, with a warning.
    """
    found = open_model(target, dtype=dtype, seed=seed)
    if not (found.beside is None or isinstance(found.beside, Tokenizer)):
        raise ValueError(
            f"{target} gives a {type(found.beside).__name__} beside its model: a model, or a model and its tokenizer "
            "is expected"
        )
    if isinstance(found.target, Preset):
        warnings.warn(f"{found.name} is a preset, sizes without weights: they are random", stacklevel=2)
    assert found.receipt is not None
    return Loaded(found.model, found.tokenizer, found.receipt)


def with_tokenizer(model: Any, tokenizer: Tokenizer | None = None) -> tuple[Any, Tokenizer | None]:
    """A model and how it reads text: the tokenizer given, or the one it was loaded with. A name or path is loaded."""
    if isinstance(model, str | Path):
        model = load(model).model
    elif isinstance(model, Loaded):
        model, tokenizer = model.model, tokenizer or model.tokenizer
    return model, getattr(model, "tokenizer", None) if tokenizer is None else tokenizer


def called(model: Any) -> str:
    """How a sentence names a model that was given: by its path, where it has one."""
    return str(model) if isinstance(model, str | Path) else "this"


def load_directory(path: str | Path, *, dtype: torch.dtype | str | None = None) -> Loaded:
    """The model of a directory, with the steps behind it where it is a sentence encoder's."""
    if (Path(path) / MODULES).is_file():
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
    model.tokenizer = Tokenizer.read(directory)
    return Loaded(model.eval(), model.tokenizer, replace(receipt, generation_settings=unfollowed_settings(directory)))


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


def as_dtype(unfollowed_settings: torch.dtype | str) -> torch.dtype:
    """A dtype that weights may have."""
    found = getattr(torch, unfollowed_settings, None) if isinstance(unfollowed_settings, str) else unfollowed_settings
    if not isinstance(found, torch.dtype) or found not in FLOATS.values():
        raise ValueError(f"weights are float64, float32, bfloat16 or float16, not {unfollowed_settings}")
    return found


def _dtype(unfollowed_settings: torch.dtype | str | None, kinds: set[str]) -> torch.dtype:
    if unfollowed_settings is not None:
        return as_dtype(unfollowed_settings)
    stored = [kind for kind in FLOATS if kind in kinds]
    return torch.float32 if not stored or stored[0] == "F16" else FLOATS[stored[0]]


def fill(
    model: Any, family: Family, config: Frozen | None, store: Store, names: dict[str, str], dtype: torch.dtype
) -> tuple[Any, Receipt]:
    """A model without memory, with the weights of a store; every tensor accounted for."""
    table, hasher = family.table(config), Hasher()
    unused = account(family, table, store, names)
    shapes = {name: part.shape for name, part in parts_of(model).items()}
    counts = {name for name, part in parts_of(model).items() if not part.is_floating_point()}  # of a batch norm, say
    entries = [row for row in table if isinstance(row, Entry)]
    check_cover(entries, shapes)
    for entry in entries:
        check_header(entry, store, names, shapes, counts)
    model = with_room(model, dtype)
    parts = parts_of(model)
    for entry in entries:
        _take(parts, entry, store.tensor(names[entry.theirs]), hasher)
    tied = check_tied(table, store, names)
    check_unused(family, config, store, unused)
    digest = hasher.hexdigest()
    if store.written_hash is not None and store.written_hash != digest:
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
def _take(parts: Mapping[str, Tensor], entry: Entry, theirs: Tensor, hasher: Hasher) -> None:
    """One tensor of theirs into our model: the only copy that is made."""
    rows = [len(parts[name]) if parts[name].ndim else 1 for name in entry.names]  # a buffer may be a single number
    for name, part in zip(entry.names, entry.forwards(theirs, rows), strict=True):
        hasher.add(name, part)
        parts[name].copy_(part)


# Their word -> the setting with which it changes nothing.
NEUTRAL_SETTINGS: dict[str, Any] = {
    "num_beams": 1, "num_beam_groups": 1, "length_penalty": 1.0, "early_stopping": False, "min_length": 0,
    "min_new_tokens": None, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0, "diversity_penalty": 0.0, "penalty_alpha": None, "suppress_tokens": None,
    "begin_suppress_tokens": None, "forced_decoder_ids": None, "sequence_bias": None, "guidance_scale": None,
    "exponential_decay_length_penalty": None, "renormalize_logits": False, "do_sample": False,
}  # fmt: skip
NEUTRAL_SAMPLING: dict[str, Any] = {"temperature": 1.0, "top_k": None, "top_p": 1.0, "min_p": None, "typical_p": 1.0}


def unfollowed_settings(directory: Path) -> tuple[str, ...]:
    """From generation_config.json; from config.json, where older directories say it, if there is none."""
    return unfollowed(read_optional(directory / "generation_config.json") or read_json(directory / "config.json"))


def unfollowed(said: Mapping[str, Any]) -> tuple[str, ...]:
    """Each setting that would change what is decoded; how to draw matters only to those who draw.

    >>> unfollowed({"num_beams": 4, "min_length": 0, "temperature": 0.6, "do_sample": False})
    ('num_beams=4',)
    """
    plain = NEUTRAL_SETTINGS | (NEUTRAL_SAMPLING if said.get("do_sample") else {})
    return tuple(f"{key}={said[key]}" for key, value in plain.items() if said.get(key, value) not in (value, None, []))
