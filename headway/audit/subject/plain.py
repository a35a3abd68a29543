"""Anybody's module: what it reads is found by calling it, its masks and positions by their names.

A guess may be wrong; each that is not certain is told in a sentence.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import torch
from torch import nn

from headway.audit.subject.adapter import Adapter
from headway.audit.subject.inputs import inputs_of
from headway.audit.subject.sessions import decoding
from headway.audit.subject.signature import (
    MASKS,
    POSITIONS,
    SOURCE_MASKS,
    SOURCES,
    TARGET_MASKS,
    TARGETS,
    Signature,
    reads_one_way,
)
from headway.audit.subject.trial import longest_of, quietly, run_of, works

FIELDS = frozenset(one.name for one in fields(Adapter))


def plain(model: nn.Module, told: Mapping[str, Any]) -> Adapter:
    """The adapter of any module; a ValueError that names a field to give where nothing helps.

    What was told is part of every call that a guess is tried by.
    """
    signature = Signature(model)
    found = inputs_of(model, replace(_started(signature), **told), told)
    if found.call is None:
        found = _masked(model, found, signature, told)
        found = _placed(model, found, signature, told)
    if "longest" not in told:
        found = replace(found, longest=longest_of(model, found))
    return _claimed(model, _cached(found, signature, told), told)


def _started(signature: Signature) -> Adapter:
    """Which parameters are what it reads."""
    needed = signature.required
    if signature.has("input_ids", "decoder_input_ids"):
        return Adapter(source="input_ids", argument="decoder_input_ids")
    if len(needed) == 2 and needed[0] in SOURCES and needed[1] in TARGETS:
        return Adapter(source=needed[0], argument=needed[1])
    return Adapter()


def _noted(adapter: Adapter, sentence: str) -> Adapter:
    return replace(adapter, notes=(*adapter.notes, sentence))


def _masked(model: nn.Module, found: Adapter, signature: Signature, told: Mapping[str, Any]) -> Adapter:
    """A mask by its name, in the type of numbers that goes through."""
    if found.inputs == "images" or "mask" in told:
        return found
    name = signature.first_of(MASKS if found.source is None else TARGET_MASKS)
    if name is None:
        return found
    hides = told.get("hides", (MASKS | TARGET_MASKS)[name])
    named = replace(found, mask=name, hides=hides, source_mask=_source_mask(found, signature, hides))
    for kind in [told["mask_type"]] if "mask_type" in told else _types(name):
        tried = replace(named, mask_type=kind)
        if works(model, tried, keep=_all_but_one(found), items=3):
            means = "ignore" if tried.hides else "real"
            return _noted(tried, f"`{name}` is taken for a mask of tokens whose True means {means}.")
    return _noted(found, f"`{name}` takes no truth for each token (B L), so it is left out; a `call` can say more.")


def _source_mask(found: Adapter, signature: Signature, hides: bool) -> str | None:
    """The name of the same for the source, where its True means the same."""
    names = [name for name, other in SOURCE_MASKS.items() if other == hides and signature.has(name)]
    return names[0] if found.source is not None and names else None


def _types(name: str) -> tuple[str, ...]:
    return ("long", "bool", "float") if name.endswith("attention_mask") else ("bool", "long", "float")


def _all_but_one(found: Adapter) -> torch.Tensor:
    keep = torch.ones(3, max(5, found.shortest), dtype=torch.bool)
    keep[1, -1] = False
    return keep


def _placed(model: nn.Module, found: Adapter, signature: Signature, told: Mapping[str, Any]) -> Adapter:
    """Positions by their name, where they go through."""
    name = signature.first_of(POSITIONS)
    if found.inputs == "images" or "positions" in told or name is None:
        return found
    tried = replace(found, positions=name)
    places = torch.arange(max(5, found.shortest)).repeat(2, 1)
    return tried if works(model, tried, positions=places) else found


def _cached(found: Adapter, signature: Signature, told: Mapping[str, Any]) -> Adapter:
    """Those who take a cache by the usual names are read with one."""
    usual = signature.has("input_ids", "past_key_values", "use_cache")
    if "session" in told or not usual or found.source is not None:
        return found
    return replace(found, session=decoding())


def _claimed(model: nn.Module, found: Adapter, told: Mapping[str, Any]) -> Adapter:
    """Whether it reads one way: as its names say, else as logits for each position suggest."""
    if "causal" in told or found.inputs == "images":
        return found
    said = True if found.source is not None else reads_one_way(model)
    if said is not None:
        ways = "from left to right" if said else "both ways"
        return _noted(replace(found, causal=said), f"By its name or its parts it reads {ways} (causal={said}).")
    if _gives_logits(model, found):
        return _noted(
            replace(found, causal=True),
            "Logits over the vocabulary for each position are taken for those of the next token (causal=True).",
        )
    return found


def _gives_logits(model: nn.Module, found: Adapter) -> bool:
    if found.inputs != "tokens":
        return False
    try:
        with quietly(model):
            shape = run_of(model, found).shape
    except Exception:  # the check of the whole adapter tells of it
        return False
    return len(shape) == 3 and shape[-1] == found.vocabulary
