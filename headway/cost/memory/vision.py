"""Vision Transformers on sizes: patches of an image as tokens."""

from collections.abc import Sequence
from dataclasses import replace

from headway.config.base import sides
from headway.config.vision import DaViTConfig, VisionConfig
from headway.cost.memory.bricks import Run, activation, add, cast, dropout, linear
from headway.cost.memory.layers import Around, stack
from headway.cost.memory.loss import cross_entropy
from headway.cost.memory.tape import Piece, Tape, Value, anew
from headway.cost.memory.text import own_core
from headway.cost.setting import Setting


def vision(run: Run, c: VisionConfig, setting: Setting) -> Value:
    """Patches, tokens before them, positions, the stack, a vector, classes."""
    batch, width = setting.batch, c.stack.block.output_width
    targets = run.given(batch if run.tape.learning else 0)
    hidden = _look(run, c, replace(setting, length=c.length, past=0))
    vector = _vector(run, c, hidden, batch)
    if not c.classes:
        if c.pooler:
            vector = activation(run, linear(run, vector, width, width, bias=True, few=False), "tanh")
        return run.tape.op((vector,), 1) if run.tape.learning else vector
    logits = _logits(run, c, vector)
    if not run.tape.learning:
        return logits
    return cross_entropy(run, cast(run, logits, run.wide), batch, targets)


def pictures(run: Run, c: VisionConfig | DaViTConfig, batch: int) -> Value:
    rows, columns = sides(c.image)
    given = run.given(batch * c.channels * rows * columns, item=4)
    return given if run.item == 4 else run.tape.op((given,), given.entries, run.item)


def _look(run: Run, c: VisionConfig, setting: Setting) -> Value:
    block, batch = c.stack.block, setting.batch
    x = _embedded(run, c, batch)
    places = run.whole(c.length) if c.extra else None
    core = own_core(block.attention, setting, first=-c.extra)
    found = stack(run, dropout(run, x, block.dropout), c.stack, Around(core))
    del places
    return found


def _embedded(run: Run, c: VisionConfig, batch: int) -> Value:
    width, (down, across) = c.stack.block.width, sides(c.patch)
    places, terms = batch * c.grid[0] * c.grid[1], down * across * c.channels
    x = convolution(run, pictures(run, c, batch), places, terms, width, first=True)
    entries = batch * c.length * width
    tokens = [run.leaf(width) for _ in range(c.extra)]
    joined = run.tape.op((x, *tokens), entries, pull=_summed)
    return run.tape.op((joined, run.leaf(c.length * width)), entries, pull=_summed)


def _summed(tape: Tape, slopes: list[Piece | None], sizes: Sequence[int]) -> list[Piece | None]:
    """A gradient handed on, and its sums over the batch."""
    return [slopes[0] if sizes[0] else None, *(Piece(tape, size) for size in sizes[1:])]


def convolution(
    run: Run, x: Value, places: int, terms: int, outputs: int, *, first: bool = False, groups: int = 1
) -> Value:
    """Keeps its input. The first one is given rows of pixels, and works on a copy of its result in blocks."""
    weights, made = terms * outputs // groups, places * outputs * run.item
    sources = (x, run.leaf(weights), run.leaf(outputs))
    if first:
        copy = weights * run.item
        return run.tape.op(sources, places * outputs, keeps=(x,), before=copy + made, beside=made,
                           pull=anew(2 * made + copy))  # fmt: skip
    return run.tape.op(sources, places * outputs, keeps=(x,), beside=weights * run.item, pull=anew(weights * run.item))


def _vector(run: Run, c: VisionConfig, hidden: Value, batch: int) -> Value:
    width = c.stack.block.output_width
    view = hidden.piece if c.pooling == "class" else None
    return run.tape.op((hidden,), batch * width, made=view)


def _logits(run: Run, c: VisionConfig, vector: Value) -> Value:
    """One head, or the mean of two."""
    width = c.stack.block.output_width
    found = linear(run, vector, width, c.classes, bias=True, few=False)
    if not c.teacher:
        return found
    other = linear(run, vector, width, c.classes, bias=True, few=False)
    return run.tape.op((add(run, found, other),), found.entries)
