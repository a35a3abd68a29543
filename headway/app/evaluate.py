"""How good a model is on data of the user's own: which task fits a model, and its measures as text or JSON."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from headway.app import metrics
from headway.app.metrics import EvalSettings, Evaluation, Progress
from headway.data.measures import f1, precision, recall
from headway.hub.load import Loaded
from headway.render import Amount, Table

WIDEST = 20  # classes of a confusion matrix that is printed; JSON has all of it


def task_of(config: Any, task: str | None, path: Path) -> str:
    """The task to measure: `task` where the model can do it, else the first that it has a head for."""
    able = [one for one in config.measures if _has_head(config, one)]
    if not able:
        raise ValueError(f"{path} holds a {config.kind} model without a head: there is nothing to measure")
    if task is not None and task not in able:
        raise ValueError(f"{path} holds a {config.kind} model, which is measured by {' or '.join(able)}, not {task}")
    return task or able[0]


def _has_head(config: Any, task: str) -> bool:
    if task in ("classify", "images"):
        return bool(config.classes)
    if task == "inference":
        return bool(config.inference)
    return task != "masked" or config.words or config.adjacent or config.inverted


def evaluate(loaded: Loaded, task: str, settings: EvalSettings, progress: Progress) -> Evaluation:
    """Measure a model on data; nothing in it is random."""
    with torch.inference_mode():
        found = getattr(metrics, task)(loaded, settings, progress)
    warning = loaded.receipt.warning
    return replace(found, notes=(*found.notes, f"weights that are {warning}")) if warning else found


def as_json(found: Evaluation, plain: Evaluation | None = None) -> dict[str, Any]:
    """`plain`: the same of the model before its weights were quantised."""
    table = {} if found.table is None else {"labels": list(found.labels), "confusion": found.table.tolist()}
    rows = {"classes": _classes(found)} if table else {}
    samples = {"samples": list(found.samples)} if found.samples else {}
    beside = {} if plain is None else {"not_quantised": _finite(plain.measures)}
    return {
        "task": found.task, **_finite(found.measures), **beside, "counts": found.counts, **rows, **table,
        "notes": list(found.notes), **samples,
    }  # fmt: skip


def _finite(measures: Mapping[str, float]) -> dict[str, float | None]:
    """JSON has no word for what is not a number."""
    return {name: value if math.isfinite(value) else None for name, value in measures.items()}


def tables(found: Evaluation, plain: Evaluation | None = None) -> list[Table]:
    """The measures and counts; of a classifier its classes, and the confusion matrix where it is not too wide.

    `plain`: the same of the model before its weights were quantised, which stands beside.
    """
    measures = [(name, Amount(value, text=f"{value:.4f}")) for name, value in found.measures.items()]
    made = [Table("Measures", ("measure", "value"), [*measures, *found.counts.items()])]
    if plain is not None:
        made.append(_beside(found, plain))
    if found.table is None:
        return made
    shares = ("precision", "recall", "f1")
    rows = [
        (one["label"], *(Amount(one[name], text=f"{one[name]:.4f}") for name in shares), one["count"])
        for one in _classes(found)
    ]
    made.append(Table("Classes", ("class", *shares, "count"), rows))
    if len(found.labels) <= WIDEST:
        counts = [(label, *row) for label, row in zip(found.labels, found.table.tolist(), strict=True)]
        made.append(Table("Predicted (column), of the class (row)", ("class", *found.labels), counts))
    return made


def _beside(found: Evaluation, plain: Evaluation) -> Table:
    rows = [
        (name, Amount(value, text=f"{value:.4f}"), Amount(was, text=f"{was:.4f}"), _change(value, was))
        for (name, value), was in zip(found.measures.items(), plain.measures.values(), strict=True)
    ]
    return Table("Beside the weights as they are", ("measure", "quantised", "not quantised", "change"), rows)


def _change(value: float, was: float) -> str:
    return f"{100 * (value / was - 1):+.2f} %" if was and math.isfinite(value / was) else ""


def samples_text(found: Evaluation) -> list[str]:
    """The samples, a paragraph each."""
    return [line for one in found.samples for line in (*(f"{name:<9}  {text}" for name, text in one.items()), "")]


def _classes(found: Evaluation) -> list[dict[str, Any]]:
    assert found.table is not None
    columns = zip(
        found.labels, precision(found.table), recall(found.table), f1(found.table), found.table.sum(1), strict=True
    )
    return [
        {"label": label, "precision": float(p), "recall": float(r), "f1": float(f), "count": int(count)}
        for label, p, r, f, count in columns
    ]
