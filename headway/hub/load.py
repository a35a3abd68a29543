"""`headway.load`: a model and its tokenizer, with a receipt; of a directory or a run all weights or a refusal."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from headway.config import Frozen
from headway.config.file_errors import errors_of, refusals_of
from headway.config.generation import GenerationDefaults, settings_of
from headway.config.model import ModelConfig
from headway.config.run_files import is_run
from headway.config.weights import WeightsConfig, weights_config
from headway.data.files import read_json, read_optional
from headway.data.gguf_file import is_gguf, read_gguf
from headway.data.shards import tokenizer_hash
from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_gguf import unreadable
from headway.hub.adapter import Merged, is_adapter, merge_adapter
from headway.hub.carried_files import ModelOrigin
from headway.hub.checks import (
    SCALES,
    account,
    canonical_names,
    check_cover,
    check_depth,
    check_header,
    check_stored,
    check_tied,
    check_unused,
)
from headway.hub.family import Entry, Family, Table, family_of
from headway.hub.gguf import gguf_card, load_gguf
from headway.hub.hashes import verify
from headway.hub.hub_id import snapshot_name
from headway.hub.parts import part_names, parts_of
from headway.hub.receipt import Hasher, ModelHash, Receipt, hash_of, model_hash, nonfinite
from headway.hub.safetensors_file import ALIGNMENT
from headway.hub.sentence_modules import MODULES
from headway.hub.store import CHANGED, FLOATS, Store, read_config, tensor_names
from headway.hub.target import Directory, Function, Preset, Target, resolve
from headway.models import build, on_meta, parameters, with_room
from headway.models.model import Model
from headway.models.quantize import quantize_model


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


def open_model(
    target: str | Path,
    *,
    dtype: torch.dtype | str | None = None,
    weights: str | None = None,
    seed: int = 0,
    revision: str | None = None,
    adapter: str | Path | None = None,
) -> OpenModel:
    """The model that a run, a directory, a preset or package.module:function means, in eval mode.

    What a preset configures has random weights; for what a function makes, torch's draws begin at the seed. weights
    ("int8", "int4"): linear maps are stored in fewer bits. An adapter is added to the weights before.

    >>> open_model("bare-block").notes
    ('The weights are random: a preset has none of its own.',)
    """
    scheme = None if weights is None else weights_config(weights)
    found = resolve(target, weights=True, revision=revision)
    if isinstance(found, Directory):
        model, tokenizer, receipt = load_directory(found.path, dtype=dtype, adapter=adapter)
        notes = (f"Weights that are {receipt.warning}.",) if receipt.warning else ()
        opened = OpenModel(model, str(target), "loaded", tokenizer, receipt=receipt, target=found, notes=notes)
    elif adapter is not None:
        raise ValueError(f"an adapter is added to weights on disk, and {target} has none: name a run or a directory")
    else:
        opened = make_model(found, dtype=dtype, seed=seed)
    return opened if scheme is None else _quantized(opened, scheme)


def _quantized(opened: OpenModel, weights: WeightsConfig) -> OpenModel:
    """The same with weights in fewer bits; the receipt's hash stays that of what is on disk."""
    if not isinstance(opened.model, Model) or not isinstance(opened.model.config, ModelConfig):
        raise ValueError(f"{opened.name} is no model of headway's, whose weights alone are stored as {weights}")
    if opened.model.config.weights is not None:
        raise ValueError(
            f"the weights of {opened.name} are stored as {opened.model.config.weights} already: leave weights out, or "
            "take the model that they were made from"
        )
    assert opened.receipt is not None
    receipt = replace(opened.receipt, weights=str(weights))
    return replace(opened, model=quantize_model(opened.model, weights), receipt=receipt)


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
    receipt = Receipt(target.name, str(family), 0, 0, (), (), (), parameters(model), stands)
    return OpenModel(
        model, target.name, "random" if random else "given", beside if isinstance(beside, Tokenizer) else None,
        beside, receipt, target, notes=(RANDOM,) if random else (),
    )  # fmt: skip


RANDOM = "The weights are random: a preset has none of its own."


def load(
    target: str | Path,
    *,
    dtype: torch.dtype | str | None = None,
    weights: str | None = None,
    seed: int = 0,
    revision: str | None = None,
    adapter: str | Path | None = None,
) -> Loaded:
    """A model with its tokenizer: from a run, a directory, the name of a preset, package.module:function, or org/name.

    The last is a model of a hub: in the local cache, else downloaded; `revision` is a branch, a tag or a commit of it.

    Without `dtype` in the one that it is stored in (float16 becomes float32: on a CPU its products are many times
    slower). A preset has sizes and no weights: they are drawn from `seed`, with a warning. weights="int8" or "int4"
    stores the linear maps in fewer bits; a model that was saved so is loaded so. `adapter` is a directory of the
    library peft's, or a run with lora.rank, and is added to the weights: W + (alpha / rank) B A, rounded once. An
    adapter as the target stands for the model that it names with itself added.
    """
    found = open_model(target, dtype=dtype, weights=weights, seed=seed, revision=revision, adapter=adapter)
    if not (found.beside is None or isinstance(found.beside, Tokenizer)):
        raise ValueError(
            f"{target} gives a {type(found.beside).__name__} beside its model: a model, or a model and its tokenizer "
            "is expected"
        )
    if isinstance(found.target, Preset):
        warnings.warn(f"{found.name} is a preset, sizes without weights: they are random", stacklevel=2)
    assert found.receipt is not None
    if found.receipt.warning:
        warnings.warn(f"{found.name}: {found.receipt.warning}", stacklevel=2)
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


def load_directory(
    path: str | Path, *, dtype: torch.dtype | str | None = None, adapter: str | Path | None = None
) -> Loaded:
    """The model of a directory, with the steps behind it where it is a sentence encoder's, or of a GGUF file.

    With an adapter, or of one, the model with the adapter added.
    """
    if adapter is not None:
        return _adapted(load_directory(path, dtype=dtype), directory_of_adapter(adapter))
    if is_adapter(path):
        return _adapted(load_directory(Directory(Path(path)).base.path, dtype=dtype), Path(path))
    if is_gguf(Path(path)):
        return _load_gguf(Path(path), dtype)
    if (Path(path) / MODULES).is_file():
        from headway.hub.sentence import load_sentence

        found = load_sentence(Path(path), dtype)
    else:
        found = load_model(path, dtype=dtype)
    receipt, (verified, unverified) = found.receipt, verify(Path(path))
    words = "" if found.tokenizer is None else tokenizer_hash(found.tokenizer)
    found.model.origin = ModelOrigin.of(found.model, Path(path), words)
    name = snapshot_name(Path(path))
    return found._replace(
        receipt=replace(
            receipt,
            name=name,
            hashes=receipt.hashes.with_meaning(partial(model_hash, config=found.model.config, words=words)),
            verified=(*receipt.verified, *verified),
            unverified=(*receipt.unverified, *unverified),
        )
    )


def directory_of_adapter(adapter: str | Path) -> Path:
    """Where an adapter is: the directory itself, or that of a run."""
    place = Path(adapter).expanduser()
    place = place / "model" if is_run(place) else place
    if not is_adapter(place):
        raise ValueError(f"{adapter} is no adapter: a run with lora.rank, or a directory with adapter_config.json")
    return place


def _adapted(found: Loaded, place: Path) -> Loaded:
    """A model with an adapter added, and what the receipt says of it; its tokenizer comes before the model's."""
    merged = merge_adapter(found.model, place)
    model, tokenizer = found.model, Tokenizer.read(place) or found.tokenizer
    words = "" if tokenizer is None else tokenizer_hash(tokenizer)
    digest, (verified, unverified) = hash_of(model), verify(place)
    model.tokenizer = tokenizer
    model.origin = replace(model.origin, trained=True)
    receipt = replace(
        found.receipt,
        hashes=ModelHash(digest, partial(model_hash, config=model.config, words=words)),
        adapter=str(merged),
        verified=tuple(dict.fromkeys((*found.receipt.verified, *verified))),
        unverified=tuple(dict.fromkeys((*found.receipt.unverified, *unverified))),
    )
    return Loaded(model, tokenizer, receipt)


@dataclass(frozen=True)
class WithoutAdapter:
    """What a model is without the adapter that is switched on: the weights that it changes, tokenizer and origin."""

    weights: dict[str, torch.Tensor]
    tokenizer: Tokenizer | None
    origin: Any


@torch.no_grad()
def switch_adapter(model: Model, adapter: str | Path | None) -> Merged | None:
    """Add an adapter to a model that is loaded, in place of the one that was switched on before; None: no adapter.

    Only the weights that it changes are kept beside it, so that the model comes back bit for bit, and nothing is
    loaded again. The result is that of `load(base, adapter=...)`.
    """
    place = None if adapter is None else directory_of_adapter(adapter)
    _restore(model, model.without_adapter)
    model.without_adapter = None
    if place is None:
        return None
    was = WithoutAdapter({}, model.tokenizer, model.origin)
    try:
        merged = merge_adapter(model, place, before=was.weights)
    except ValueError:
        _restore(model, was)
        raise
    model.without_adapter = was
    model.tokenizer = Tokenizer.read(place) or model.tokenizer
    model.origin = None if model.origin is None else replace(model.origin, trained=True)
    return merged


def _restore(model: Model, was: WithoutAdapter | None) -> None:
    if was is None:
        return
    parts = parts_of(model)
    for name, weight in was.weights.items():
        parts[name].copy_(weight)
    model.tokenizer, model.origin = was.tokenizer, was.origin


def _load_gguf(path: Path, dtype: torch.dtype | str | None) -> Loaded:
    model, receipt = load_gguf(path, torch.float32 if dtype is None else as_dtype(dtype))
    model.tokenizer = Tokenizer.read(path)
    if model.tokenizer is None:
        warnings.warn(f"{path} is loaded without a tokenizer: {unreadable(read_gguf(path).metadata)}", stacklevel=2)
    model.origin = ModelOrigin.of(model, path, about=gguf_card(read_gguf(path)))
    return Loaded(model, model.tokenizer, receipt)


def load_model(path: str | Path, *, dtype: torch.dtype | str | None = None) -> Loaded:
    """The same for a directory that holds one model and no steps behind it."""
    directory = _directory(path)
    config = read_config(directory)
    family = family_of(config, directory / "config.json", partial(tensor_names, directory))
    with Store(directory) as store:
        names = canonical_names(family, store)
        ours = _understood(family, config, names, directory)
        check_depth(ours, store.headers, directory)
        stored = _dtypes(family.table(ours), store, names)
        _ = store.scan  # from here on beside everything else
        tokenizer = Tokenizer.read(directory)
        model, receipt = fill(on_meta(ours), family, ours, store, names, _dtype(dtype, stored))
    model.tokenizer = tokenizer
    if stored and (name := str(stored[0]).removeprefix("torch.")) != receipt.dtype:
        receipt = replace(receipt, stored=name)
    if ours.writes:
        model.generation_defaults = generation_defaults(directory, source=ours.reads == "source")
        receipt = replace(receipt, generation_defaults=model.generation_defaults)
    return Loaded(model.eval(), model.tokenizer, receipt)


def _directory(path: str | Path) -> Path:
    directory = Path(path)
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "does not exist"
        raise ValueError(f"{directory} {what}: a model is a directory with config.json and model.safetensors")
    if not (directory / "config.json").is_file():
        raise ValueError(f"{directory} has no config.json, so nobody can say what its tensors mean")
    return directory


def _understood(family: Family, config: Mapping[str, Any], names: Mapping[str, str], directory: Path) -> ModelConfig:
    with refusals_of(directory / "config.json"):
        return family.read(config, frozenset(names))


def _dtypes(table: Table, store: Store, names: Mapping[str, str]) -> list[torch.dtype]:
    """What the weights are stored in, the most exact first; masks and frequencies beside them have no say."""
    weights = (row.theirs for row in table if row.theirs in names and not row.theirs.endswith(SCALES))
    found = {store.headers[names[name]].dtype for name in weights}
    return [dtype for kind, dtype in FLOATS.items() if kind in found]


def as_dtype(given: torch.dtype | str) -> torch.dtype:
    """A dtype that weights may have."""
    found = getattr(torch, given, None) if isinstance(given, str) else given
    if not isinstance(found, torch.dtype) or found not in FLOATS.values():
        raise ValueError(f"weights are float64, float32, bfloat16 or float16, not {given}")
    return found


def _dtype(given: torch.dtype | str | None, stored: list[torch.dtype]) -> torch.dtype:
    """What they become: float16 is read as float32, in which a CPU computes many times faster."""
    if given is not None:
        return as_dtype(given)
    return torch.float32 if not stored or stored[0] == torch.float16 else stored[0]


def fill(
    model: Any, family: Family, config: Frozen | None, store: Store, names: dict[str, str], dtype: torch.dtype
) -> tuple[Any, Receipt]:
    """A model without memory, with the weights of a store; every tensor accounted for."""
    table = family.table(config)
    unused = account(family, table, store, names)
    expected = parts_of(model)
    shapes = {name: part.shape for name, part in expected.items()}
    counts = {name for name, part in expected.items() if not part.is_floating_point()}  # of a batch norm, say
    entries = [row for row in table if isinstance(row, Entry)]
    check_cover(entries, shapes)
    for entry in entries:
        check_header(entry, store, names, shapes, counts)
    check_stored(model, entries, store, names)
    model = with_room(model, dtype)
    nonfinite_parts, overflowed = _take_weights(model, entries, store, names)
    tied = check_tied(table, store, names)
    check_unused(family, config, store, unused)
    stands = str(dtype).removeprefix("torch.")
    noted, whole = store.written_hash is not None, len(entries)
    receipt = Receipt(
        str(store.directory), _name_of(family, config), whole, whole, tied, unused, (), parameters(model), stands,
        _hashes(model, entries, store, names), verified=("weights",) * noted, unverified=("weights",) * (not noted),
        weights=stored_as(config), nonfinite=nonfinite_parts, overflowed=overflowed,
    )  # fmt: skip
    return model, receipt


LARGE = 2**20  # bytes of a tensor that is mapped wherever it begins
Counts = tuple[tuple[str, int], ...]  # names of parts, and how many of their numbers


@torch.no_grad()
def _take_weights(model: Any, entries: list[Entry], store: Store, names: Mapping[str, str]) -> tuple[Counts, Counts]:
    """Every tensor of theirs into our model; (numbers that are not finite, those that were finite in the file).

    A parameter that is one tensor of the file in its dtype, or the transpose of one, is that part of the mapped file:
    processes that read the same file share the memory, until one writes into it. Others are copied, once; so are small
    ones that are transposed or begin at an odd place, since products with them would differ in their last bits.
    """
    parts, own = parts_of(model), _parameters_by_parts(model)
    for entry in entries:
        theirs = store.tensor(names[entry.theirs])
        whole = own.get(entry.names)
        if whole is not None and whole.dtype == theirs.dtype:
            together = entry.together(theirs, len(entry.names))
            if _can_be_mapped(together):
                whole.data = together
                continue
        for name, part in _parts(entry, theirs, parts):
            parts[name].copy_(part)
    scans = store.scanned()
    kinds = {name: part.dtype for name, part in parts.items()}
    unsure = [
        entry
        for entry in entries
        if not scans[names[entry.theirs]].finite or store.tensor(names[entry.theirs]).dtype != kinds[entry.names[0]]
    ]
    return _count_nonfinite(model, unsure, store, names) if unsure else ((), ())


def _count_nonfinite(model: Any, entries: list[Entry], store: Store, names: Mapping[str, str]) -> tuple[Counts, Counts]:
    parts = parts_of(model)
    nonfinite_parts: list[tuple[str, int]] = []
    overflowed: list[tuple[str, int]] = []
    for entry in entries:
        for name, part in _parts(entry, store.tensor(names[entry.theirs]), parts):
            if count := nonfinite(parts[name]):
                (nonfinite_parts if nonfinite(part) else overflowed).append((name, count))
    return tuple(nonfinite_parts), tuple(overflowed)


def _can_be_mapped(part: Tensor) -> bool:
    if part.nbytes >= LARGE:
        return part.is_contiguous() or (part.ndim == 2 and part.t().is_contiguous())
    return part.is_contiguous() and part.data_ptr() % ALIGNMENT == 0


def _parts(entry: Entry, theirs: Tensor, ours: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The parts that one tensor of theirs is, as views of it."""
    rows = [len(ours[name]) if ours[name].ndim else 1 for name in entry.names]  # a buffer may be a single number
    yield from zip(entry.names, entry.forwards(theirs, rows), strict=True)


def _parameters_by_parts(model: Any) -> dict[tuple[str, ...], Tensor]:
    """Parameters and buffers by the names that files have for their parts."""
    names = part_names(model)
    return {tuple(names[name]): tensor for name, tensor in (*model.named_parameters(), *model.named_buffers())}


def _hashes(model: Any, entries: list[Entry], store: Store, names: Mapping[str, str]) -> ModelHash:
    """The hash of the weights as stored: now where they can be compared by it alone, else when somebody asks."""
    parts = parts_of(model)
    if store.written_hash is not None and not store.has_content_hash:
        if (digest := _hash_of_tensors(store, entries, names, parts)) != store.written_hash:
            raise ValueError(CHANGED.format(store.directory))
        return ModelHash(digest)
    shapes = {name: torch.empty(part.shape, device="meta") for name, part in parts.items()}
    directory, files, noted = store.directory, store.files, store.written_hash

    def read_again() -> str:
        if _files_of(directory) != files:
            if noted is not None:  # the writer's, which the hash of the bytes covered
                return noted
            raise ValueError(f"the weights in {directory} have changed since they were loaded: their hash is not known")
        with Store(directory) as again:
            digest = _hash_of_tensors(again, entries, names, shapes)
        if digest != (noted or digest):
            raise ValueError(f"the weights in {directory} are not those that their hash was noted for")
        return digest

    return ModelHash(read_again)


def _files_of(directory: Path) -> dict[str, tuple[int, ...]]:
    try:
        with Store(directory) as store:
            return store.files
    except ValueError:
        return {}


def _hash_of_tensors(store: Store, entries: list[Entry], names: Mapping[str, str], parts: Mapping[str, Tensor]) -> str:
    hasher = Hasher()
    for entry in entries:
        for name, part in _parts(entry, store.tensor(names[entry.theirs]), parts):
            # Ours lies in one piece, also where theirs is transposed.
            ready = parts[name].dtype == part.dtype and not parts[name].is_meta
            hasher.add(name, parts[name] if ready else part)
    return hasher.hexdigest()


def stored_as(config: Any) -> str:
    """int8 or int4, of a model whose linear maps are stored so."""
    return "" if not isinstance(config, ModelConfig) or config.weights is None else str(config.weights)


def _name_of(family: Family, config: Any) -> str:
    """Several relatives share one file of this package, and are still called by their own names."""
    return family.name if config is None else config.family


def generation_defaults(directory: Path, *, source: bool) -> GenerationDefaults | None:
    """From generation_config.json; from config.json, where older directories say it, if there is none."""
    with errors_of(directory / "generation_config.json"):
        said = read_optional(directory / "generation_config.json")
        said = said or settings_of(read_json(directory / "config.json"))
        return GenerationDefaults.read(said, source=source) if said else None
