"""Memory in words: what takes how much, and what fits."""

from headway.cost.memory import Memory
from headway.cost.price_module import TracedMemory
from headway.cost.sheet import Sheet
from headway.render.table import BYTES, Amount, Cell, Table


def amounts(sheet: Sheet) -> dict[str, int]:
    """Bytes by what they are for, in the order of a report; nothing that a model does not have."""
    if isinstance(sheet.memory, TracedMemory):
        return dict(sheet.memory.rows())
    return _all(sheet.memory) if isinstance(sheet.memory, Memory) else {}


def _all(memory: Memory) -> dict[str, int]:
    found = {
        "weights": memory.weights,
        "gradients": memory.gradients,
        "optimiser state": memory.optimiser,
        "activations saved for the way back": memory.saved + memory.aside,
        "the same with checkpointing": memory.saved_checkpointed,
        "output of a forward pass": memory.logits,
        "peak of a forward pass": memory.peak_forward,
        "peak of a training step": memory.peak_step,
        "the same step with checkpointing": memory.peak_step_checkpointed,
    }
    written = {
        "key/value cache of one token": memory.cache_token,
        "cache in all": memory.cache,
        "peak of a generation": memory.peak_generate,
    }
    return found | {name: count for name, count in written.items() if count}


def memory_table(sheet: Sheet) -> Table | None:
    found = amounts(sheet)
    rows: list[tuple[Cell, ...]] = [(name, count, Amount(count, BYTES)) for name, count in found.items()]
    return Table(f"Memory in {sheet.setting.dtype}", ("what", "bytes", ""), rows) if rows else None


def fit_table(sheet: Sheet) -> Table | None:
    """What fits, and what one more would take."""
    if not sheet.fits:
        return None
    rows = [(f"largest {one.what}", PHASES[one.phase], one.count, Amount(one.bytes, BYTES),
             None if one.more is None or not one.count else Amount(one.more, BYTES)) for one in sheet.fits]  # fmt: skip
    limit = Amount(sheet.fits[0].memory, BYTES)
    return Table(f"Fits into {limit}", ("what", "for", "count", "takes", "one more"), rows)


PHASES = {"step": "a training step", "generate": "a generation", "forward": "a forward pass"}
