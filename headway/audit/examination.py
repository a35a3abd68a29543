"""`headway.examine`: which laws hold for a model, and a counter-example for each that does not."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.adapt.adapter import Adapter
from headway.adapt.guess import guess_adapter
from headway.adapt.model import AdaptedModel, restoring, uncompiled
from headway.adapt.own import own_adapter
from headway.adapt.trial import error_line
from headway.audit.laws import Law, select_laws
from headway.audit.report import NOT_APPLICABLE, Finding, Report
from headway.audit.search.search_context import FULL, QUICK, SearchContext
from headway.config import Frozen
from headway.data.tokenizer import Tokenizer
from headway.hub.load import OpenModel, make_model, open_model
from headway.hub.target import Function, resolve
from headway.models import build, parameters
from headway.models.own_module import OwnModule

Say = Callable[[str], None]
GIVES = "a module, a configuration of ours, or a module and its Adapter or its tokenizer is expected"


def examine(
    model: nn.Module | Frozen | str | Path,
    adapter: Adapter | None = None,
    *,
    laws: Iterable[str] | str | None = None,
    quick: bool = True,
    seed: int = 0,
    name: str | None = None,
    say: Say | None = None,
    **overrides: Any,
) -> Report:
    """Try the laws on any module, on a configuration's model, or on what a name means (as on the command line).

    What is not told of how it is called (by an Adapter, or by its fields as keywords) is guessed.

    `quick` takes some seconds for a small model; quick=False looks at more and longer texts.

    >>> from headway.models import build
    >>> from headway.presets.gpt2 import gpt2
    >>> model = build(gpt2(width=12, layers=1, heads=2, hidden=16, vocabulary=11, length=16)).eval()
    >>> examine(model, laws="causal").holds
    True
    """
    began = time.monotonic()
    chosen = select_laws(laws)
    if not isinstance(model, nn.Module):
        model, adapter, name = _opened(model, adapter, name, seed, overrides)
    model, compiled_note = uncompiled(model)
    with restoring(model):
        subject = AdaptedModel(model, guess_adapter(model, adapter, overrides), name or type(model).__name__)
        context = SearchContext(subject, QUICK if quick else FULL, seed)
        findings = [_try_law(law, context, say) for law in chosen]
    notes = [
        *compiled_note,
        *subject.adapter.notes,
        *([f"Not in float64: {context.why_not_float64}."] if context.why_not_float64 else []),
    ]
    return Report(subject.name, describe(subject), findings, notes, time.monotonic() - began, seed, quick)


def _opened(
    model: Any, adapter: Adapter | None, name: str | None, seed: int, overrides: Mapping[str, Any]
) -> tuple[nn.Module, Adapter | None, str]:
    """The model that is meant."""
    if isinstance(model, Frozen):
        return build(model, seed=seed).eval(), adapter, name or model.kind_or_name()
    if not isinstance(model, str | Path):
        kind = type(model).__name__
        raise ValueError(f"an audit is of a module (nn.Module), of a configuration or of a name, not of a {kind}")
    found, known = open_subject(str(model), overrides, seed=seed)
    return found.model, adapter or known, name or found.name


def open_subject(
    text: str,
    overrides: Mapping[str, Any],
    *,
    seed: int = 0,
    dtype: torch.dtype | str | None = None,
    weights: str | None = None,
) -> tuple[OpenModel, Adapter | None]:
    """What a word on the command line means, and how it is called; None: to be guessed, helped by `overrides`."""
    found = open_model(text, dtype=dtype, weights=weights, seed=seed)
    if not isinstance(found.beside, Adapter | Tokenizer | None):
        raise ValueError(f"{found.name} gives a {type(found.beside).__name__} beside its model: {GIVES}")
    function, known = found.target, overrides
    if isinstance(found.model, OwnModule):  # the module itself is audited, not what keeps padding away from it
        config = found.model.config
        function = resolve(config.function)
        known = {"inputs": "tokens", "vocabulary": config.vocabulary, "longest": config.length, **overrides}
        found = replace(found, model=found.model.module)
    adapter = found.beside if isinstance(found.beside, Adapter) else own_adapter(found.model)
    if isinstance(function, Function):
        adapter = guess_adapter(found.model, None, known) if adapter is None else adapter
        if adapter.rebuild is None:
            adapter = replace(adapter, rebuild=partial(_made_again, function, seed + 1, found.model))
    if adapter is None:
        return found, None
    words = adapter.words if found.tokenizer is None else token_texts(found.tokenizer)
    return found, replace(adapter, words=words, notes=(*adapter.notes, *found.notes))


def _made_again(target: Function, seed: int, like: nn.Module) -> nn.Module:
    """The same from another seed: whatever saving does not keep comes out differently."""
    dtype = next((one.dtype for one in like.parameters()), torch.float32)
    return make_model(target, dtype=dtype, seed=seed).model.eval()


def token_texts(tokenizer: Tokenizer) -> Callable[[int], str]:
    """A token as text; one that is part of a character, or unknown, as its number."""

    def text_of(token: int) -> str:
        text = tokenizer.decode([token], special=True)
        return text if text and "\ufffd" not in text else str(token)

    return text_of


def _try_law(law: Law, context: SearchContext, say: Say | None) -> Finding:
    began = time.monotonic()
    try:
        found = law.tried(context)
    except Exception as error:  # a foreign model may say anything to a law; the others are still worth trying
        found = Finding(law.name, NOT_APPLICABLE, why=f"it could not be tried: {error_line(error)}")
    found = replace(found, seconds=time.monotonic() - began)
    if say is not None:
        say(f"{law.name}: {found.status}, {found.trials} trials in {found.seconds:.1f} s")
    return found


def describe(subject: AdaptedModel) -> str:
    """The model in one line."""
    many = parameters(subject.module)
    a = subject.adapter
    what = {"tokens": f"tokens below {a.vocabulary}", "vectors": f"vectors of {a.width}", "images": "images"}[a.inputs]
    shape = f" of {' x '.join(map(str, a.image))}" if a.image and a.inputs == "images" else ""
    kind = str(subject.dtype).removeprefix("torch.")
    return f"{type(subject.module).__name__}, {many:,} parameters in {kind}, reads {what}{shape}"
