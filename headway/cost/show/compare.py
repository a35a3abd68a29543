"""Sheets side by side, one column each; and one sheet as a list of named numbers."""

from collections.abc import Mapping, Sequence

from headway.cost.sheet import Sheet
from headway.cost.show.paper_table import model_names
from headway.cost.show.report import PHASE_NAMES, amounts, merged, report, things
from headway.render.table import BYTES, SECONDS, Amount, Cell, Table, share

Quantity = tuple[str, str]  # what, and in which unit
Section = Mapping[Quantity, Cell]


def compare(sheets: Sequence[Sheet]) -> list[Table]:
    """The same quantities of several models, in the sections of a report; a dash where a model has none."""
    found = [sections(sheet) for sheet in sheets]
    names = list(dict.fromkeys(name for one in found for name in one))
    titles = model_names(sheets)
    return [_table(name, titles, [one.get(name, {}) for one in found]) for name in names]


def listed(sheets: Sequence[Sheet]) -> Table:
    """All sections and operations in one table, for a spreadsheet."""
    found = [{**_flat(sections(sheet)), **_operations(sheet)} for sheet in sheets]
    return _table("", model_names(sheets), found)


def whole_report(sheet: Sheet) -> list[Table]:
    """All that is known of one model: its sums, then every table of `report`."""
    return [totals(sheet), *report(sheet)]


def totals(sheet: Sheet) -> Table:
    """The sums of one sheet, in full."""
    rows = [(name, value, unit) for (name, unit), value in _whole(sheet).items()]
    return Table("In all, forwards", ("", "", "unit"), rows)


def sections(sheet: Sheet) -> dict[str, Section]:
    """Every number of a sheet but its operations."""
    depth = {(f"depth, {name}", "steps"): steps for name, steps in sheet.depth.items()}
    phases = {(name, "dense FLOPs"): 2 * cost.dense for name, cost in sheet.phases.items()}
    useful = {(name, "useful FLOPs"): 2 * cost.useful for name, cost in sheet.phases.items()}
    found: dict[str, Section] = {
        "Setting": _setting(sheet),
        "In all, forwards": _whole(sheet),
        "Parameters": {(kind, "parameters"): count for kind, count in sheet.parameters.items()},
        "Phases": {**phases, **useful},
        "Parallel depth": depth,
    }
    if sheet.memory is not None:
        found["Memory"] = {(name, "bytes"): Amount(count, BYTES) for name, count in amounts(sheet).items()}
    if sheet.fits:
        found["Fits"] = {(f"largest {one.what} of {PHASE_NAMES[one.phase]}", one.what): one.count for one in sheet.fits}
    if sheet.reach is not None and sheet.reach.layers:
        last = sheet.reach.layers[-1]
        found["Reach"] = {("after the last layer", things(sheet)): last.largest,
                          ("everything seen from", "layer"): sheet.reach.full_from,
                          ("if heads looked at one position each", things(sheet)): sheet.reach.bound}  # fmt: skip
    if sheet.bottleneck is not None:
        shares = sheet.bottleneck.shares.items()
        found["Share of the dense FLOPs"] = {(part, "share"): share(one) for part, one in shares if one}
        found["Bottleneck"] = {
            ("scores cost as much as projections from", "length"): sheet.bottleneck.overtakes,
            ("scores are the largest part from", "length"): sheet.bottleneck.dominates,
            ("projections cost as much as scores from", "width"): sheet.bottleneck.width,
        }
    if sheet.time is not None:
        times = sheet.time.seconds.items()
        found["Expected time"] = {(name, "seconds"): Amount(value, SECONDS) for name, value in times}
    return found


def _setting(sheet: Sheet) -> Section:
    at = sheet.setting
    writes = "decode" in sheet.phases
    return {
        ("batch", "rows"): at.batch,
        ("image", "rows of pixels"): None if at.image is None else at.image[0],
        ("image", "columns of pixels"): None if at.image is None else at.image[1],
        ("length", "positions"): at.length or None,
        ("source", "positions"): at.source,
        ("in the cache of a decoding step", "positions"): at.past if writes else None,
    }


def _whole(sheet: Sheet) -> Section:
    return {
        ("parameters", "parameters"): sheet.params,
        ("dense", "MACs"): sheet.macs,
        ("dense", "FLOPs"): sheet.flops,
        ("useful", "FLOPs"): sheet.useful_flops,
        ("executed", "FLOPs"): sheet.executed_flops,
        ("other", "FLOPs"): sheet.other_flops,
    }


def _flat(found: dict[str, Section]) -> Section:
    return {quantity: value for section in found.values() for quantity, value in section.items()}


def _operations(sheet: Sheet) -> Section:
    rows: dict[Quantity, Cell] = {}
    for line in merged(sheet.operations):
        rows[f"operation {line.path}", "dense FLOPs"] = line.runs * line.operation.forward.flops
        rows[f"operation {line.path}", "other FLOPs"] = line.runs * line.operation.forward.other
    return rows


def _table(title: str, names: Sequence[str], found: Sequence[Section]) -> Table:
    quantities = list(dict.fromkeys(key for one in found for key, value in one.items() if value is not None))
    rows = [(name, unit, *(one.get((name, unit)) for one in found)) for name, unit in quantities]
    return Table(title, ("quantity", "unit", *names), rows)
