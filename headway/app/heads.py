"""The heads of a trained model, on an example that was held out of its training: heads.json and the report's section.

Reading it imports no torch.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.app.run import Run
from headway.config.run_files import RunFiles
from headway.data.files import read_optional, write_whole
from headway.look.page import section
from headway.look.record import Look, as_json, from_json
from headway.render import Section

FILE = "heads.json"
LONGEST = 48  # tokens of a text: as many as one sees at a glance
SEEN = "Seen on the first example that was {} the training; `headway look` shows any other."

Inputs = Mapping[str, Any]  # tensors by name


def heads(run: Run) -> Section | None:
    """Every head, as the page of `headway look` has them; None of a run without heads.json."""
    found = read_heads(run.path)
    return None if found is None else section(found)


def read_heads(run: Path) -> Look | None:
    """What was recorded when the run ended; None where nothing was."""
    found = read_optional(run / FILE)
    if not found:
        return None
    try:
        return from_json(found)
    except ValueError as error:
        raise ValueError(f"{FILE} is not as `headway train` writes it ({error})") from None


def write_heads(work: Any, place: RunFiles) -> Path:
    """Write heads.json of a TrainingSetup, from the exported model; a ValueError says why there is none."""
    return write_whole(place.path / FILE, json.dumps(as_json(heads_of(work, place))) + "\n")


def heads_of(work: Any, place: RunFiles) -> Look:
    """The heads of the exported model on the first example of a TrainingSetup."""
    import numpy as np

    from headway.hub import load
    from headway.look.reading import ModelInputs, read
    from headway.look.view import look_at

    model, tokenizer, _ = load(place.model)
    examples = work.train if work.validation is None else work.validation
    inputs = examples.batch(np.array([0]), np.array([0])).inputs
    given = ModelInputs(**GIVEN[work.config.task](inputs))
    sample = read(model, given, tokenizer=tokenizer, title=place.path.name)
    note = SEEN.format("in" if work.validation is None else "held out of")
    return look_at(replace(sample, notes=(note, *sample.notes)))


def _tokens(inputs: Inputs) -> dict[str, Any]:
    """The beginning of one text (or of two, by their types), without its padding."""
    named = {name: inputs[name] for name in ("tokens", "types") if name in inputs}
    return {"inputs": {name: _real(one, inputs.get("keep"))[:LONGEST] for name, one in named.items()}}


def _pair(inputs: Inputs) -> dict[str, Any]:
    source = _real(inputs["source"], inputs["source_keep"])[:LONGEST]
    target = _real(inputs["target"], inputs["target_keep"])[:LONGEST]
    return {"inputs": source, "pair": target[1:].tolist()}  # the start token comes of itself


def _twin(inputs: Inputs) -> dict[str, Any]:
    return {"inputs": inputs["tokens_a"][0][: int(inputs["lengths_a"][0])][:LONGEST]}


def _image(inputs: Inputs) -> dict[str, Any]:
    return {"inputs": inputs["images"][0]}


def _real(tokens: Any, keep: Any) -> Any:
    return tokens[0] if keep is None else tokens[0][keep[0]]


# Task -> what its examples give a model to read: fields of ModelInputs.
GIVEN: dict[str, Callable[[Inputs], dict[str, Any]]] = {
    "language": _tokens, "instruct": _tokens, "dpo": _tokens, "masked": _tokens, "classify": _tokens, "seq2seq": _pair,
    "embed": _twin, "images": _image,
}  # fmt: skip
