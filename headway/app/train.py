"""`headway.train`: a model and data from Python, as the settings of a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from headway.app.run import Run, read_run
from headway.app.settings import free_place, merged, resolve, saved
from headway.app.training_run import run
from headway.config import Frozen, MaskedConfig
from headway.config.kinds import CONFIGS, kinds_where
from headway.config.model import ModelConfig
from headway.config.train import DataConfig, ModelChoice, TrainConfig
from headway.data.tokenizer import Tokenizer
from headway.hub.target import Directory, Preset
from headway.hub.target import resolve as resolve_target
from headway.models.model import Model
from headway.models.own_module import wrap
from headway.training.tasks.common import check_trainable


def train(
    model: Model | Frozen | TrainConfig | str | Path | None = None,
    data: str | Path | Sequence[str | Path] = (),
    *,
    out: str | Path | None = None,
    steps: int | None = None,
    tokenizer: Tokenizer | str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    **settings: Any,
) -> Run:
    """Train a model on files, folders or embedded sources, and return the run: `.model`, `.tokenizer`, `.curve(...)`.

    The model is one of `headway.build` or `headway.load` (it is left as it is; the run's own is trained), its
    configuration, a preset, a directory or a run to start from, or all settings in one TrainConfig. The tokenizer is an
    object, a path, or a kind to learn ("bpe", "character", "byte", "wordpiece", "unigram"). Settings are those of
    `headway train`: those of the model and of the data by name (`layers=6, held=0.05`), other nested ones as a dict
    (`optim={"rate": 3e-4}`). The run lies in `out`, and goes on from its newest checkpoint by
    `train(out=..., resume=True)`.
    """
    if resume and out is None:
        raise ValueError("resume goes on with a run: name its directory with out")
    own = {
        group: {name: settings.pop(name) for name in list(settings) if name in kind.model_fields and name != "train"}
        for group, kind in (("model", ModelChoice), ("data", DataConfig))
    }
    given: dict[str, Any] = settings | ({} if steps is None else {"steps": steps}) | own
    if data:
        given = merged(
            given, {"data": {"train": [str(data)] if isinstance(data, str | Path) else list(map(str, data))}}
        )
    if isinstance(tokenizer, str | Path):
        given = merged({"tokenizer": _tokenizer(tokenizer)}, given)
    known = tokenizer if isinstance(tokenizer, Tokenizer) else None
    chosen, start = ({}, None) if resume else _model(model)
    if start is not None and known is None and not isinstance(tokenizer, str | Path):
        known = start.tokenizer
    given = merged(chosen, given)
    place = None if out is None else Path(out)
    config = resolve(given, file=saved(place) if resume and place is not None else None)
    if not config.data.train:
        raise ValueError("there is nothing to train on: name a file, a folder, or a source such as python")
    place = free_place(config) if place is None else place
    if start is not None:
        config = config.replace("model", start=str(place / "start"))
    run(config, place, resume=resume, overwrite=overwrite, start=start, tokenizer=known)
    return read_run(place)


def _tokenizer(given: str | Path) -> dict[str, str]:
    kinds = ("byte", "character", "bpe", "wordpiece", "unigram")
    return {"kind": given} if isinstance(given, str) and given in kinds else {"path": str(given)}


def _model(given: Any) -> tuple[dict[str, Any], Model | None]:
    """The settings that name a model; and the model itself where it is an object."""
    if given is None:
        return {}, None
    if isinstance(given, TrainConfig):
        return given.model_dump(exclude_unset=True), None
    if isinstance(given, str | Path):
        target = resolve_target(given)
        if isinstance(target, Preset):
            return {"model": {"preset": target.name}, **_usual(target.config, sizes=False)}, None
        if isinstance(target, Directory):
            return {"model": {"start": str(target.path)}, **_usual(target.config)}, None
        made = target.made()
        made = made[0] if isinstance(made, tuple) else made
        if isinstance(made, nn.Module) and not isinstance(made, Model):
            return {
                "model": {"start": target.name},
                **_usual(wrap(made, target.name, length=1).config, sizes=False),
            }, None
        return _model(made)
    if isinstance(given, Model):
        return _usual(given.config), given
    if isinstance(given, Frozen) and given.kind_or_name() in CONFIGS:
        return {"model": {"config": given.model_dump_json()}, **_usual(given)}, None
    what = "a module that is not headway's" if isinstance(given, nn.Module) else f"a {type(given).__name__}"
    raise ValueError(f"headway.train takes a model of headway's, its configuration or a name, not {what}; "
                     "a loop of your own trains any module")  # fmt: skip


def _usual(config: Frozen, *, sizes: bool = True) -> dict[str, Any]:
    """What follows from a model where nobody says otherwise: the task, the length and the tokens to learn."""
    kind = config.kind_or_name()
    if isinstance(config, ModelConfig):
        check_trainable(config, "this model")
    tasks = config.tasks if isinstance(config, ModelConfig) else ()
    task = "classify" if isinstance(config, MaskedConfig) and config.classes else next(iter(tasks), None)
    if task is None:
        known = ", ".join(kinds_where(lambda one: bool(one.tasks)))
        raise ValueError(f"a {kind} model is trained by no task; there are {known}")
    found: dict[str, Any] = {"task": task}
    if sizes and isinstance(length := getattr(config, "length", None), int):
        found["length"] = length
    if sizes and isinstance(vocabulary := getattr(config, "vocabulary", None), int):
        found["tokenizer"] = {"vocabulary": vocabulary}
    return found
