"""What is known of a model without loading it: its tree, its layout, its size on disk and in memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from torch import nn

from headway.config.text import SentenceConfig
from headway.data.gguf_file import read_gguf
from headway.hub.checks import use_other_names
from headway.hub.family import Entry, Tied, family_named
from headway.hub.gguf import gguf_bytes
from headway.hub.parts import parts_of
from headway.hub.store import FLOATS, Store
from headway.hub.target import Directory, Function, Target, built, resolve
from headway.models.outline import Node, outline
from headway.models.quantize import weight_bytes

WHOLE = {"I8": "int8", "U8": "int4"}  # quantised weights; two of 4 bits are one byte
BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Description:
    """A target in numbers; `notes` say what is wrong with it."""

    name: str
    kind: str
    family: str | None  # None where a function made a model of its own
    tree: Node
    tied: dict[str, str]  # names on disk of one tensor: the second -> the first
    stored: dict[str, int] | None  # bytes on disk by dtype; None where there are no weights
    notes: tuple[str, ...] = ()
    quantised: dict[str, int] | None = None  # bytes in memory, where the weights of maps are quantised

    @property
    def memory(self) -> dict[str, int]:
        """Bytes in memory by dtype; of quantised weights as they are stored."""
        if self.quantised is not None:
            return self.quantised
        return {dtype: size * self.tree.parameters for dtype, size in BYTES.items()}

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "family": self.family,
            "parameters": self.tree.parameters,
            "memory": self.memory,
            "stored": self.stored,
            "tied": self.tied,
            "notes": list(self.notes),
            "tree": self.tree.as_json(),
        }


def describe(text: str) -> Description:
    """The description of a target; nothing is allocated.

    >>> describe("gpt2").memory["float32"]
    497759232
    """
    target = resolve(text)
    model = built(target)
    tree = outline(model, name=target.path.resolve().name if isinstance(target, Directory) else text)
    if isinstance(target, Function):
        return Description(text, tree.kind, None, tree, {}, None)
    config, inner = target.config, _inner(target.config)
    tied = {row.theirs: row.same_as for row in family_named(inner.family).table(inner) if isinstance(row, Tied)}
    whole = None if config.weights is None else {f"{config.weights} and float32": weight_bytes(model)}
    return Description(text, config.kind, config.family, tree, tied, *_on_disk(target, model), quantised=whole)


def _inner(config: Any) -> Any:
    """Whose tensors the layout names: a sentence encoder's are those of the model in it."""
    return config.encoder if isinstance(config, SentenceConfig) and config.family == "sentence" else config


def _on_disk(target: Target, model: nn.Module) -> tuple[dict[str, int] | None, tuple[str, ...]]:
    """Bytes by dtype, and what is wrong with them."""
    if not isinstance(target, Directory):
        return None, ()
    target = target.base
    if target.gguf:
        return gguf_bytes(read_gguf(target.path)), ()
    if not target.weights:
        return None, (f"{target.path} holds no safetensors; these are the sizes of its config.json",)
    stored: dict[str, int] = {}
    for folder in (target.folder, *(path for name, path in target.steps.items() if name == "Dense")):
        with Store(folder) as store:
            _add_sizes(stored, store)
    with Store(target.folder) as store:
        inner = _inner(target.config)
        wrong = list(_wrong(inner, model if inner is target.config else model.get_submodule("encoder"), store))
    more = f" (and {len(wrong) - 1} more tensors)" if len(wrong) > 1 else ""
    return stored, (f"{target.path} cannot be loaded: {wrong[0]}{more}",) if wrong else ()


def _add_sizes(stored: dict[str, int], store: Store) -> None:
    for header in store.headers.values():
        if header.dtype in FLOATS:
            name = str(FLOATS[header.dtype]).removeprefix("torch.")
            stored[name] = stored.get(name, 0) + BYTES[name] * prod(header.shape)
        elif header.dtype in WHOLE:
            name = WHOLE[header.dtype]
            stored[name] = stored.get(name, 0) + prod(header.shape)


def _wrong(config: Any, model: nn.Module, store: Store) -> Iterator[str]:
    """Tensors of the layout that are not in the files, or not in their shape."""
    family, shapes = family_named(config.family), {name: x.shape for name, x in parts_of(model).items()}
    held = {family.canonical(name): header.shape for name, header in store.headers.items()}
    use_other_names(family.table(config), held)
    for row in family.table(config):
        if isinstance(row, Entry):
            expected = row.shape([shapes[name] for name in row.names])
            if row.theirs not in held:
                yield f"{row.theirs!r} is missing"
            elif held[row.theirs] != expected:
                yield f"{row.theirs!r} has shape {held[row.theirs]}, and config.json makes it {expected}"
