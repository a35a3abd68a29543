"""What a word on the command line is looked at as: a preset, a directory, a run, or what a function makes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.config import Frozen
from headway.cost.show.verified import available
from headway.hub import target
from headway.hub.load import load_directory, open_without_weights
from headway.look.reading import numbers
from headway.models import count
from headway.render import byte_size

SEEDS = 2**63
RANDOM = "The weights are random: a preset has none of its own."
BY_CHANCE = "There is no tokenizer: the text is cut at its words, and each has a token by chance."


@dataclass(frozen=True)
class Opened:
    """A model to look at, what cuts its texts (None: nothing does), and what is to be said of it."""

    model: nn.Module
    tokenizer: Any
    title: str
    notes: tuple[str, ...] = ()
    receipt: str = ""


def open_target(text: str, *, seed: int = 0, dtype: str | None = None) -> Opened:
    """What a word on the command line means: PRESET | directory | run | package.module:function."""
    if not 0 <= seed < SEEDS:
        raise ValueError(f"a seed is a whole number from 0 to 2**63 - 1, not {seed}")
    found = target.resolve(text)
    if isinstance(found, target.Directory):
        return _loaded(found.path, text, dtype)
    if isinstance(found, target.Preset):
        _check_room(found.config, found.name, torch.float32 if dtype is None else getattr(torch, dtype))
    return _made(found, seed, dtype)


def _loaded(path: Path, text: str, dtype: str | None) -> Opened:
    model, tokenizer, receipt = load_directory(path, dtype=dtype)
    return Opened(model, tokenizer, _title(text), receipt=str(receipt))


def _title(text: str) -> str:
    """A directory's name as it was typed; of an absolute path the end, since pages are given to others.

    >>> _title("runs/first"), _title("/home/me/models/bert")
    ('runs/first', 'models/bert')
    """
    path = Path(text)
    return "/".join(path.parts[-2:]) if path.is_absolute() else text


def _check_room(config: Any, name: str, dtype: torch.dtype) -> None:
    """Refuse weights that this machine cannot hold, before it tries."""
    needed, free = count(config) * dtype.itemsize, available()
    if free is not None and needed > free:
        raise ValueError(
            f"{name} has {byte_size(needed)} of weights in {str(dtype).removeprefix('torch.')}, and {byte_size(free)} "
            "of memory are free here: take a smaller model of its kind"
        )


def _words(config: Any) -> int:
    """How many tokens any text of it may have; 0: it reads no text."""
    inner = getattr(config, "encoder", config) if config.kind == "sentence" else config
    names = ("vocabulary", "source_vocabulary", "target_vocabulary")
    return min((found for name in names if (found := getattr(inner, name, None))), default=0)


def _made(found: target.Preset | target.Function, seed: int, dtype: str | None) -> Opened:
    """What a preset or a function of one's own makes: a model, a configuration, or a model and its tokenizer.

    Where nothing cuts texts, words get tokens of their own: no text could mean anything to random weights.
    """
    model, tokenizer, _ = open_without_weights(found, dtype=dtype, seed=seed)
    if isinstance(found, target.Function) and not isinstance(getattr(model, "config", None), Frozen):
        return Opened(model, tokenizer, found.name)
    words = _words(model.config) if tokenizer is None else 0
    notes = (RANDOM, BY_CHANCE) if words else (RANDOM,)
    return Opened(model, numbers(words) if words else tokenizer, found.name, notes)
