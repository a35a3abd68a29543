"""What a word on the command line is audited as: a preset, a directory, a run, or what a function makes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn

from headway.adapt.adapter import Adapter
from headway.adapt.guess import guess_adapter
from headway.adapt.own import own
from headway.data.tokenizer import Tokenizer
from headway.hub.load import load_directory, open_without_weights
from headway.hub.target import Directory, Function, Preset, resolve

Words = Callable[[int], str]
RANDOM = "Its weights are random: a preset has none of its own."
GIVES = "a module, a configuration of ours, or a module and its Adapter is expected"


class Opened(NamedTuple):
    """A model to audit; no adapter: it is guessed. `words` tells a token as text."""

    module: nn.Module
    adapter: Adapter | None
    name: str
    words: Words | None


def opened(
    text: str, *, seed: int = 0, dtype: torch.dtype | str | None = None, told: Mapping[str, Any] | None = None
) -> Opened:
    """The model that is meant; a mistake is a ValueError in one sentence. `told` helps where a call must be guessed.

    >>> opened("bare-block").adapter.notes
    ('Its weights are random: a preset has none of its own.',)
    """
    target = resolve(text)
    if isinstance(target, Directory):
        return _loaded(target, text, dtype)
    return _made(target, seed, dtype, told or {})


def _loaded(target: Directory, name: str, dtype: torch.dtype | str | None) -> Opened:
    module, tokenizer, _ = load_directory(target.path, dtype=dtype)
    words = None if tokenizer is None else words_of(tokenizer)
    adapter = own(module)
    return Opened(module, None if adapter is None else replace(adapter, words=words), name, words)


def words_of(tokenizer: Tokenizer) -> Words:
    """A token as text; one that is part of a character, or unknown, as its number."""

    def word(token: int) -> str:
        text = tokenizer.decode([token], special=True)
        return text if text and "\ufffd" not in text else str(token)

    return word


def _made(target: Preset | Function, seed: int, dtype: torch.dtype | str | None, told: Mapping[str, Any]) -> Opened:
    """What a preset configures or a function makes: the same again for the same seed."""
    module, adapter, _ = open_without_weights(target, dtype=dtype, seed=seed)
    if not isinstance(adapter, Adapter | None):
        raise ValueError(f"{target.name} gives a {type(adapter).__name__} beside its model: {GIVES}")
    if isinstance(target, Preset):
        adapter = own(module)
        assert adapter is not None
        adapter = replace(adapter, notes=(*adapter.notes, RANDOM))
        return Opened(module, adapter, target.name, None)
    adapter = guess_adapter(module, None, told) if adapter is None else adapter
    if adapter.rebuild is None:
        adapter = replace(adapter, rebuild=lambda: _again(target, seed + 1, module))
    return Opened(module, adapter, target.name, adapter.words)


def _again(target: Function, seed: int, like: nn.Module) -> nn.Module:
    """The same from another seed: whatever saving does not keep comes out differently."""
    dtype = next((one.dtype for one in like.parameters()), torch.float32)
    return open_without_weights(target, dtype=dtype, seed=seed).model.eval()
