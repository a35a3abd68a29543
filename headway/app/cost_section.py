"""The section "Cost" of a report: what a step was expected to take, and what it took. No torch."""

from typing import Any

from headway.app.run import Run
from headway.data.files import read_optional
from headway.render import Html, Section, Table, folded, html_table, joined, paragraph, short

FILE = "cost.json"

_COUNTS = {
    "flops": "FLOPs in products",
    "useful_flops": "of use",
    "executed_flops": "as computed",
    "other_flops": "FLOPs besides",
}
_OPERATION = {
    "path": "operation", "runs": "runs", "parameters": "parameters", "flops": "FLOPs in products",
    "other_flops": "FLOPs besides", "seconds": "seconds expected",
}  # fmt: skip


def cost(run: Run) -> Section | None:
    """Predicted beside measured, phases, memory, and every operation; None of a run that was not priced."""
    found = read_optional(run.path / FILE)
    if not found:
        return None
    try:
        parts = [*_compared(found), _said(found), _phases(found), *_memory(found), _operations(found)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{FILE} is not as `headway train` writes it ({error})") from None
    return Section("Cost", joined(*parts), "cost")


def _compared(found: dict[str, Any]) -> list[Html]:
    if not found["compared"]:
        return []
    rows = [[row["what"], row["predicted"], row["measured"], row["remark"]] for row in found["compared"]]
    return [html_table(Table("One step, predicted beside measured", ["", "predicted", "measured", "remark"], rows))]


def _said(found: dict[str, Any]) -> Html:
    batch, parameters = found["batch"], sum(found["parameters"].values())
    size = f"{batch['rows']:,} rows" + (f" of {batch['length']:,} tokens" if "tokens" in found else "")
    kinds = ", ".join(f"{short(count)} {kind}" for kind, count in found["parameters"].items() if count)
    parts = f", {batch['parts']} times" if batch["parts"] > 1 else ""
    machine = f" Times are those of {found['machine']}." if found["machine"] else ""
    said = f"A step reads {size}{parts}; the model has {parameters:,} parameters: {kinds}.{machine}"
    return joined(paragraph(said), *map(paragraph, found["notes"]))


def _phases(found: dict[str, Any]) -> Html:
    rows = [[name, *(counts[one] for one in _COUNTS)] for name, counts in found["phases"].items()]
    return html_table(Table("What is computed, of one process", ["", *_COUNTS.values()], rows))


def _memory(found: dict[str, Any]) -> list[Html]:
    held = found.get("memory")
    return (
        [html_table(Table("Bytes of a step, expected", ["", "bytes"], [list(one) for one in held.items()]))]
        if held
        else []
    )


def _operations(found: dict[str, Any]) -> Html:
    timed = any(one["seconds"] is not None for one in found["operations"])
    names = [name for name in _OPERATION if timed or name != "seconds"]
    rows = [[one[name] for name in names] for one in found["operations"]]
    said = "FLOPs are of a pass forwards; seconds of one forwards and backwards."
    listed = html_table(Table(f"Operations, as often as they run. {said}", [_OPERATION[name] for name in names], rows))
    return folded(f"{len(rows)} operations", listed)
