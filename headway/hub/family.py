"""A family: how one kind of model is laid out on disk, and how to tell it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from torch import Tensor

from headway.config import nearest
from headway.hub.table import Table

# model_type of config.json -> the file that holds its FAMILY.
FAMILIES = {
    "headway": "headway.hub.families.own",
    "gpt2": "headway.hub.families.gpt2",
    "llama": "headway.hub.families.llama",
    "mistral": "headway.hub.families.llama",
    "qwen2": "headway.hub.families.llama",
    "bert": "headway.hub.families.bert",
    "t5": "headway.hub.families.t5",
    "bart": "headway.hub.families.bart",
    "marian": "headway.hub.families.bart",
    "vit": "headway.hub.families.vit",
    "deit": "headway.hub.families.vit",
    "davit": "headway.hub.families.davit",
}


def _same(name: str) -> str:
    return name


def _as_named(name: str, config: Any) -> str:
    return name


def _unread(name: str, config: Any) -> None:
    return None


@dataclass(frozen=True)
class Family:
    """One layout: its configuration and its key table, each in both directions."""

    name: str
    read: Callable[[Mapping[str, Any], frozenset[str]], Any]  # config.json and the tensors' names -> our config
    write: Callable[[Any], dict[str, Any]]  # and back
    table: Callable[[Any], Table]
    model_types: tuple[str, ...] = ()
    canonical: Callable[[str], str] = _same  # legacy or prefix-less names -> those of the table
    ignored: tuple[str, ...] = ()  # patterns of tensors that hold no weights
    exported: Callable[[str, Any], str] = _as_named  # where a saved name differs from the table's
    remade: Callable[[str, Any], Tensor | None] = _unread  # what one that holds no weights must be, if anyone reads it
    unsaid: tuple[str, ...] = ()  # settings that the layout has no word for, and that do not change what is computed


def family_of(config: Mapping[str, Any], where: object) -> Family:
    """The family that a config.json belongs to; an unknown one is refused."""
    kind = config.get("model_type") or str(config.get("architecture", "")).split("_")[0]
    if not kind:
        raise ValueError(f"{where} names no model_type, so nobody can say what its tensors mean")
    return family_named(str(kind))


def family_named(kind: str) -> Family:
    if kind not in FAMILIES:
        raise ValueError(
            f"headway knows no architecture {kind!r}{nearest(kind, FAMILIES)}; it reads {', '.join(FAMILIES)}"
        )
    return import_module(FAMILIES[kind]).FAMILY
