"""What a word on the command line is looked at as: a preset, a directory, a run, or what a function makes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.config import Frozen
from headway.cost.show.table import size
from headway.cost.show.verified import available
from headway.hub import load, target
from headway.look.reading import numbers
from headway.models import count, fresh

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
    path = Path(os.path.expanduser(text)) if text.strip() else Path()
    if (path / "config.yaml").is_file() and not target.is_model(path):
        return _loaded(_model_of_run(path, text), text, dtype)
    found = _resolved(text, path)
    if isinstance(found, target.Directory):
        return _loaded(found.path, text, dtype)
    if isinstance(found, target.Preset):
        return _preset(found.config, found.name, seed, dtype)
    return _made(found, seed, dtype)


def _model_of_run(path: Path, text: str) -> Path:
    if not target.is_model(path / "model"):
        raise ValueError(
            f"{text} is a run that has not finished: it has no model yet; go on with it by "
            f"`headway train --out {text} --resume`"
        )
    return path / "model"


def _resolved(text: str, path: Path) -> target.Target:
    """What is meant; of a directory that is no model, also where one is."""
    try:
        return target.resolve(text)
    except ValueError:
        if not path.is_dir():
            raise
    inside = sorted(one.name for one in path.iterdir() if target.is_model(one) or (one / "config.yaml").is_file())
    way_out = (
        f"name one in it, such as {Path(text) / inside[0]}" if inside else "name a directory that is one, or a preset"
    )
    raise ValueError(f"{text} is neither a model (it has no config.json) nor a run (no config.yaml): {way_out}")


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
    kind = torch.float32 if dtype is None else getattr(torch, dtype)
    _check_room(config, name, kind)
    model = fresh(config, seed=seed, dtype=kind)
    words = _words(config)
    return Opened(model, numbers(words) if words else None, name, (RANDOM, BY_CHANCE) if words else (RANDOM,))


def _check_room(config: Any, name: str, dtype: torch.dtype) -> None:
    """Refuse weights that this machine cannot hold, before it tries."""
    needed, free = count(config) * dtype.itemsize, available()
    if free is not None and needed > free:
        raise ValueError(
            f"{name} has {size(needed)} of weights in {str(dtype).removeprefix('torch.')}, and {size(free)} of memory "
            "are free here: take a smaller model of its kind"
        )


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
