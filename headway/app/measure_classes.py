"""Classes: accuracy, macro-F1 and who was taken for whom, of texts or of pictures."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from headway.app.evaluate import Asked, Evaluation, Progress, batches, tokenizer_of
from headway.config.base import sides
from headway.data.album import read_album
from headway.data.batch import Examples
from headway.data.labelled import Labelled, samples_of
from headway.data.measures import accuracy, confusion, macro_f1
from headway.data.pictures import Pictures
from headway.hub.load import Loaded


def images(loaded: Loaded, asked: Asked, progress: Progress) -> Evaluation:
    c = loaded.model.config
    album = read_album(
        asked.data.train, size=sides(c.image), channels=c.channels, names=labels_of(c), images=c.images,
        progress=partial(progress, "pictures read"),
    )  # fmt: skip
    return _measured("images", partial(_seen, loaded.model), Pictures(album, c.images), labels_of(c), asked, progress)


def classify(loaded: Loaded, asked: Asked, progress: Progress) -> Evaluation:
    c = loaded.model.config
    if c.outcome != "one":
        raise ValueError(
            f"a classifier with outcome={c.outcome!r} gives no one class for each text: it is not measured"
        )
    length = min(asked.length or c.length, c.length)
    samples = samples_of(asked.data, asked.data.train, paired=asked.data.paired)
    examples = Labelled(samples, tokenizer_of(loaded), length=length, labels=labels_of(c), cut=asked.data.cut)
    return _measured("classify", partial(_read, loaded.model), examples, labels_of(c), asked, progress)


def inference(loaded: Loaded, asked: Asked, progress: Progress) -> Evaluation:
    """What follows logically from what, in labelled pairs."""
    c = loaded.model.config
    labels = c.inference_labels or tuple(str(number) for number in range(c.inference))
    length = min(asked.length or c.length, c.length)
    samples = samples_of(asked.data, asked.data.train, paired=True)
    examples = Labelled(samples, tokenizer_of(loaded), length=length, labels=labels, cut=asked.data.cut)
    return _measured("inference", partial(_followed, loaded.model), examples, labels, asked, progress)


def _followed(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    keep = inputs["keep"]
    return model.inference(model.hidden_states(inputs["tokens"], keep=keep, types=inputs["types"]), keep)


def _seen(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    return model(inputs["images"])


def _read(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    return model(inputs["tokens"], keep=inputs["keep"], types=inputs["types"])


def labels_of(config: Any) -> tuple[str, ...]:
    return tuple(config.label(index) for index in range(config.classes))


def _measured(
    task: str,
    ask: Callable[[dict[str, Tensor]], Tensor],
    examples: Examples,
    labels: tuple[str, ...],
    asked: Asked,
    progress: Progress,
) -> Evaluation:
    right, found, loss = [], [], 0.0
    for _, part in batches(examples, asked.batch, partial(progress, "classified")):
        logits = ask(part.inputs).float()
        if not bool(logits.isfinite().all()):
            raise ValueError("the logits are not finite numbers: the weights are damaged")
        loss += float(F.cross_entropy(logits, part.inputs["label"], reduction="sum"))
        right.append(part.inputs["label"].numpy())
        found.append(logits.argmax(-1).numpy())
    answers = np.concatenate(right)
    table = confusion(answers, np.concatenate(found), classes=len(labels))
    measures = {
        "loss": loss / len(answers), "accuracy": accuracy(table), "macro_f1": macro_f1(table),
        "majority": float(table.sum(1).max() / len(answers)),
    }  # fmt: skip
    note = "majority: the accuracy of always answering the most frequent class of this data"
    return Evaluation(task, measures, {"examples": len(answers)}, (note,), labels, table)
