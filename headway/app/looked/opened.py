"""What a word on the command line is looked at as: a preset, a directory, a run, or what a function makes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.app.evaluate import place_of
from headway.config import Frozen
from headway.hub import load, target
from headway.look.reading import numbers
from headway.models import fresh

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
    path = Path(text).expanduser() if text.strip() else Path()
    if (path / "config.yaml").is_file() and not target.is_model(path):
        return _loaded(place_of(text)[0], text, dtype)
    found = target.resolve(text)
    if isinstance(found, target.Directory):
        return _loaded(found.path, text, dtype)
    if isinstance(found, target.Preset):
        return _preset(found.config, found.name, seed, dtype)
    return _made(found, seed, dtype)


def _loaded(path: Path, text: str, dtype: str | None) -> Opened:
    model, tokenizer, receipt = load(path, dtype=dtype)
    return Opened(model, tokenizer, _title(text), receipt=str(receipt))


def _title(text: str) -> str:
    """A directory's name as it was typed; of an absolute path the end, since pages are given to others.

    >>> _title("runs/first"), _title("/home/me/models/bert")
    ('runs/first', 'models/bert')
    """
    path = Path(text)
    return "/".join(path.parts[-2:]) if path.is_absolute() else text


def _preset(config: Any, name: str, seed: int, dtype: str | None) -> Opened:
    """Random weights; words get tokens of their own, since no text could mean anything to such a model."""
    model = fresh(config, seed=seed, dtype=torch.float32 if dtype is None else getattr(torch, dtype))
    words = _words(config)
    return Opened(model, numbers(words) if words else None, name, (RANDOM, BY_CHANCE) if words else (RANDOM,))


def _words(config: Any) -> int:
    """How many tokens any text of it may have; 0: it reads no text."""
    inner = getattr(config, "encoder", config) if config.kind == "sentence" else config
    names = ("vocabulary", "source_vocabulary", "target_vocabulary")
    return min((found for name in names if (found := getattr(inner, name, None))), default=0)


def _made(found: target.Function, seed: int, dtype: str | None) -> Opened:
    """What a function of one's own makes: a model, a configuration of ours, or a model and its tokenizer."""
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = found.call()
    except ValueError:
        raise
    except (Exception, SystemExit) as error:
        said = (str(error).strip().splitlines() or [""])[0]
        raise ValueError(f"{found.name}, called without arguments, failed: {type(error).__name__}: {said}") from error
    if isinstance(made, Frozen):
        return _preset(made, found.name, seed, dtype)
    model, tokenizer = (made[0], made[1]) if isinstance(made, tuple) and len(made) > 1 else (made, None)
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"{found.name} gives a {type(made).__name__}: a model, a configuration of ours, or a model and its "
            "tokenizer is expected"
        )
    return Opened(model if dtype is None else model.to(getattr(torch, dtype)), tokenizer, found.name)
