"""The audit as a job: a target is opened, examined, and what was found goes where its readers look."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.adapt.adapter import Adapter, Reading
from headway.adapt.call import call, select_output
from headway.adapt.guess import guess_adapter
from headway.adapt.inputs import draw_reading, fit_length
from headway.adapt.model import AdaptedModel, restoring
from headway.app.audit_section import FILE
from headway.app.report import report as write_report
from headway.audit.health import Health, diagnose
from headway.audit.health.show import section
from headway.audit.html import document
from headway.audit.laws import LAWS
from headway.audit.report import Report
from headway.config.run_files import CONFIG, METRICS
from headway.data.files import write_whole
from headway.data.lines import beginning
from headway.hub.load import OpenModel
from headway.render import page

ITEMS, LENGTH = 4, 128  # what the state of a model is measured on: enough for a mean, little enough for a minute


def sentences() -> dict[str, str]:
    return {name: law.sentence for name, law in LAWS.items()}


def report_page(report: Report) -> str:
    """The report as a page of its own."""
    return document(report, sentences())


def write_beside_run(run: Path, found: Report) -> Path | None:
    """Beside the run: audit.json, and the page of the run with it; None where it has nothing to show yet."""
    if not ((run / METRICS).is_file() and (run / CONFIG).is_file()):
        return None
    write_whole(run / FILE, json.dumps(found.as_json() | {"sentences": sentences()}, indent=1) + "\n")
    return write_report(run)


def diagnose_target(
    found: OpenModel, adapter: Adapter | None, overrides: Mapping[str, Any], *, data: str | None, seed: int
) -> Health:
    """The state of a model's attention on a text, or on random inputs."""
    with restoring(found.model):
        subject = AdaptedModel(found.model, guess_adapter(found.model, adapter, overrides), found.name)
        a = subject.adapter
        given = draw_reading(a, seed=seed, length=fit_length(a, LENGTH), items=ITEMS, source=LENGTH // 2)
        given = subject.prepare(given if data is None else replace(given, **_text(found, subject, data)))
        tokens = given.inputs if subject.adapter.inputs == "tokens" else None
        return diagnose(subject.module, lambda: _result(subject, given), tokens=tokens)


def _result(subject: AdaptedModel, given: Reading) -> Tensor:
    """With gradients, which the measures by depth need."""
    return select_output(call(subject.module, subject.adapter, given), subject.adapter.output)


def _text(found: OpenModel, subject: AdaptedModel, data: str) -> dict[str, Tensor]:
    """The beginning of a file as rows of tokens."""
    if found.tokenizer is None or subject.adapter.inputs != "tokens":
        raise ValueError(f"{found.name} has no tokenizer to read {data} with: leave --data out for random inputs")
    text = beginning(Path(data), size=64 * ITEMS * LENGTH)
    ids = found.tokenizer.encode(text)
    if not ids or not text.strip():  # of no text there are special tokens still
        raise ValueError(f"{data} is empty: there is no text in it to look at")
    length = fit_length(subject.adapter, LENGTH)
    rows = min(ITEMS, len(ids) // length)
    if rows < 1:
        length, rows = fit_length(subject.adapter, len(ids)), 1
    tokens = torch.tensor(ids[: rows * length]).reshape(rows, length)
    return {"inputs": tokens, "labels": torch.zeros_like(tokens)}


def health_page(name: str, health: Health) -> str:
    return page(name, [section(health)])
