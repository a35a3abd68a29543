"""How a model is called, as far as it says itself; what is told by hand comes first."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from torch import nn

from headway.audit.subject.adapter import Adapter
from headway.audit.subject.foreign import foreign
from headway.audit.subject.own import own
from headway.audit.subject.plain import plain
from headway.audit.subject.pretrained import pretrained
from headway.audit.subject.torch_layers import torch_layer
from headway.audit.subject.trial import checked
from headway.config import nearest


def guessed(model: nn.Module, adapter: Adapter | None, told: Mapping[str, Any]) -> Adapter:
    """The adapter as given, or a guess; `told` are fields that replace what it says.

    >>> guessed(nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 11)), None, {}).vocabulary
    11
    """
    known = [one.name for one in fields(Adapter)]
    for name in told:
        if name not in known:
            raise ValueError(f"an Adapter has no {name!r}{nearest(name, known)}; it has {', '.join(known)}")
    if adapter is not None:
        return checked(model, replace(adapter, **told))
    found = _known(model)
    return checked(model, plain(model, told) if found is None else replace(found, **told))


def _known(model: nn.Module) -> Adapter | None:
    """By the manners of a library; None of a module of one's own."""
    for family in (own, pretrained, foreign, torch_layer):
        found = family(model)
        if found is not None:
            return found
    return None
