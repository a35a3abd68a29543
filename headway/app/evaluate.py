"""How good a model is, on data of the user's own: losses, accuracies, F1, BLEU and chrF, by the kind of the model."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headway.app.settings import read
from headway.config.train import CONFIG, DataConfig
from headway.data.batch import Batch, Examples
from headway.data.learn import literal
from headway.data.tokenizer import Tokenizer
from headway.hub import target
from headway.hub.load import Loaded
from headway.training.evaluate import by_size

Progress = Callable[[str, int, int], None]  # of what, done, of how many (0: nobody knows)

# Kind of a model -> tasks that it can be asked; the first that it has a head for is asked where nobody says.
TASKS = {
    "language": ("language",),
    "masked": ("classify", "masked", "inference"),
    "seq2seq": ("seq2seq",),
    "recurrent": ("seq2seq",),
    "vision": ("images",),
    "davit": ("images",),
    "sentence": ("embed",),
    "vectors": (),  # neither words nor classes
}
# Task -> the function that measures it.
MEASURED = {
    "language": "headway.app.measure_text:language",
    "masked": "headway.app.measure_text:masked",
    "classify": "headway.app.measure_classes:classify",
    "inference": "headway.app.measure_classes:inference",
    "images": "headway.app.measure_classes:images",
    "seq2seq": "headway.app.measure_pairs:seq2seq",
    "embed": "headway.app.measure_pairs:embed",
}


@dataclass(frozen=True)
class Asked:
    """What is measured, and how."""

    data: DataConfig  # `train` is the data
    length: int | None = None  # tokens of a window or text at most; None: as many as the model reads
    stride: int | None = None  # of windows; None: side by side
    batch: int = 32
    beams: int | None = None
    max_new_tokens: int = 256
    samples: int = 5
    score: str | None = None  # the column of how alike two texts are


@dataclass(frozen=True)
class Evaluation:
    """What came out: numbers by name, and for classes a table."""

    task: str
    measures: dict[str, float]
    counts: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what a number means, such as a signature
    labels: tuple[str, ...] = ()
    table: np.ndarray | None = None  # class i (row) taken for class j (column)
    samples: tuple[dict[str, str], ...] = ()


def place_of(directory: str) -> tuple[Path, dict[str, Any]]:
    """The directory of a model, or of a run's model with the run's own settings of data and length."""
    found = target.directory(directory)
    return found.path, {} if found.run is None else read(found.run / CONFIG)


def task_of(config: Any, asked: str | None, path: Path) -> str:
    """The task to measure, after a look at whether the model can do it."""
    able = [task for task in TASKS[config.kind] if _has_head(config, task)]
    if not able:
        raise ValueError(f"{path} holds a {config.kind} model without a head: there is nothing to measure")
    if asked is not None and asked not in able:
        raise ValueError(f"{path} holds a {config.kind} model, which is measured by {' or '.join(able)}, not {asked}")
    return asked or able[0]


def _has_head(config: Any, task: str) -> bool:
    if task in ("classify", "images"):
        return bool(config.classes)
    if task == "inference":
        return bool(config.inference)
    return task != "masked" or config.words or config.adjacent or config.inverted


def evaluate(loaded: Loaded, task: str, asked: Asked, progress: Progress) -> Evaluation:
    """Measure a model on data; nothing in it is random."""
    module, _, name = MEASURED[task].partition(":")
    with torch.inference_mode():
        return getattr(import_module(module), name)(loaded, asked, progress)


def tokenizer_of(loaded: Loaded) -> Tokenizer:
    if loaded.tokenizer is None:
        raise ValueError(f"{loaded.receipt.path} has no tokenizer (tokenizer.json), so it cannot read text")
    # Data is read as it was in training: whoever writes "<|end|>" in a text means these letters.
    return literal(loaded.tokenizer)


def batches(examples: Examples, size: int, progress: Callable[[int, int], None]) -> Iterator[tuple[np.ndarray, Batch]]:
    """All examples, similar sizes together, with their numbers; what is random in one is drawn from its number."""
    order = by_size(examples, len(examples))
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        yield rows, examples.batch(rows, rows.astype(np.int64))
        progress(min(start + size, len(order)), len(order))


def sums(
    model: Any, objective: Callable[..., Any], examples: Examples, size: int, progress: Callable[[int, int], None]
) -> tuple[dict[str, float], dict[str, float], dict[str, int]]:
    """Over all examples, by name: the sum of losses, how many answers are right, and of how many."""
    losses: dict[str, float] = {}
    hits: dict[str, float] = {}
    counts: dict[str, int] = {}
    for _, batch in batches(examples, size, progress):
        found = objective(model, batch.inputs)
        losses |= {name: losses.get(name, 0.0) + float(value) for name, value in found.losses.items()}
        hits |= {name: hits.get(name, 0.0) + float(value) for name, value in found.hits.items()}
        counts |= {name: counts.get(name, 0) + value for name, value in batch.counts.items()}
    return losses, hits, counts
