"""A family: how one kind of model is laid out on disk, how to tell it, and its key table.

The table has their names beside ours, and is read forwards to import and backwards to export.

>>> [entry.theirs for entry in expand([Entry("h.{i}.ln.weight", "blocks.{i}.norm.weight")], i=range(2))]
['h.0.ln.weight', 'h.1.ln.weight']
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

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
    "olmo2": "headway.hub.families.olmo2",
    "phi3": "headway.hub.families.phi3",
    "gemma2": "headway.hub.families.gemma",
    "gemma3_text": "headway.hub.families.gemma",
    "gpt_neox": "headway.hub.families.gpt_neox",
    "opt": "headway.hub.families.opt",
    "bert": "headway.hub.families.bert",
    "roberta": "headway.hub.families.roberta",
    "xlm-roberta": "headway.hub.families.roberta",
    "camembert": "headway.hub.families.roberta",
    "distilbert": "headway.hub.families.distilbert",
    "electra": "headway.hub.families.electra",
    "albert": "headway.hub.families.albert",
    "mpnet": "headway.hub.families.mpnet",
    "modernbert": "headway.hub.families.modernbert",
    "t5": "headway.hub.families.t5",
    "mt5": "headway.hub.families.t5",
    "bart": "headway.hub.families.bart",
    "marian": "headway.hub.families.bart",
    "mbart": "headway.hub.families.bart",
    "pegasus": "headway.hub.families.bart",
    "m2m_100": "headway.hub.families.bart",
    "vit": "headway.hub.families.vit",
    "deit": "headway.hub.families.vit",
    "dinov2": "headway.hub.families.dinov2",
    "clip": "headway.hub.families.clip",
    "siglip": "headway.hub.families.clip",
    "davit": "headway.hub.families.davit",
}


@dataclass(frozen=True)
class Entry:
    """One tensor of theirs and what it is in our model.

    A tuple: theirs is ours, one below the other along the first axis. turned: theirs is the transpose of that. heads:
    theirs has the rows of a tuple head by head, of each head those of all of ours. leading: so many axes of size 1
    before all others, which theirs lacks.
    """

    theirs: str
    ours: str | tuple[str, ...]
    turned: bool = False
    heads: int = 1
    leading: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return (self.ours,) if isinstance(self.ours, str) else self.ours

    def named(self, **numbers: int) -> "Entry":
        """The same with placeholders filled."""
        ours = tuple(name.format(**numbers) for name in self.names)
        named = ours[0] if isinstance(self.ours, str) else ours
        return replace(self, theirs=self.theirs.format(**numbers), ours=named)

    def shape(self, ours: Sequence[torch.Size]) -> tuple[int, ...]:
        """The shape of theirs, from those of ours."""
        whole = (sum(shape[0] for shape in ours), *ours[0][1:]) if len(ours) > 1 else tuple(ours[0])
        return (whole[::-1] if self.turned else whole)[self.leading :]

    def forwards(self, theirs: Tensor, rows: Sequence[int]) -> list[Tensor]:
        """Ours, as views of theirs where they can be; `rows` is the first size of each."""
        whole = self.together(theirs, len(rows))
        return list(whole.split(list(rows))) if len(rows) > 1 else [whole]

    def together(self, theirs: Tensor, parts: int) -> Tensor:
        """All of ours, one below the other."""
        whole = theirs.t() if self.turned else theirs[(None,) * self.leading] if self.leading else theirs
        if self.heads > 1:  # heads x parts x rows of a head -> parts x heads x rows of a head
            whole = whole.unflatten(0, (self.heads, parts, -1)).transpose(0, 1).flatten(0, 2)
        return whole

    def backwards(self, ours: Sequence[Tensor]) -> Tensor:
        """Theirs."""
        whole = torch.cat(list(ours)) if len(ours) > 1 else ours[0]
        if self.heads > 1:
            whole = whole.unflatten(0, (len(ours), self.heads, -1)).transpose(0, 1).flatten(0, 2)
        whole = whole.reshape(whole.shape[self.leading :]) if self.leading else whole
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


def _nothing(config: Any) -> dict[str, Tensor]:
    return {}


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
    written: Callable[[Any], dict[str, Tensor]] = _nothing  # tensors without weights that others miss in a file
    omitted_options: tuple[
        str, ...
    ] = ()  # settings that the layout has no word for, and that do not change what is computed


def family_of(config: Mapping[str, Any], where: object, tensors: Callable[[], Collection[str]] = tuple) -> Family:
    """The family that a config.json belongs to; an unknown one is refused with what it is.

    `tensors` gives the names in its files: another family is named only if it would read all of them.
    """
    kind = str(config.get("model_type") or str(config.get("architecture", "")).split("_")[0])
    if not kind:
        raise ValueError(f"{where} names no model_type, so nobody can say what its tensors mean")
    if kind in FAMILIES:
        return family_named(kind)
    near = _reader(kind, config, tensors)
    hint = f"did you mean {near}, which would load it?" if near else ""
    what = "; ".join(filter(None, (", ".join(filter(None, (_class_of(config), _nature(config)))), hint)))
    raise ValueError(f"{_unknown(kind)}{f' ({what})' if what else ''}; it reads {', '.join(FAMILIES)}")


def family_named(kind: str) -> Family:
    if kind not in FAMILIES:
        raise ValueError(f"{_unknown(kind)}; it reads {', '.join(FAMILIES)}")
    return import_module(FAMILIES[kind]).FAMILY


def _unknown(kind: str) -> str:
    return f"headway knows no architecture {kind[:100]!r}"


def _class_of(config: Mapping[str, Any]) -> str:
    said = config.get("architectures")
    return said[0][:100] if isinstance(said, list) and said and isinstance(said[0], str) else ""


# Words in the keys of a config.json -> what a model with them is.
NATURES = {
    "experts": "a mixture of experts", "state_size": "a state-space model", "ssm": "a state-space model",
    "mamba": "a state-space model", "vision_config": "a model of pictures and text", "audio": "a model of sound",
    "mel_bins": "a model of sound",
}  # fmt: skip


def _nature(config: Mapping[str, Any]) -> str:
    """What kind of model the keys of a config.json speak of, where they speak of one that no family here is.

    >>> _nature({"num_local_experts": 8}), _nature({"num_experts": None})
    ('a mixture of experts', '')
    """
    said = [key for key, value in config.items() if value]
    return next((nature for word, nature in NATURES.items() if any(word in key for key in said)), "")


def _reader(kind: str, config: Mapping[str, Any], tensors: Callable[[], Collection[str]]) -> str | None:
    """The family of the nearest name, if it understands the config.json and each of the tensors, and lacks none."""
    found = get_close_matches(kind[:100], FAMILIES, n=1)
    if not found or not (stored := tensors()):
        return None
    family = family_named(found[0])
    names = frozenset(map(family.canonical, stored))
    try:
        table = family.table(family.read({**config, "model_type": found[0]}, names))
    except Exception:  # a config.json of another family may say anything
        return None
    needed = {row.theirs for row in table if isinstance(row, Entry)}
    known = {row.theirs for row in table}
    rest = [name for name in names - known if not any(re.fullmatch(one, name) for one in family.ignored)]
    return found[0] if needed <= names and not rest else None
