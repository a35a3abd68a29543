"""A sheet as one JSON object."""

from collections.abc import Sequence
from typing import Any

from headway.cost.part import Line
from headway.cost.setting import Setting
from headway.cost.sheet import Sheet
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
        "length": setting.length,
        "source": setting.source,
        "past": setting.past,
        "lengths": _listed(setting.lengths),
        "source_lengths": _listed(setting.source_lengths),
        "dtype": setting.dtype,
        "checkpointing": setting.checkpointing,
    }


def _listed(values: Sequence[int] | None) -> list[int] | None:
    return None if values is None else list(values)
