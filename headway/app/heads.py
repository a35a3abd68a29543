"""The heads of a model that was just trained, seen on an example that was held out (on its first where none was)."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor

from headway.app.heads_section import FILE
from headway.config.run_files import RunFiles
from headway.data.files import write_whole
from headway.hub import load
from headway.look.reading import ModelInputs, read
from headway.look.record import Look
from headway.look.view import look_at
from headway.look.written import as_json
from headway.training.objectives import TrainingSetup

LONGEST = 48  # tokens of a text: as many as one sees at a glance
SEEN = "Seen on the first example that was {} the training; `headway look` shows any other."


def keep_heads(work: TrainingSetup, place: RunFiles) -> Path:
    """Write heads.json beside the run, from the model that was exported; a ValueError says why there is none."""
    return write_whole(place.path / FILE, json.dumps(as_json(heads_of(work, place))) + "\n")


def heads_of(work: TrainingSetup, place: RunFiles) -> Look:
    model, tokenizer, _ = load(place.model)
    examples = work.train if work.validation is None else work.validation
    inputs = examples.batch(np.array([0]), np.array([0])).inputs
    given = GIVEN[work.config.task](inputs)
    sample = read(model, given, tokenizer=tokenizer, title=place.path.name)
    note = SEEN.format("in" if work.validation is None else "held out of")
    return look_at(replace(sample, notes=(note, *sample.notes)))


def _tokens(inputs: Mapping[str, Tensor]) -> ModelInputs:
    """The beginning of one text (or of two, by their types), without its padding."""
    named = {name: inputs[name] for name in ("tokens", "types") if name in inputs}
    return ModelInputs(inputs={name: _real(one, inputs.get("keep"))[:LONGEST] for name, one in named.items()})


def _pair(inputs: Mapping[str, Tensor]) -> ModelInputs:
    source = _real(inputs["source"], inputs["source_keep"])[:LONGEST]
    target = _real(inputs["target"], inputs["target_keep"])[:LONGEST]
    return ModelInputs(inputs=source, pair=target[1:].tolist())  # the start token comes of itself


def _twin(inputs: Mapping[str, Tensor]) -> ModelInputs:
    return ModelInputs(inputs=inputs["tokens_a"][0][: int(inputs["lengths_a"][0])][:LONGEST])


def _image(inputs: Mapping[str, Tensor]) -> ModelInputs:
    return ModelInputs(inputs=inputs["images"][0])


def _real(tokens: Tensor, keep: Tensor | None) -> Tensor:
    return tokens[0] if keep is None else tokens[0][keep[0]]


# Task -> what its examples give a model to read.
GIVEN: dict[str, Callable[[Mapping[str, Tensor]], ModelInputs]] = {
    "language": _tokens, "masked": _tokens, "classify": _tokens, "seq2seq": _pair, "embed": _twin, "images": _image,
}  # fmt: skip
