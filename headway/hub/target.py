"""What a word on the command line means: PRESET | directory | package.module:function. Every verb asks here.

`preset:NAME` is a preset also where a directory has its name.

>>> resolve("gpt2_xl").config.stack.layers
48
>>> resolve("gtp2")
Traceback (most recent call last):
ValueError: 'gtp2' is neither a directory nor a preset (did you mean gpt2?); `headway info` lists the presets
"""

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from headway.config import Frozen, nearest
from headway.config.sentence import SentenceConfig
from headway.hub.family import family_of
from headway.hub.load import read_config
from headway.hub.steps import MODULES, read_dense, read_limit, read_pooling, read_prompt, read_steps
from headway.hub.store import INDEX, WEIGHTS, Store
from headway.models import on_meta
from headway.presets import names, preset, spelled

_PRESET = "preset:"
_FUNCTION = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)")


@dataclass(frozen=True)
class Preset:
    """Published sizes by name: a configuration without weights."""

    name: str
    config: Any  # a model's configuration


@dataclass(frozen=True)
class Directory:
    """A model on disk: a config.json and weights, or a sentence encoder's modules.json and a folder for each step."""

    path: Path

    @cached_property
    def steps(self) -> dict[str, Path]:
        """The folders with a configuration of their own; Transformer is the model's."""
        return read_steps(self.path) if (self.path / MODULES).is_file() else {"Transformer": self.path}

    @property
    def folder(self) -> Path:
        """Where the model's config.json and its weights are."""
        return self.steps["Transformer"]

    @property
    def weights(self) -> bool:
        """Whether there is anything to load."""
        return (self.folder / WEIGHTS).exists() or (self.folder / INDEX).exists()

    @cached_property
    def config(self) -> Any:
        """What the directory says of itself, in our words; no tensor is read."""
        inner = self._inner()
        if "Pooling" not in self.steps:
            return inner
        width = inner.stack.block.output_width
        return SentenceConfig(
            encoder=inner,
            pooling=read_pooling(self.steps["Pooling"], width),
            dense=read_dense(self.steps["Dense"], width) if "Dense" in self.steps else None,
            normalise="Normalize" in self.steps,
            limit=read_limit(self.folder, inner)[0],
            prompt=read_prompt(self.path, self.steps["Pooling"]),
        )

    def _inner(self) -> Any:
        said = read_config(self.folder)
        family, held = family_of(said, self.folder / "config.json"), frozenset()
        if self.weights:
            with Store(self.folder) as store:
                held = frozenset(family.canonical(name) for name in store.headers)
        try:
            return family.read(said, held)
        except KeyError as error:
            raise ValueError(f"{self.folder / 'config.json'} does not say {error.args[0]!r}") from None


def is_model(path: Path) -> bool:
    """Whether a path is a directory that says what its tensors mean."""
    return (path / "config.json").is_file() or (path / MODULES).is_file()


@dataclass(frozen=True)
class Function:
    """A function of one's own, called without arguments."""

    name: str
    call: Callable[[], Any]


Target = Preset | Directory | Function


def resolve(text: str) -> Target:
    """What is meant. A directory comes before a preset of the same name where it holds a config.json."""
    if not text.strip():
        raise ValueError("the target is empty: name a directory, a preset or package.module:function")
    if text.startswith(_PRESET):
        return _preset(text.removeprefix(_PRESET))
    path = _path(text)
    if is_model(path):
        return Directory(path)
    if found := _FUNCTION.fullmatch(text):
        return Function(text, _function(*found.groups()))
    if spelled(text) in names():
        return _preset(text)
    raise ValueError(_unknown(text, path))


def hidden(text: str) -> str | None:
    """The preset whose name a directory has too, so that `text` means the directory."""
    return spelled(text) if spelled(text) in names() and is_model(_path(text)) else None


def _path(text: str) -> Path:
    return Path(os.path.expanduser(text))  # pathlib's own raises where there is no such user


def _preset(text: str) -> Preset:
    name = spelled(text)
    if name not in names():
        raise ValueError(f"there is no preset {text!r}{nearest(name, list(names()))}; `headway info` lists the presets")
    return Preset(name, preset(name))


def directory(text: str) -> Path:
    """The same for a verb that needs weights: a directory, or a refusal."""
    target = resolve(text)
    if isinstance(target, Directory):
        return target.path
    what = "a preset: sizes without weights" if isinstance(target, Preset) else "a function"
    raise ValueError(f"{text!r} is {what}; this command needs a directory with config.json and {WEIGHTS}")


def _unknown(text: str, path: Path) -> str:
    if path.is_dir():
        return f"{text} has no config.json, so nobody can say what its tensors mean"
    if path.exists():
        return f"{text} is a file: a model is a directory with config.json and {WEIGHTS}"
    if "/" in text or text.startswith((".", "~")):
        return f"{text} does not exist: a model is a directory with config.json and {WEIGHTS}"
    hint = nearest(text.replace("_", "-"), list(names()))
    return f"{text!r} is neither a directory nor a preset{hint}; `headway info` lists the presets"


def _function(module: str, name: str) -> Callable[[], Any]:
    holder = _module(module)
    found = getattr(holder, name, None)
    if found is None:
        raise ValueError(f"{module} has no function {name!r}{nearest(name, vars(holder))}")
    if not callable(found):
        raise ValueError(f"{module}:{name} is a {type(found).__name__}, not a function")
    return found


def _module(name: str) -> ModuleType:
    """The module, also from the directory that the command is given in, as `python -m` would find it."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        if not _exists(name):
            raise ValueError(f"there is no module {name!r}, neither installed nor in {here}")
        return import_module(name)
    except ImportError as error:
        raise ValueError(f"{name} cannot be imported: {error}") from None
    finally:
        sys.path.remove(here)


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):  # its package does not exist, or is no package
        return False


def made_by(target: Function) -> Any:
    """What a function of one's own makes, on meta; a call that fails is told in one sentence."""
    try:
        with torch.device("meta"):
            return target.call()
    except ValueError:
        raise
    except Exception as error:
        said = (str(error).strip().splitlines() or [""])[0]
        raise ValueError(f"{target.name}, called without arguments, failed: {type(error).__name__}: {said}") from error


def built(target: Target) -> Any:
    """The model without any memory (on meta): what a preset or directory configures, what a function makes."""
    if not isinstance(target, Function):
        return on_meta(target.config)
    made = made_by(target)
    if isinstance(made, Frozen):
        return on_meta(made)
    if not isinstance(made, torch.nn.Module):
        raise ValueError(f"{target.name} gives a {type(made).__name__}: a model or its configuration is expected")
    return made
