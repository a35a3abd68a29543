"""Which kernel does an operation, how much work it is there, and at which sizes its rate is looked up.

Work is multiply-adds for products and attention, and bytes for everything that only streams. What a block takes beyond
its kernels (Python between them) is charged to its attention, of which every block has one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

from headway.cost.part import Line
from headway.cost.setting import BYTES
from headway.cost.time.rates import Rates
from headway.ops.loss import ENTRIES, FEW
from headway.sizes import Cost, Operation

FORWARD, LEARNING, BACKWARD, UPDATE, DECODING = "forward", "learning", "backward", "update", "decoding"
WIDE = 2**13  # columns from which on a product is a head over a vocabulary, if they are many more than its inputs
PHASES = (FORWARD, LEARNING, BACKWARD, UPDATE, DECODING)


@dataclass(frozen=True)
class Held:
    """What the operations of a model use in turn: bytes of weights, and bytes of one entry."""

    weights: float
    itemsize: int

    @classmethod
    def of(cls, lines: Iterable[Line], dtype: str) -> "Held":
        if dtype not in BYTES:
            raise ValueError(f"there is no precision {dtype!r}; there are {', '.join(BYTES)}")
        entries = sum(
            line.sets * _table(line.operation) for line in lines if line.runs and line.operation.kind != "embedding"
        )
        return cls(float(entries * BYTES[dtype]), BYTES[dtype])


def seconds_of(rates: Rates, line: Line, phase: str, held: Held) -> float:
    """An operation as often as it runs, in one phase; decoding is forward, one token at a time."""
    if phase not in PHASES:
        raise ValueError(f"there is no phase {phase!r}; there are {', '.join(PHASES)}")
    if phase == UPDATE:
        return line.sets * _update(rates, line.operation, held)
    if line.path.endswith("dropout"):
        return line.runs * _streamed(rates, "elementwise" if phase == BACKWARD else "dropout", line.operation, held)
    return line.runs * _once(rates, line.operation, phase, held)


def _once(rates: Rates, operation: Operation, phase: str, held: Held) -> float:
    if operation.kind in ("product", "convolution"):
        return _product(rates, operation, phase, held)
    if operation.kind == "attention":
        return _attention(rates, operation, phase, held)
    if operation.kind == "embedding":
        return _embedding(rates, operation, phase, held)
    return _stream(rates, operation, phase, held)


def executed(cost: Cost) -> float:
    """Multiply-adds that are really done; all pairs where nobody knows."""
    return float(cost.dense if cost.executed is None else cost.executed)


def _cost(operation: Operation, phase: str) -> Cost:
    return operation.backward if phase == BACKWARD else operation.forward


def _kernel(phase: str) -> str:
    return FORWARD if phase == DECODING else phase


def _product(rates: Rates, operation: Operation, phase: str, held: Held) -> float:
    work, phase = executed(_cost(operation, phase)), _kernel(phase)
    count, rows, inner, columns = _shape(operation, work)
    if not _table(operation):
        return rates.seconds("batched/forward", work, side=(rows * inner * columns) ** (1 / 3))
    if columns >= WIDE and columns >= 4 * inner:
        return _head(rates, operation, phase, held)
    far = max(held.weights, inner * columns * held.itemsize)
    found = rates.seconds(f"product/{phase}", work, rows=count * rows, side=sqrt(inner * columns), held=far)
    return found + _tied(rates, operation, held) if phase == BACKWARD else found


def _head(rates: Rates, operation: Operation, phase: str, held: Held) -> float:
    """While training, a loss over many logits takes a few rows at a time; the gradient of all weights is made of zeros,
    and once more in the scale of the loss."""
    work = executed(_cost(operation, phase))
    _, rows, inner, columns = _shape(operation, work)
    rows = rows if phase == FORWARD or rows * columns <= FEW else min(rows, max(1.0, ENTRIES // columns))
    if phase != BACKWARD:
        return rates.seconds("wide/forward", work, rows=rows, columns=columns)
    fresh = 3.0 * 4.0 * inner * columns
    gradient = rates.seconds("elementwise/forward", fresh, bytes=fresh)
    return rates.seconds("wide/backward", work, rows=rows, columns=columns) + gradient + _tied(rates, operation, held)


def _shape(operation: Operation, work: float) -> tuple[float, float, float, float]:
    """count, rows, inner, columns; a cube of that work where nobody says."""
    if len(operation.shape) == 4:
        count, rows, inner, columns = (float(size) for size in operation.shape)
        return count, rows, inner, columns
    side = max(1.0, work) ** (1 / 3)
    return 1.0, side, side, side


def _tied(rates: Rates, operation: Operation, held: Held) -> float:
    """The gradient of a table that two operations share comes in two parts, which are added."""
    bytes = 3.0 * float(operation.borrowed) * held.itemsize
    return rates.seconds("elementwise/forward", bytes, bytes=bytes)


def _attention(rates: Rates, operation: Operation, phase: str, held: Held) -> float:
    work = executed(_cost(operation, phase))
    _, queries, width, keys = _shape(operation, work)
    kernel = f"{'written' if _written(operation) else 'attention'}/{_kernel(phase)}"
    found = rates.seconds(kernel, work, queries=queries, keys=keys, width=width)
    return found + rates.overheads[f"block/{phase}"]


def _written(operation: Operation) -> bool:
    """Whether scores are written out: backwards then twice the products (three times, made again), not 2.5."""
    forward, backward = executed(operation.forward), executed(operation.backward)
    return backward in (2 * forward, 3 * forward)


def _embedding(rates: Rates, operation: Operation, phase: str, held: Held) -> float:
    """Backwards, a table of zeros with a few rows added."""
    entries = _table(operation) if phase == BACKWARD else operation.reads + operation.writes
    work = float(entries * held.itemsize)
    return rates.seconds(f"embedding/{BACKWARD if phase == BACKWARD else FORWARD}", work, bytes=work)


def _stream(rates: Rates, operation: Operation, phase: str, held: Held) -> float:
    """Norms, activations, losses and sums: what they read and write."""
    side = BACKWARD if phase == BACKWARD else FORWARD
    if operation.kind == "activation":
        flops = max(1.0, float(operation.forward.other) / max(1.0, float(operation.writes)))
        bytes = _bytes(operation, held)
        return rates.seconds(f"activation/{side}", bytes, bytes=bytes, flops=flops)
    if operation.kind == "norm":
        return _streamed(rates, "norm", operation, held, side)
    if operation.kind == "loss":
        # The gradient of a loss is taken where the loss is.
        return 0.0 if phase == BACKWARD else _streamed(rates, "loss", operation, held)
    return _streamed(rates, "elementwise", operation, held)


def _streamed(rates: Rates, kernel: str, operation: Operation, held: Held, side: str = FORWARD) -> float:
    bytes = _bytes(operation, held)
    return rates.seconds(f"{kernel}/{side}", bytes, bytes=bytes)


def _bytes(operation: Operation, held: Held) -> float:
    return float((operation.reads + operation.writes) * held.itemsize)


def _update(rates: Rates, operation: Operation, held: Held) -> float:
    """Its parameters' part of the optimiser, which goes through those of the whole model."""
    work = 4.0 * float(operation.parameters)
    return rates.seconds("update/forward", work, bytes=max(work, held.weights))


def _table(operation: Operation) -> float:
    """Entries of the weights it multiplies or looks up, its own or another's."""
    return float(operation.weights + operation.borrowed)
