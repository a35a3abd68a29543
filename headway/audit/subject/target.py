"""What a word on the command line is audited as: a preset, a directory, a run, or what a function makes."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from headway.audit.subject.adapter import Adapter
from headway.audit.subject.guess import guessed
from headway.audit.subject.own import own
from headway.audit.subject.trial import said
from headway.config import Frozen
from headway.data.tokenizer import Tokenizer
from headway.hub.load import load
from headway.hub.target import Directory, Function, Preset, is_model, resolve
from headway.models import fresh

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
    path = _exported(Path(os.path.expanduser(text)))  # pathlib's own raises where there is no such user
    target = Directory(path) if path is not None else resolve(text)
    if isinstance(target, Preset):
        return _configured(target.config, target.name, seed, dtype)
    if isinstance(target, Directory):
        return _loaded(target, text, dtype)
    return _made(target, seed, dtype, told or {})


def _exported(path: Path) -> Path | None:
    """The model of a run, which stands in a folder of its own; None of anything else."""
    if not (path / "config.yaml").is_file() or is_model(path):
        return None
    if not is_model(path / "model"):
        raise ValueError(f"{path} is a run that has not finished: it has no model yet")
    return path / "model"


def _configured(config: Any, name: str, seed: int, dtype: torch.dtype | str | None) -> Opened:
    module = fresh(config, seed=seed, dtype=_kind(dtype) or torch.float32)
    adapter = own(module)
    assert adapter is not None
    return Opened(module, replace(adapter, notes=(*adapter.notes, RANDOM)), name, None)


def _loaded(target: Directory, name: str, dtype: torch.dtype | str | None) -> Opened:
    module, tokenizer, _ = load(target.path, dtype=dtype)
    words = None if tokenizer is None else words_of(tokenizer)
    adapter = own(module)
    return Opened(module, None if adapter is None else replace(adapter, words=words), name, words)


def words_of(tokenizer: Tokenizer) -> Words:
    """A token as text; one that is part of a character, or unknown, as its number."""

    def word(token: int) -> str:
        text = tokenizer.decode([token], special=True)
        return text if text and "\ufffd" not in text else str(token)

    return word


def _made(target: Function, seed: int, dtype: torch.dtype | str | None, told: Mapping[str, Any]) -> Opened:
    """What the function makes, for real; torch's draws begin at the seed, so that it makes the same again."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = _called(target)
    if isinstance(made, Frozen):
        return _configured(made, target.name, seed, dtype)
    module, adapter = _parted(made)
    if not isinstance(module, nn.Module) or not isinstance(adapter, Adapter | None):
        raise ValueError(f"{target.name} gives a {type(made).__name__}: {GIVES}")
    kind = _kind(dtype)
    module = module if kind is None else module.to(kind)
    adapter = guessed(module, None, told) if adapter is None else adapter
    if adapter.rebuild is None:
        adapter = replace(adapter, rebuild=lambda: _again(target, seed + 1, module))
    return Opened(module, adapter, target.name, adapter.words)


def _parted(made: Any) -> tuple[Any, Any]:
    return made if isinstance(made, tuple) and len(made) == 2 else (made, None)


def _again(target: Function, seed: int, like: nn.Module) -> nn.Module:
    """The same from another seed: whatever saving does not keep comes out differently."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module, _ = _parted(_called(target))
    return module.to(next((one.dtype for one in like.parameters()), torch.float32)).eval()


def _called(target: Function) -> Any:
    try:
        return target.call()
    except ValueError:
        raise
    except (Exception, SystemExit) as error:
        raise ValueError(f"{target.name}, called without arguments, failed: {said(error)}") from error


def _kind(dtype: torch.dtype | str | None) -> torch.dtype | None:
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is not None and (not isinstance(found, torch.dtype) or not found.is_floating_point):
        raise ValueError(f"weights are float64, float32, bfloat16 or float16, not {dtype}")
    return found
