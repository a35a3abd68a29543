"""A sheet as one JSON object for programs, and as HTML for a notebook: the sums first, the tables folded below."""

from collections.abc import Sequence
from typing import Any

from headway.cost.op_tree import Line
from headway.cost.setting import Setting
from headway.cost.sheet import Sheet
from headway.cost.show.report import report, sentences, sums, title
from headway.render import Fact, Html, escaped, facts, folded, html_table, joined, number, paragraph, short
from headway.sizes import Cost


def as_json(sheet: Sheet) -> dict[str, Any]:
    """FLOPs are of one forward pass; `phases` has the others."""
    return {
        "name": sheet.name,
        "params": sheet.params,
        "macs": sheet.macs,
        "flops": sheet.flops,
        "useful_flops": sheet.useful_flops,
        "executed_flops": sheet.executed_flops,
        "other_flops": sheet.other_flops,
        "memory": _memory(sheet),
        "depth": dict(sheet.depth),
        "reach": _own(sheet.reach),
        "bottleneck": _own(sheet.bottleneck),
        "time": _own(sheet.time),
        **({} if sheet.quantized is None else {"quantized": sheet.quantized.as_json()}),
        "parameters": dict(sheet.parameters),
        "phases": {name: _cost(cost) for name, cost in sheet.phases.items()},
        "operations": [_line(line) for line in sheet.operations],
        "setting": _setting(sheet.setting),
        "notes": list(sheet.notes),
    }


def _memory(sheet: Sheet) -> Any:
    found = _own(sheet.memory)
    return {**found, "fits": [one.as_json() for one in sheet.fits]} if found is not None and sheet.fits else found


def _own(part: Any) -> Any:
    """A part says itself what it is."""
    return None if part is None else part.as_json()


def _cost(cost: Cost, runs: int = 1) -> dict[str, int | None]:
    return {
        "macs": runs * cost.dense,
        "flops": 2 * runs * cost.dense,
        "useful_flops": 2 * runs * cost.useful,
        "executed_flops": None if cost.executed is None else 2 * runs * cost.executed,
        "other_flops": runs * cost.other,
    }


def _line(line: Line) -> dict[str, Any]:
    operation = line.operation
    return {
        "path": line.path,
        "kind": operation.kind,
        "runs": line.runs,
        "params": line.sets * operation.parameters,
        "shape": list(operation.shape),
        **_cost(operation.forward, line.runs),
        "backward": _cost(operation.backward, line.runs),
        "read": line.runs * operation.reads,
        "written": line.runs * operation.writes,
    }


def _setting(setting: Setting) -> dict[str, Any]:
    return {
        "batch": setting.batch,
        "length": setting.length or None,
        "image": None if setting.image is None else list(setting.image),
        "source": setting.source,
        "past": setting.past,
        "lengths": _listed(setting.lengths),
        "source_lengths": _listed(setting.source_lengths),
        "dtype": setting.dtype,
        "checkpointing": setting.checkpointing,
    }


def _listed(values: Sequence[int] | None) -> list[int] | None:
    return None if values is None else list(values)


# A notebook has no style sheet of ours: only what makes numbers readable.
STYLE = (
    "<style>.headway-cost .facts{display:flex;flex-wrap:wrap;gap:.4rem 1.6rem;margin:.4rem 0}"
    ".headway-cost dt{opacity:.7;font-weight:400}.headway-cost dd{margin:0;font-weight:600}"
    ".headway-cost dd.note{font-weight:400;opacity:.7;font-size:.85em}"
    ".headway-cost table{font-variant-numeric:tabular-nums}.headway-cost .number{text-align:right}"
    ".headway-cost caption{text-align:left}.headway-cost .scroll{overflow-x:auto}</style>"
)


def html(sheet: Sheet) -> str:
    """What `_repr_html_` gives."""
    return f'{STYLE}<div class="headway-cost"><strong>{escaped(title(sheet))}</strong>{body(sheet)}</div>'


def body(sheet: Sheet) -> Html:
    """The parts without a frame, for any page."""
    tables = [folded(one.title, html_table(one)) for one in report(sheet)]
    return joined(cards(sheet), *map(paragraph, sentences(sheet)), *tables, *map(paragraph, sheet.notes))


def cards(sheet: Sheet) -> Html:
    """The sums, in a few digits with all of them below."""
    found = [Fact(name, short(value), number(value)) for name, value in sums(sheet).items() if value is not None]
    return facts(f"The price of {sheet.name}", found)
