"""Which attention of somebody else's model is which: told by the names of its modules."""

import re

from torch import nn

from headway.look.reading.sample import Known, Place

CROSS = re.compile(r"encoder_attn|encdecattention|cross_?attention|cross_?attn|\bcross\b|multihead_attn|src_attn", re.I)
SOURCE, TARGET = 0, 1
_ONE_WAY = ("is_causal", "is_decoder", "causal")


def where(model: nn.Module, attention: Known, *, both: bool) -> Place:
    """`both`: it reads a source and a target, and its modules say which of them they are for."""
    if not both:
        return Place("decoder" if one_way(model, attention.name) else "encoder")
    parts = attention.name.lower().split(".")
    if CROSS.search(attention.name):
        return Place("cross", TARGET, SOURCE)
    if any(part.startswith("decoder") for part in parts):
        return Place("decoder", TARGET, TARGET)
    return Place("encoder")


def one_way(model: nn.Module, name: str) -> bool:
    """Whether the module, or the nearest one around it that says anything, reads from left to right."""
    parts = name.split(".") if name else []
    for end in range(len(parts), 0, -1):
        holder = _module(model, ".".join(parts[:end]))
        for flag in _ONE_WAY:
            if isinstance(found := getattr(holder, flag, None), bool):
                return found
    return getattr(getattr(model, "config", None), "is_decoder", False) is True


def reads_one_way(model: nn.Module) -> bool:
    """Whether any part of it says that it reads from left to right."""
    parts = (*model.modules(), getattr(model, "config", None))
    return any(getattr(part, flag, None) is True for part in parts for flag in _ONE_WAY)


def _module(model: nn.Module, name: str) -> nn.Module | None:
    try:
        return model.get_submodule(name)
    except AttributeError:
        return None
