"""What the name of a model means: PRESET | directory | run | package.module:function | org/name. Every verb asks here.

A run of `headway train` stands for the model that it has exported. `preset:NAME` is a preset also where a directory has
its name. `org/name` and `org/name@revision` are models of a hub, where no directory of that name is here; `hub:NAME`
is one in any case.

>>> resolve("gpt2_xl").config.stack.layers
48
>>> resolve("gtp2")
Traceback (most recent call last):
ValueError: 'gtp2' is neither a directory nor a preset (did you mean gpt2?); `headway info` lists the presets
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from headway.config import Frozen, nearest
from headway.config.file_errors import errors_of, refusals_of
from headway.config.importing import import_named, split_name
from headway.config.run_files import is_run
from headway.config.text import SentenceConfig
from headway.data.gguf_file import is_gguf, read_gguf
from headway.data.publish import bring_back
from headway.hub.adapter import base_of, is_adapter
from headway.hub.checks import check_depth
from headway.hub.family import family_of
from headway.hub.gguf import gguf_config
from headway.hub.hub_id import HubId
from headway.hub.sentence_modules import MODULES, read_dense, read_limit, read_pooling, read_prompt, read_steps
from headway.hub.store import INDEX, WEIGHTS, Store, read_config, tensor_names
from headway.models import on_meta
from headway.models.own_module import call_function
from headway.presets import names, preset, spelled

_PRESET, _HUB = "preset:", "hub:"


@dataclass(frozen=True)
class Preset:
    """Published sizes by name: a configuration without weights."""

    name: str
    config: Any  # a model's configuration


@dataclass(frozen=True)
class Directory:
    """A model on disk: a config.json and weights, a sentence encoder's modules.json and a folder for each step, a GGUF
    file, or an adapter, which stands for the model that it is made for with the adapter added.

    `run` is the run whose model it is.
    """

    path: Path
    run: Path | None = None

    @cached_property
    def base(self) -> "Directory":
        """Of an adapter the model that it is made for; of a model itself."""
        if not is_adapter(self.path):
            return self
        name = base_of(self.path)
        try:
            return directory(name).base
        except ValueError as error:
            raise ValueError(
                f"{self.path} is an adapter of {name}, which is not here ({error}): name the model, and --adapter "
                f"{self.path}"
            ) from None

    @cached_property
    def steps(self) -> dict[str, Path]:
        """The folders with a configuration of their own; Transformer is the model's."""
        if self.base is not self:
            return self.base.steps
        return read_steps(self.path) if (self.path / MODULES).is_file() else {"Transformer": self.path}

    @property
    def gguf(self) -> bool:
        """Whether its weights are in one GGUF file."""
        return is_gguf(self.base.path)

    @property
    def folder(self) -> Path:
        """Where the model's config.json and its weights are."""
        return self.steps["Transformer"]

    @property
    def weights(self) -> bool:
        """Whether there is anything to load."""
        return self.gguf or (self.folder / WEIGHTS).exists() or (self.folder / INDEX).exists()

    @cached_property
    def config(self) -> Any:
        """What the directory says of itself, in our words; no tensor is read."""
        if self.base is not self:
            return self.base.config
        if self.gguf:
            return gguf_config(read_gguf(self.path))
        inner = self._inner()
        if "Pooling" not in self.steps:
            return inner
        width = inner.stack.block.output_width
        with errors_of(self.path):
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
        family, names = family_of(said, self.folder / "config.json", partial(tensor_names, self.folder)), ()
        if self.weights:
            with Store(self.folder) as store:
                names = tuple(store.headers)
        with refusals_of(self.folder / "config.json"):
            found = family.read(said, frozenset(map(family.canonical, names)))
        if names:
            check_depth(found, names, self.folder)
        return found


def is_model(path: Path) -> bool:
    """Whether a path is a directory, or a GGUF file, that says what its tensors mean.

    A config.json that is a pipe or a broken link is refused where it is read; a preset must not take its place.
    """
    said = os.path.lexists(path / "config.json") or (path / MODULES).is_file()
    return said or is_gguf(path) or is_adapter(path)


@dataclass(frozen=True)
class Function:
    """A function of one's own, called without arguments."""

    name: str
    call: Callable[[], Any]

    def made(self, seed: int | None = None) -> Any:
        """What it makes; a call that fails is told in one sentence. With a seed torch's draws begin there."""
        return call_function(self.name, self.call, seed)


Target = Preset | Directory | Function


def resolve(target: str | Path, *, weights: bool = False, revision: str | None = None) -> Target:
    """What is meant. A directory comes before a preset of the same name where it holds a config.json.

    Of a model of a hub that is not here its small files are downloaded, with `weights` its weights too.
    """
    text = str(target)
    if not text.strip():
        raise ValueError("the target is empty: name a directory, a run, a preset or package.module:function")
    if text.startswith(_PRESET):
        return _preset(text.removeprefix(_PRESET))
    if (named := _hub_id(target, revision)) is not None:
        return Directory(named.find(weights=weights))
    path = _path(text)
    if is_model(path):
        return Directory(path)
    if is_run(path):
        return _of_run(path, text)
    if (named := split_name(text)) is not None:
        return Function(text, _function(*named))
    if spelled(text) in names() and not isinstance(target, Path):
        return _preset(text)
    if not path.exists() and bring_back(path):  # a save that was killed had moved it
        return resolve(target)
    raise ValueError(_unknown(text, path))


def _hub_id(target: str | Path, revision: str | None) -> HubId | None:
    """The model of a hub that is meant; a path whose first folder is here is none, and no path that is given as one."""
    text = str(target)
    explicit = text.startswith(_HUB)
    here = _path(text)
    local = isinstance(target, Path) or here.exists() or (here.parent != Path() and here.parent.exists())
    named = explicit or not local
    found = HubId.parse(text.removeprefix(_HUB), revision, bare=explicit) if named else None
    if found is None and explicit:
        raise ValueError(f"{text} is no id of a model: hub:org/name, or hub:org/name@revision")
    if found is None and revision is not None:
        raise ValueError(f"a revision is one of a model on a hub, org/name; {text} is none: leave it out")
    return found


def _of_run(path: Path, text: str) -> Directory:
    if not (path / "model").exists():
        bring_back(path / "model")  # a save that was killed had moved it
    if not is_model(path / "model"):
        raise ValueError(
            f"{text} is a run that has not finished: it has no model yet; go on with it by "
            f"`headway train --out {text} --resume`"
        )
    return Directory(path / "model", path)


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


def directory(text: str | Path) -> Directory:
    """The same for a verb that needs weights: a directory or a run, or a refusal."""
    target = resolve(text, weights=True)
    if isinstance(target, Directory):
        return target
    what = "a preset: sizes without weights" if isinstance(target, Preset) else "a function"
    raise ValueError(f"'{text}' is {what}; this command needs a run, or a directory with config.json and {WEIGHTS}")


def _unknown(text: str, path: Path) -> str:
    if path.is_dir():
        inside = sorted(one.name for one in path.iterdir() if is_model(one) or is_run(one))
        way_out = f"name one in it, such as {Path(text) / inside[0]}" if inside else "name a directory that is one"
        return f"{text} is neither a model (it has no config.json) nor a run (no config.yaml): {way_out}, or a preset"
    if path.exists():
        return f"{text} is a file: a model is a directory with config.json and {WEIGHTS}, or a GGUF file (.gguf)"
    if "/" in text or text.startswith((".", "~")):
        return f"{text} does not exist: a model is a directory with config.json and {WEIGHTS}"
    hint = nearest(text.replace("_", "-"), list(names()))
    return f"{text!r} is neither a directory nor a preset{hint}; `headway info` lists the presets"


def _function(module: str, name: str) -> Callable[[], Any]:
    found = import_named(module, name)
    if not callable(found):
        raise ValueError(f"{module}:{name} is a {type(found).__name__}, not a function")
    return found


def made_by(target: Function) -> Any:
    """What a function of one's own makes, on meta; of a model and its tokenizer (or Adapter) the model."""
    with torch.device("meta"):
        made = target.made()
    return made[0] if isinstance(made, tuple) and made else made


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
