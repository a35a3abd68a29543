"""One compact table of several models for a paper: chosen quantities, one unit a row, what each model was priced at.

>>> from headway.cost.price import drafted
>>> from headway.cost.input_lengths import PriceRequest
>>> sheets = [drafted(name, PriceRequest(length=1024)) for name in ("gpt2", "gpt2-medium")]
>>> made = paper_table(sheets, ("params", "flops"))
>>> made.title
'Cost at batch 1, length 1,024, float32; a multiply-add is 2 FLOPs'
>>> [[str(cell) for cell in row] for row in made.rows]
[['parameters (M)', '124.4', '354.8'], ['FLOPs, forward (G)', '291.6', '827.0']]
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headway.config import nearest
from headway.cost.sheet import Sheet
from headway.cost.show.report import sizes
from headway.render.table import Table

COUNT, BYTES, SECONDS, WHOLE = "", "B", "s", "whole"
SCALES = {
    COUNT: (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)),
    BYTES: (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)),
    SECONDS: (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)),
    WHOLE: (("", 1.0),),
}
DEFAULT = ("params", "flops", "step_flops", "memory_forward", "memory")


@dataclass(frozen=True)
class Quantity:
    """What a row is called, what its unit scales like, and its value in a sheet; None where a model has none."""

    name: str
    unit: str
    value: Callable[[Sheet], int | float | None]


@dataclass(frozen=True)
class Rounded:
    """A number in the unit of its row; it prints with two decimals below 10, one above."""

    value: float
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.value:,.0f}" if self.whole else f"{self.value:,.{2 if self.value < 10 else 1}f}"


def _flops(phase: str) -> Callable[[Sheet], int | None]:
    return lambda sheet: sheet.phases[phase].flops if phase in sheet.phases else None


def _bytes(field: str) -> Callable[[Sheet], int | None]:
    return lambda sheet: getattr(sheet.memory, field, None) or None


def _seconds(phase: str) -> Callable[[Sheet], float | None]:
    return lambda sheet: None if sheet.time is None else sheet.time.seconds.get(phase)


def _reach(sheet: Sheet) -> int | None:
    return sheet.reach.layers[-1].largest if sheet.reach is not None and sheet.reach.layers else None


QUANTITIES = {
    "params": Quantity("parameters", COUNT, lambda sheet: sheet.params),
    "macs": Quantity("MACs, forward", COUNT, lambda sheet: sheet.macs),
    "flops": Quantity("FLOPs, forward", COUNT, lambda sheet: sheet.flops),
    "useful_flops": Quantity("useful FLOPs, forward", COUNT, lambda sheet: sheet.useful_flops),
    "executed_flops": Quantity("executed FLOPs, forward", COUNT, lambda sheet: sheet.executed_flops),
    "other_flops": Quantity("FLOPs beside the products, forward", COUNT, lambda sheet: sheet.other_flops),
    "step_flops": Quantity("FLOPs, training step", COUNT, _flops("step")),
    "decode_flops": Quantity("FLOPs, one more token", COUNT, _flops("decode")),
    "depth": Quantity("parallel depth (steps)", WHOLE, lambda sheet: sheet.depth["tree"]),
    "reach": Quantity("reach of the last layer (inputs)", WHOLE, _reach),
    "weights": Quantity("weights", BYTES, _bytes("weights")),
    "activations": Quantity("activations kept for the backward pass", BYTES, _bytes("saved")),
    "memory_forward": Quantity("peak memory, forward", BYTES, _bytes("peak_forward")),
    "memory": Quantity("peak memory, training step", BYTES, _bytes("peak_step")),
    "memory_generate": Quantity("peak memory, generation", BYTES, _bytes("peak_generate")),
    "cache_token": Quantity("key/value cache of a token", BYTES, _bytes("cache_token")),
    "seconds": Quantity("expected time, forward", SECONDS, _seconds("forward")),
    "step_seconds": Quantity("expected time, training step", SECONDS, _seconds("step")),
}


def read_rows(text: str | None) -> tuple[str, ...]:
    """The quantities that were asked for, separated by commas.

    >>> read_rows("params, flops")
    ('params', 'flops')
    """
    names = DEFAULT if text is None else tuple(name.strip().replace("-", "_") for name in text.split(","))
    for name in names:
        if name not in QUANTITIES:
            hint = nearest(name, QUANTITIES)
            raise ValueError(f"there is no row {name!r}{hint}; there are {', '.join(QUANTITIES)}")
    return names


def paper_table(
    sheets: Sequence[Sheet], rows: Sequence[str] = DEFAULT, *, label: str = "tab:cost", transpose: bool = False
) -> Table:
    """Quantities down and models across, or the other way round; models of different inputs get a row that says so."""
    asked = [sizes(sheet) for sheet in sheets]
    shared = asked[0] if len(set(asked)) == 1 else None
    found = [] if shared else [("priced at", *asked)]
    found += [_row(QUANTITIES[name], sheets) for name in rows]
    columns = ("", *model_names(sheets))
    if transpose:
        columns, *found = zip(("model", *columns[1:]), *found, strict=True)
    at = f" at {shared}" if shared else ""
    return Table(f"Cost{at}; a multiply-add is 2 FLOPs", columns, found, label=label)


def _row(quantity: Quantity, sheets: Sequence[Sheet]) -> tuple[object, ...]:
    """All models in one unit: the largest in which the smallest of them is at least 1."""
    values = [quantity.value(sheet) for sheet in sheets]
    known = [value for value in values if value]
    scales = SCALES[quantity.unit]
    name, scale = next((one for one in scales if known and min(known) >= one[1]), scales[-1])
    whole = scale == 1.0 and quantity.unit != SECONDS
    cells = [None if value is None else Rounded(value / scale, whole) for value in values]
    return (f"{quantity.name} ({name})" if name else quantity.name, *cells)


def model_names(sheets: Sequence[Sheet]) -> list[str]:
    """Names of models; one that stands twice gets a number."""
    names = [sheet.name for sheet in sheets]
    return [f"{name} ({names[: place + 1].count(name)})" if names.count(name) > 1 else name
            for place, name in enumerate(names)]  # fmt: skip
