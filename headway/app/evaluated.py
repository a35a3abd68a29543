"""What came out of an evaluation, as text or as an object for JSON."""

import math
from typing import Any

from headway.app.evaluate import Evaluation
from headway.data.measures import f1, precision, recall

WIDEST = 20  # classes of a confusion matrix that is printed; JSON has all of it


def as_json(found: Evaluation) -> dict[str, Any]:
    table = {} if found.table is None else {"labels": list(found.labels), "confusion": found.table.tolist()}
    rows = {"classes": _classes(found)} if table else {}
    samples = {"samples": list(found.samples)} if found.samples else {}
    # JSON has no word for what is not a number.
    measures = {name: value if math.isfinite(value) else None for name, value in found.measures.items()}
    return {
        "task": found.task, **measures, "counts": found.counts, **rows, **table, "notes": list(found.notes),
        **samples,
    }  # fmt: skip


def shown(found: Evaluation) -> str:
    """The numbers in lines, then the classes, who was taken for whom, samples, and what numbers mean."""
    wide = max(map(len, (*found.measures, *found.counts)))
    lines = [f"{name:<{wide}}  {value:.4f}" for name, value in found.measures.items()]
    lines += [f"{name:<{wide}}  {value:,}" for name, value in found.counts.items()]
    if found.table is not None:
        lines += ["", *_class_lines(found)]
        if len(found.labels) <= WIDEST:
            lines += ["", *_confusion_lines(found)]
    for sample in found.samples:
        lines += ["", *(f"{name:<9}  {text}" for name, text in sample.items())]
    return "\n".join([*lines, "", *found.notes])


def _classes(found: Evaluation) -> list[dict[str, Any]]:
    assert found.table is not None
    columns = zip(
        found.labels, precision(found.table), recall(found.table), f1(found.table), found.table.sum(1), strict=True
    )
    return [
        {"label": label, "precision": float(p), "recall": float(r), "f1": float(f), "count": int(count)}
        for label, p, r, f, count in columns
    ]


def _class_lines(found: Evaluation) -> list[str]:
    wide = max(len("class"), *map(len, found.labels))
    head = f"{'class':<{wide}}  precision  recall      f1   count"
    return [
        head,
        *(f"{one['label']:<{wide}}  {one['precision']:9.4f}  {one['recall']:6.4f}  {one['f1']:6.4f}  {one['count']:6,}"
          for one in _classes(found)),
    ]  # fmt: skip


def _confusion_lines(found: Evaluation) -> list[str]:
    assert found.table is not None
    wide = max(len(f"{found.table.max()}"), *(min(len(label), 8) for label in found.labels))
    name = max(map(len, found.labels))
    lines = ["taken for (column), of the class (row)"]
    lines.append(" " * name + "".join(f"  {label[:wide]:>{wide}}" for label in found.labels))
    for label, row in zip(found.labels, found.table.tolist(), strict=True):
        lines.append(f"{label:<{name}}" + "".join(f"  {count:>{wide}}" for count in row))
    return lines
