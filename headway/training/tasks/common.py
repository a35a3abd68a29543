"""What several tasks share: the tokenizer, a model to start from, and how held-out examples are set apart."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.config import Frozen
from headway.config.kinds import kinds_where
from headway.config.model import ModelConfig
from headway.config.run_files import RunFiles
from headway.config.text import Special
from headway.config.train import TrainConfig
from headway.data.publish import make_directory, replacing, sync
from headway.data.stream import stdin_bytes
from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_training import literal, train_tokenizer
from headway.hub import load
from headway.hub.load import Loaded
from headway.hub.target import Function, directory, resolve
from headway.models import build
from headway.models.model import Model
from headway.models.own_module import OwnModule, wrap

Say = Callable[[str], None]


def start_of(config: TrainConfig) -> Loaded | None:
    """The model to start from, where one is named: a directory, a run, or what package.module:function makes."""
    if config.model.start is None:
        return None
    if isinstance(target := resolve(config.model.start), Function):
        found = _made(target, config)
    else:
        found = load(directory(config.model.start).path, dtype="float32")
    kind, where = found.model.config.kind, config.model.start
    check_trainable(found.model.config, where)
    if config.task not in found.model.config.tasks:
        wanted = " or ".join(kinds_where(lambda one: config.task in one.tasks))
        raise ValueError(f"the task {config.task} starts from a {wanted} model, and {where} holds a {kind} model")
    for parameter in found.model.parameters():  # a file may hold it transposed, and torch shards no such parameter
        parameter.data = parameter.data.contiguous()
    return found


def check_trainable(config: ModelConfig, where: str) -> None:
    """Refuse quantised weights: whole numbers have no gradients."""
    if config.weights is not None:
        raise ValueError(
            f"{where} has {config.weights} weights, which cannot be trained: start from the model they were made from, "
            "or from what headway convert --weights float makes of them"
        )


def _made(target: Function, config: TrainConfig) -> Loaded:
    """A model of ours, or any module that reads tokens and gives logits."""
    found = load(target.name, dtype="float32", seed=config.seed)
    if isinstance(found.model, Model):
        return found
    return found._replace(model=wrap(found.model, target.name, length=config.length))


def encoder_of(start: Loaded | None) -> Loaded | None:
    """Of a sentence encoder, the BERT in it; another model as it is."""
    if start is None or start.model.config.kind != "sentence":
        return start
    encoder: Any = start.model.encoder
    encoder.origin = start.model.origin
    return start._replace(model=encoder)


def tokenizer_of(
    config: TrainConfig, place: RunFiles, start: Loaded | None, texts: Callable[[], Iterable[str]], say: Say
) -> Tokenizer:
    """The one of this run, of the model it starts from, of a file; or one that is learnt now and saved whole."""
    if place.tokenizer.is_dir():
        found = Tokenizer.read(place.tokenizer)
        assert found is not None
        return literal(found)
    # A model of one's own that came without a tokenizer has one learnt for it.
    own = start is not None and start.tokenizer is None and _is_own(config, place)
    if start is not None and config.tokenizer.path is None and not own:
        if start.tokenizer is None:
            raise ValueError(f"{config.model.start} has no tokenizer: name one with tokenizer.path")
        found = start.tokenizer
    else:
        if config.tokenizer.path is None:
            say(f"learns a {config.tokenizer.kind} tokenizer")
        found = train_tokenizer(texts(), config.tokenizer, task=config.task)
    if start is not None and found.size > (known := _vocabulary(start.model.config)):
        raise ValueError(f"the tokenizer has {found.size} tokens, and {config.model.start} knows {known}")
    save_whole(found, place.tokenizer)
    return literal(found)


def _is_own(config: TrainConfig, place: RunFiles) -> bool:
    start = str(config.model.start)
    return Path(start) == place.start or isinstance(resolve(start), Function)


def _vocabulary(config: Any) -> int:
    return config.encoder.vocabulary if config.kind == "sentence" else config.vocabulary


def save_whole(tokenizer: Tokenizer, target: Path) -> None:
    """Another process, or a run that is resumed, finds all of it or nothing."""
    make_directory(target.parent)
    with replacing(target) as whole:
        tokenizer.save(whole)


def special_tokens(tokenizer: Tokenizer) -> Special:
    """The tokenizer's tokens with a meaning of their own, as a model's configuration has them."""
    end = () if tokenizer.end is None else (tokenizer.end,)
    return Special(begin=tokenizer.begin, end=end, pad=tokenizer.pad)


def model_of(config: TrainConfig, wanted: Frozen, start: Loaded | None, say: Say) -> Any:
    """A fresh model, or one with the weights of another wherever names and shapes agree."""
    if config.lora.rank and start is not None:
        model = _adaptable(config, wanted, start)
    else:
        model = build(wanted, seed=config.seed, std=config.model.std)
    if start is not None and isinstance(model, OwnModule):
        model.load_state_dict(start.model.state_dict())
    elif start is not None and model is not start.model:
        take_over(model, start.model, say)
    return with_dropout(came_from(model, start), config)


def _adaptable(config: TrainConfig, wanted: Frozen, start: Loaded) -> Any:
    """The model to start from itself, for adapters: a second copy of frozen weights would be memory for nothing."""
    where = config.model.start
    if isinstance(start.model, OwnModule):
        raise ValueError(f"{where} is a module of your own, whose maps headway does not know: leave lora out")
    if start.receipt.adapter:
        raise ValueError(
            f"{where} is an adapter already: write the model with it by `headway convert {where} DESTINATION --merge`, "
            "and start from that"
        )
    if start.model.config != wanted:
        raise ValueError(f"the task {config.task} adds parts to {where}, and adapters train none: leave lora out")
    return start.model


def came_from(model: Any, start: Loaded | None) -> Any:
    """The model with what came with the one that it starts from: licence, settings of decoding, processors."""
    if start is not None and start.model.origin is not None:
        model.origin = replace(start.model.origin, trained=True)
        model.generation_defaults = start.model.generation_defaults
    return model


def with_dropout(model: Any, config: TrainConfig) -> Any:
    """The model with the dropout of this run, where one is chosen: weights do not depend on it."""
    for part in model.modules():
        if isinstance(part, nn.Dropout) and config.model.dropout is not None:
            part.p = config.model.dropout
    return model


@torch.no_grad()
def take_over(model: nn.Module, other: nn.Module, say: Say) -> None:
    """Copy what fits; what is left fresh is said by name, and a start of which nothing fits is refused."""
    theirs = dict(other.named_parameters())
    new, taken = [], 0
    for name, parameter in model.named_parameters():
        found = theirs.get(name)
        if found is not None and found.shape == parameter.shape:
            parameter.copy_(found)
            taken += 1
        else:
            new.append(name)
    if not taken:
        raise ValueError(f"no tensor of the {type(other).__name__} to start from fits the {type(model).__name__}")
    say(f"starts from {taken} tensors of another model" + (f"; fresh: {', '.join(new)}" if new else ""))


def spooled(config: TrainConfig, place: RunFiles) -> TrainConfig:
    """Standard input can be read once only: it is kept as a file of the run."""
    data, kept = config.data, place.data / "stdin"
    if "-" in data.train and not kept.exists():
        make_directory(place.data)
        part, given = kept.with_suffix(".part"), stdin_bytes()
        with part.open("wb") as file:
            shutil.copyfileobj(given, file)
        sync(part)
        part.replace(kept)
        sync(place.data)
    train = tuple(str(kept) if one == "-" else one for one in data.train)
    return config.model_copy(update={"data": data.model_copy(update={"train": train})})
