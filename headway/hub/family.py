"""A family: how one kind of model is laid out on disk, how to tell it, and its key table.

The table has their names beside ours, and is read forwards to import and backwards to export.

>>> [entry.theirs for entry in expand([Entry("h.{i}.ln.weight", "blocks.{i}.norm.weight")], i=range(2))]
['h.0.ln.weight', 'h.1.ln.weight']
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from headway.config import nearest

# model_type of config.json -> the file that holds its FAMILY.
FAMILIES = {
    "headway": "headway.hub.families.own",
    "gpt2": "headway.hub.families.gpt2",
    "llama": "headway.hub.families.llama",
    "mistral": "headway.hub.families.llama",
    "qwen2": "headway.hub.families.llama",
    "qwen3": "headway.hub.families.llama",
    "granite": "headway.hub.families.llama",
    "smollm3": "headway.hub.families.llama",
    "bert": "headway.hub.families.bert",
    "roberta": "headway.hub.families.roberta",
    "xlm-roberta": "headway.hub.families.roberta",
    "camembert": "headway.hub.families.roberta",
    "distilbert": "headway.hub.families.distilbert",
    "electra": "headway.hub.families.electra",
    "mpnet": "headway.hub.families.mpnet",
    "t5": "headway.hub.families.t5",
    "bart": "headway.hub.families.bart",
    "marian": "headway.hub.families.bart",
    "vit": "headway.hub.families.vit",
    "deit": "headway.hub.families.vit",
    "davit": "headway.hub.families.davit",
}


@dataclass(frozen=True)
class Entry:
    """One tensor of theirs and what it is in our model.

    A tuple: theirs is ours, one below the other along the first axis. turned: theirs is the transpose of that.
    """

    theirs: str
    ours: str | tuple[str, ...]
    turned: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.ours,) if isinstance(self.ours, str) else self.ours

    def named(self, **numbers: int) -> "Entry":
        """The same with placeholders filled."""
        ours = tuple(name.format(**numbers) for name in self.names)
        return Entry(self.theirs.format(**numbers), ours[0] if isinstance(self.ours, str) else ours, self.turned)

    def shape(self, ours: Sequence[torch.Size]) -> tuple[int, ...]:
        """The shape of theirs, from those of ours."""
        whole = (sum(shape[0] for shape in ours), *ours[0][1:]) if len(ours) > 1 else tuple(ours[0])
        return whole[::-1] if self.turned else whole

    def forwards(self, theirs: Tensor, rows: Sequence[int]) -> list[Tensor]:
        """Ours, as views of theirs; `rows` is the first size of each."""
        whole = theirs.t() if self.turned else theirs
        return list(whole.split(list(rows))) if len(rows) > 1 else [whole]

    def backwards(self, ours: Sequence[Tensor]) -> Tensor:
        """Theirs."""
        whole = torch.cat(list(ours)) if len(ours) > 1 else ours[0]
        return whole.t().contiguous() if self.turned else whole.contiguous()


@dataclass(frozen=True)
class Tied:
    """A second name of theirs for a tensor of the table: may be absent, must be equal where present, is not written."""

    theirs: str
    same_as: str

    def named(self, **numbers: int) -> "Tied":
        return Tied(self.theirs.format(**numbers), self.same_as.format(**numbers))


Table = list[Entry | Tied]


def expand(literal: Iterable[Entry | Tied], **ranges: range) -> Table:
    """The table for every value of one placeholder; without one, the table as it is."""
    if not ranges:
        return list(literal)
    ((name, values),) = ranges.items()
    rows = list(literal)
    return [row.named(**{name: value}) for value in values for row in rows]


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
    omitted_options: tuple[
        str, ...
    ] = ()  # settings that the layout has no word for, and that do not change what is computed


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
