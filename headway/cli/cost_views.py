"""The views of `headway cost`: each makes tables, and one place prints them."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway.cost.input_lengths import PriceRequest
from headway.cost.price import drafted, price
from headway.cost.sheet import Sheet
from headway.cost.show.compare import compare, listed, whole_report
from headway.cost.show.explain import explain_table, explain_text
from headway.cost.show.formula import formula_record, formula_table, remarks
from headway.cost.show.paper_table import paper_table, read_rows
from headway.cost.show.record import as_json
from headway.cost.show.report import sentences, title, units
from headway.cost.show.sweep import read_sweep, sweep_record, sweep_table, swept
from headway.render.formats import LATEX, MARKDOWN, records
from headway.render.table import Table

if TYPE_CHECKING:
    from headway.cli.cost import CostView, PaperTable
    from headway.cli.output import Output


@dataclass(frozen=True)
class Job:
    """What was asked for on the command line, checked as far as it can be without a model."""

    targets: tuple[str, ...]
    given: dict[str, Any]
    mode: str
    view: "CostView"
    paper: "PaperTable"
    output: "Output"
    memory: str | None

    @property
    def named(self) -> Iterator[tuple[str, str]]:
        """Targets, and what tables call them."""
        names = self.paper.names or []
        return zip(self.targets, (*names, *self.targets[len(names) :]), strict=True)


def run(job: Job) -> int:
    """The view that was asked for."""
    return {"report": _report, "units": _units, "formula": _formula, "explain": _explain, "sweep": _sweep,
            "verify": _verify, "machine": _machine}[job.mode](job)  # fmt: skip


def _report(job: Job) -> int:
    rows = read_rows(job.paper.rows)
    sheets = [price(target, **job.given, memory=job.memory, name=name) for target, name in job.named]
    if job.paper.rows is not None or (job.output.format in (LATEX, MARKDOWN) and not job.paper.full):
        made = paper_table(sheets, rows, label=job.paper.label, transpose=job.paper.transpose)
        _print(job, "", [made], made, None)
    elif len(sheets) == 1:
        sheet = sheets[0]
        _print(job, title(sheet), whole_report(sheet), listed(sheets), as_json(sheet), sentences(sheet))
    else:
        _print(job, "", compare(sheets), listed(sheets), [as_json(sheet) for sheet in sheets])
    _note(sheets)
    return 0


def _units(job: Job) -> int:
    tables = units()
    record = {one.title: records(one) for one in tables}
    _print(job, "", tables, tables[0], record)
    return 0


def _formula(job: Job) -> int:
    sheets = [drafted(target, PriceRequest(**job.given), name=name) for target, name in job.named]
    tables = [formula_table(sheet) for sheet in sheets]
    objects = [formula_record(sheet) for sheet in sheets]
    flat = _flat([sheet.name for sheet in sheets], tables)
    said = [line for sheet in sheets for line in remarks(sheet)]
    _print(job, "", tables, flat, objects[0] if len(objects) == 1 else objects, said)
    return 0


def _explain(job: Job) -> int:
    sheets = [drafted(target, PriceRequest(**job.given), name=name) for target, name in job.named]
    if job.output.text:
        job.output.put("\n".join(f"{title(sheet)}\n\n{explain_text(sheet)}" for sheet in sheets))
        return 0
    tables = [explain_table(sheet) for sheet in sheets]
    flat = _flat([sheet.name for sheet in sheets], tables)
    _print(job, "", tables, flat, records(flat))
    return 0


def _sweep(job: Job) -> int:
    from headway.cost.show import sweep as drawing

    sweep = read_sweep(job.view.sweep or "")
    if job.view.plot is not None:
        drawing.require(job.view.plot)
        if len(job.targets) > 1:
            raise ValueError("--plot draws one model: name one target")
    found = [swept(sweep, target, PriceRequest(**job.given), name=name) for target, name in job.named]
    tables = [sweep_table(sweep, sheets) for sheets in found]
    objects = [one for sheets in found for one in sweep_record(sweep, sheets)]
    _print(job, "", tables, _flat([sheets[0].name for sheets in found], tables), objects)
    if job.view.plot is not None:
        drawing.plot(sweep, found[0], job.view.plot)
        print(f"plot: {job.view.plot}", file=sys.stderr)
    return 0


def _verify(job: Job) -> int:
    """The model with random weights; what was predicted stands beside what was measured."""
    from headway.cost.show.report import check_room, mistaken, verified_record, verified_table
    from headway.cost.verify import verify

    for target, name in job.named:
        check_room(drafted(target, PriceRequest(**job.given), name=name))
    sheets = [price(target, **job.given, name=name) for target, name in job.named]
    checks = [list(verify(sheet)) for sheet in sheets]
    tables = [verified_table(sheet, found) for sheet, found in zip(sheets, checks, strict=True)]
    objects = [verified_record(sheet, found) for sheet, found in zip(sheets, checks, strict=True)]
    flat = _flat([sheet.name for sheet in sheets], tables)
    _print(job, "", tables, flat, objects[0] if len(objects) == 1 else objects)
    wrong = [f"{sheet.name}: {name}" for sheet, found in zip(sheets, checks, strict=True) for name in mistaken(found)]
    for line in wrong:
        print(f"note: a count that is exact differs, which is an error in headway: {line}", file=sys.stderr)
    return int(bool(wrong))


def _machine(job: Job) -> int:
    from headway.cost.time.machine import measure

    machine = measure(lambda line: print(line, file=sys.stderr, flush=True))
    rows = [(dtype, machine.peak(dtype) / 1e9, machine.bandwidth(dtype) / 1e9, machine.ridge(dtype))
            for dtype in machine.rates]  # fmt: skip
    made = Table(str(machine), ("dtype", "GFLOP/s", "GB/s", "FLOPs per byte at the ridge"), rows)
    _print(job, "", [made], made, machine.as_json())
    return 0


def _flat(names: Sequence[str], tables: Sequence[Table]) -> Table:
    """Tables of several models as one, each row under its model's name."""
    rows = [(name, *row) for name, one in zip(names, tables, strict=True) for row in one.rows]
    return Table("", ("model", *tables[0].columns), rows)


def _print(job: Job, head: str, tables: Sequence[Table], flat: Table, record: Any, said: Sequence[str] = ()) -> None:
    job.output.write(tables, record=record, title=head, notes=said, flat=flat)


def _note(sheets: Sequence[Sheet]) -> None:
    """What is to be said besides, on stderr; what is true of several models is said once."""
    said: dict[str, list[str]] = {}
    for sheet in sheets:
        for line in sheet.notes:
            said.setdefault(line, []).append(sheet.name)
    for line, names in said.items():
        whose = "" if len(names) == len(sheets) else f"{', '.join(names)}: "
        print(f"note: {whose}{line}", file=sys.stderr)
