"""What the losses take and keep: ops/loss on sizes."""

from collections.abc import Sequence

from headway.cost.memory.bricks import LONG, Run, cast, scaled
from headway.cost.memory.tape import OUT, Piece, Pull, Tape, Value
from headway.ops.loss import ENTRIES, FEW


def linear_cross_entropy(
    run: Run, hidden: Value, width: int, weight: Value, classes: int, targets: Value, *, bias: bool = False,
    scale: float = 1.0,
) -> Value:  # fmt: skip
    """All logits where they are few; else a few rows at a time, whose gradients are made on the spot and kept."""
    rows = hidden.entries // width
    if rows * classes > FEW:
        return _chunked(run, hidden, width, weight, classes, bias)
    x = cast(run, hidden, run.wide)
    x = x if scale == 1.0 else scaled(run, x)
    table = cast(run, weight, run.wide)
    offset = cast(run, run.leaf(classes), run.wide) if bias else None
    sources = (x, table) if offset is None else (x, table, offset)
    logits = run.tape.op(sources, rows * classes, keeps=(x, table))
    return cross_entropy(run, logits, rows, targets)


def cross_entropy(run: Run, logits: Value, rows: int, targets: Value) -> Value:
    """log-softmax keeps its result; the sum over targets keeps them, and a number."""
    tape = run.tape
    logs = tape.op((logits,), logits.entries, keeps=(OUT,))
    total = tape.op((logs,), 1, keeps=(logs, targets, 4))
    tape.scratch(rows * LONG)
    return total


def _chunked(run: Run, hidden: Value, width: int, weight: Value, classes: int, bias: bool) -> Value:
    """Gradients are kept instead of logits."""
    tape, rows, wide = run.tape, hidden.entries // width, run.wide
    part = min(rows, max(1, ENTRIES // classes))
    table = classes * width * wide
    copies = table if run.item != wide else 0
    kept = (hidden.bytes, table, *((classes * wide,) if bias else ())) if tape.learning else ()
    # Of a part: x, the logits (whose gradient takes their place), slope · W, twice where it is scaled. The logits of a
    # part are there until the next ones are.
    two = min(rows, 2 * part)
    scratch = wide * max(part * (classes + (3 if tape.learning else 1) * width), two * (classes + width))
    sources = (hidden, weight, run.leaf(classes)) if bias else (hidden, weight)
    return tape.op(sources, 1, wide, keeps=kept, before=sum(kept) + copies + scratch, pull=_slopes(table))


def _slopes(table: int) -> Pull:
    """The gradients that were kept, times the loss's own."""

    def pull(tape: Tape, slopes: list[Piece | None], sizes: Sequence[int]) -> list[Piece | None]:
        of_x = Piece(tape, sizes[0]) if sizes[0] else None
        tape.scratch(table, sizes[1])
        return [of_x, *(Piece(tape, size) if size else None for size in sizes[1:])]

    return pull
