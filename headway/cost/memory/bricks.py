"""What the smallest layers take and keep: linear maps, norms, curves, lookups, dropout, casts.

Each function does on sizes what its namesake does on numbers. A tensor that two neighbours keep is kept once, by
whoever made it; parameters are kept by nobody, as they are there anyway.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headway.cost.memory.tape import OUT, Node, Piece, Pull, Tape, Value, anew, handed_on
from headway.ops.activation import SMALL, find_activation
from headway.ops.linear import FEW, MANY, parts

LONG = 8  # bytes of a whole number


class Weights:
    """The parameters of a model in the order of their use; a second pass finds those of the first."""

    def __init__(self) -> None:
        self.made: list[Value] = []
        self.next: int | None = None

    def leaf(self, tape: Tape, entries: int, item: int) -> Value:
        if self.next is not None:
            self.next += 1
            return self.made[self.next - 1]
        self.made.append(tape.leaf(entries, item))
        return self.made[-1]


@dataclass(frozen=True, eq=False)
class Run:
    """A pass through a model: its record, bytes of an entry, threads, whether dropout is on.

    slow: products of half precision go by way of float32, for want of a unit. forgets: blocks are computed again in the
    backward pass. alone: a part of the pass on a tape of its own. inputs: tensors that are there before the pass.
    """

    tape: Tape
    item: int
    slow: bool = False
    threads: int = 1
    training: bool = False
    forgets: bool = False
    alone: bool = False
    inputs: list[Value] = field(default_factory=list)
    weights: Weights = field(default_factory=Weights)

    @property
    def wide(self) -> int:
        """Bytes of an entry where sums are taken: at least float32."""
        return max(4, self.item)

    def leaf(self, entries: int) -> Value:
        return self.tape.leaf(entries, self.item) if self.alone else self.weights.leaf(self.tape, entries, self.item)

    def new(self, entries: int) -> Value:
        return self.tape.new(entries, self.item)

    def given(self, entries: int, item: int = LONG) -> Value:
        """A tensor of the batch: whoever calls the model has it already."""
        self.inputs.append(self.tape.new(entries, item))
        return self.inputs[-1]

    def whole(self, entries: int) -> Value:
        """A tensor of whole numbers."""
        return self.tape.new(entries, LONG)


def cast(run: Run, x: Value, item: int) -> Value:
    """A copy in another precision; the same where it has that one."""
    return x if x.item == item else run.tape.op((x,), x.entries, item)


def copied(run: Run, x: Value) -> Value:
    return run.tape.op((x,), x.entries)


def add(run: Run, x: Value, y: Value) -> Value:
    return run.tape.op((x, y), x.entries, keeps=(), pull=handed_on)


def half_new(tape: Tape, slopes: list[Piece | None], sizes: Sequence[int]) -> list[Piece | None]:
    """One gradient is handed on, the others are made of it."""
    return [slopes[0] if sizes[0] else None, *(Piece(tape, size) if size else None for size in sizes[1:])]


def scaled(run: Run, x: Value) -> Value:
    """x times a number."""
    return run.tape.op((x,), x.entries)


def filled(run: Run, x: Value, mask: int) -> Value:
    """x with masked entries set to 0, and `mask` bytes that tell them."""
    return run.tape.op((x,), x.entries, keeps=(mask,))


def product(run: Run, x: Value, y: Value) -> Value:
    """x · y, entry by entry: each is kept where the other wants a gradient."""
    kept = [one for one, other in ((x, y), (y, x)) if other.source is not None]
    return run.tape.op((x, y), x.entries, keeps=kept)


def dropout(run: Run, x: Value, share: float) -> Value:
    """x times noise, which is kept."""
    if not (run.training and share):
        return x
    return run.tape.op((x,), x.entries, keeps=(x.bytes,), before=x.bytes, beside=x.bytes)


def split(run: Run, x: Value, sizes: Sequence[int]) -> list[Value]:
    """Views of parts of x, whose gradients are put together again once all are there."""
    whole = run.tape.op((x,), x.entries, made=x.piece)
    if isinstance(whole.source, Node):
        whole.source.slopes = [None] * len(sizes)
    return [Value(size, x.item, x.piece, whole.source, slot) for slot, size in enumerate(sizes)]


def sliced(tape: Tape, slopes: list[Piece | None], sizes: Sequence[int]) -> list[Piece | None]:
    """Parts of one gradient, for what was put together."""
    return [slopes[0] if size else None for size in sizes]


def lookup(run: Run, tokens: Value, table: Value, width: int) -> Value:
    return run.tape.op((table,), tokens.entries * width, keeps=(tokens,))


def linear(
    run: Run, x: Value, inputs: int, outputs: int, *, bias: bool, weight: Value | None = None, few: bool = True
) -> Value:
    """x Wᵀ + b: keeps x. `few`: in parts where there are few rows and no gradients (ops.linear), each a copy more."""
    rows = x.entries // inputs
    weight = run.leaf(inputs * outputs) if weight is None else weight
    sources = (x, weight, run.leaf(outputs)) if bias else (x, weight)
    if run.slow and rows > MANY and few:
        given, made, table = 4 * x.entries, 4 * rows * outputs, 4 * inputs * outputs
        pull = through_float32(x.entries, rows * outputs, inputs * outputs)
        return run.tape.op(sources, rows * outputs, keeps=(x,), before=given + made + table, beside=made, pull=pull)
    again = rows * outputs * x.item if few and cut_up(run, rows, outputs) else 0
    return run.tape.op(sources, rows * outputs, keeps=(x,), beside=again)


def cut_up(run: Run, rows: int, outputs: int) -> bool:
    """Whether a product of few rows is made in parts, which are then put side by side."""
    return not run.tape.learning and 1 < rows <= FEW and run.item >= 4 and parts(outputs) > 1


def through_float32(given: int, made: int, table: int, *, joined: int = 0) -> Pull:
    """Gradients of a product in half precision; `joined` bytes where slopes of several maps are put together first."""

    def pull(tape: Tape, slopes: list[Piece | None], sizes: Sequence[int]) -> list[Piece | None]:
        rows = joined + 4 * made
        tape.scratch(rows, 4 * table, 4 * given)
        of_x = Piece(tape, sizes[0]) if sizes[0] else None
        tape.scratch(rows, 4 * given, 4 * table)
        rest = [Piece(tape, size) if size else None for size in sizes[1:]]
        tape.scratch(rows, 4 * table)
        return [of_x, *rest]

    return pull


def norm(run: Run, x: Value, kind: str, width: int) -> Value:
    """layer: x, mean and deviation of each row. rms: x, its scale and x scaled. batch: x less its mean, and scaled."""
    if kind == "none":
        return x
    wide, rows = max(4, x.item), x.entries // width
    if kind == "rms":
        return cast(run, _rms(run, cast(run, x, wide), run.leaf(width), rows), x.item)
    weight = cast(run, run.leaf(width), wide)
    if kind == "batch":
        return cast(run, _batch(run, cast(run, x, wide), weight, width), x.item)
    bias, given = cast(run, run.leaf(width), wide), cast(run, x, wide)
    kept = (given, weight, bias, rows * wide, rows * wide)
    return cast(run, run.tape.op((given, weight, bias), x.entries, keeps=kept, pull=anew(4 * width * wide)), x.item)


def _rms(run: Run, x: Value, weight: Value, rows: int) -> Value:
    """x r γ, r = 1 / √(mean x² + ε): written out by torch, forwards and backwards."""
    tape, size = run.tape, x.bytes
    scale = tape.op((x,), rows, keeps=(x, OUT), before=size, beside=3 * rows * x.item, pull=anew(3 * size))
    unit = tape.op((x, scale), x.entries, keeps=(x, scale), pull=anew(size))
    del scale
    return tape.op((unit, weight), x.entries, keeps=(unit,), pull=anew(size))


def _batch(run: Run, x: Value, weight: Value, width: int) -> Value:
    """γ (x - μ) / √(σ² + ε) + β, written out."""
    tape = run.tape
    spread = tape.op((x,), width, keeps=(x, width * x.item))
    centred = tape.op((x,), x.entries)
    unit = tape.op((centred, spread), x.entries, keeps=(centred, spread), pull=anew(2 * x.bytes))
    del centred
    grown = tape.op((unit, weight), x.entries, keeps=(unit, weight), pull=anew(x.bytes))
    del unit
    return tape.op((grown, cast(run, run.leaf(width), x.item)), x.entries, pull=half_new)


def activation(run: Run, x: Value, name: str) -> Value:
    """The curve of that name: most keep what they are given, some what they give."""
    find_activation(name)
    tape, n = run.tape, x.entries
    if name == "identity":
        return x
    if name in ("relu", "sigmoid", "tanh"):
        return tape.op((x,), n, keeps=(OUT,))
    if name == "relu_squared":
        cut = tape.op((x,), n, keeps=(OUT,))
        return tape.op((cut,), n, keeps=(cut,), pull=anew(2 * x.bytes))
    if name == "gelu_sigmoid":
        share = tape.op((scaled(run, x),), n, keeps=(OUT,))
        return product(run, x, share)
    if name == "gelu_tanh" and n >= SMALL:
        return _gelu_tanh(run, x)
    return tape.op((x,), n, keeps=(x,))


def _gelu_tanh(run: Run, x: Value) -> Value:
    """Its sigmoid is kept beside x in full precision, and made again in half (ops.activation)."""
    n, size = x.entries, 4 * x.entries
    if x.item >= 4:
        return run.tape.op((x,), n, keeps=(x, x.bytes), before=x.bytes, beside=x.bytes, pull=anew(x.bytes))
    # What is unpacked for a computation done again is let go of as soon as it is cast.
    return run.tape.op((x,), n, keeps=(x,), beside=3 * size, pull=anew(5 * size - (1 + run.forgets) * x.bytes))
