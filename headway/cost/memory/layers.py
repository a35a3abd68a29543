"""What layers, blocks and stacks take and keep: headway/nn, line by line, on sizes."""

from dataclasses import dataclass, replace

from headway.config import Additive, AttentionConfig, BlockConfig, FeedForwardConfig, Softmax, Spatial, StackConfig
from headway.cost.memory.bricks import (
    Run,
    activation,
    add,
    cast,
    cut_up,
    dropout,
    filled,
    half_new,
    linear,
    norm,
    product,
    through_float32,
)  # fmt: skip
from headway.cost.memory.core import Core, attend, bands
from headway.cost.memory.scores import Bias
from headway.cost.memory.tape import Value, anew
from headway.ops.linear import MANY


@dataclass(frozen=True, eq=False)
class Turn:
    """Cosines and sines of a rotation of neighbours, or of channels half a head apart."""

    cos: Value
    sin: Value
    neighbours: bool


def make_turn(run: Run, config: AttentionConfig, length: int) -> Turn | None:
    rotary = config.rotary
    if rotary is None:
        return None
    pairs = length * (rotary.width or config.head_width) // 2
    run.tape.scratch(3 * 8 * pairs, 2 * run.wide * pairs)
    return Turn(run.tape.new(pairs, run.wide), run.tape.new(pairs, run.wide), rotary.interleaved)


def turned(run: Run, x: Value, turn: Turn | None, c: AttentionConfig) -> Value:
    """The first channels of each head turned, the others as they are."""
    if turn is None or c.rotary is None:
        return x
    width = c.rotary.width or c.head_width
    found = cast(run, _turned(run, cast(run, x.part(x.entries * width // c.head_width), run.wide), turn), x.item)
    return found if width == c.head_width else run.tape.op((found, x), x.entries)


def _turned(run: Run, x: Value, turn: Turn) -> Value:
    """x cos + rolled(x) sin, tables for both halves; neighbours are complex numbers, times one table."""
    if turn.neighbours:
        table = run.tape.new(2 * turn.cos.entries, run.wide)
        return run.tape.op((run.tape.op((x,), x.entries, keeps=(x,)),), x.entries, keeps=(table,))
    tape, pairs = run.tape, turn.cos.entries
    cos, sin = tape.new(2 * pairs, run.wide), tape.new(2 * pairs, run.wide)
    tape.scratch(pairs * run.wide)
    first = tape.op((x,), x.entries, keeps=(cos,))
    rolled = tape.op((x,), x.entries)
    return tape.op((first, rolled), x.entries, keeps=(sin,), pull=half_new)


def joined(run: Run, x: Value, c: AttentionConfig) -> list[Value]:
    """q, k and v by one product: three views of one tensor; so are the gradients of their weights."""
    rows = x.entries // c.width
    widths = [c.heads * c.head_width, c.kv_heads * c.head_width, c.kv_heads * c.value_width]
    made, table = rows * sum(widths), c.width * sum(widths)
    sources = (x, run.leaf(table), *((run.leaf(sum(widths)),) if c.bias else ()))
    sizes = [rows * width for width in widths]
    if run.slow and rows > MANY:
        pull = through_float32(x.entries, made, table, joined=made * run.item)
        before, beside = 4 * (x.entries + made + table), 4 * made
        return run.tape.outputs(sources, sizes, run.item, keeps=(x,), pull=pull, before=before, beside=beside)
    beside = made * run.item if cut_up(run, rows, sum(widths)) else 0
    return run.tape.outputs(sources, sizes, run.item, keeps=(x,), pull=anew(made * run.item), beside=beside)


def apart(run: Run, x: Value, source: Value, c: AttentionConfig) -> list[Value]:
    """q of x; k and v of the source."""
    q = linear(run, x, c.width, c.heads * c.head_width, bias=c.bias)
    k = linear(run, source, c.source_width, c.kv_heads * c.head_width, bias=c.bias)
    return [q, k, linear(run, source, c.source_width, c.kv_heads * c.value_width, bias=c.bias)]


def attention(
    run: Run, x: Value, c: AttentionConfig, core: Core, turn: Turn | None = None, source: Value | None = None
) -> Value:
    """Projections around a mechanism, of x or of x over a source; rows of padding are zeroed before."""
    s = core.sizes
    if source is None:
        clean = filled(run, x, s.batch * s.queries) if core.padded else x
        q, k, v = joined(run, clean, c)
    else:
        clean = filled(run, source, s.batch * s.keys) if core.padded else source
        q, k, v = apart(run, x, clean, c)
    q, k = turned(run, q, turn, c), turned(run, k, turn, c)
    if isinstance(c.mechanism, Additive):
        core = replace(core, bias=Bias(run.leaf(c.heads * c.head_width), 0))
    found = attend(run, core, q, k, v)
    # torch's kernel leaves positions before heads, as the projection wants them; others are copied.
    ordered = found if by_kernel(run, core, c) else run.tape.op((found,), found.entries)
    if not c.project:
        return ordered
    return linear(run, ordered, c.heads * c.value_width, c.output_width, bias=c.output_bias)


def by_kernel(run: Run, core: Core, c: AttentionConfig) -> bool:
    """Whether heads stand beside one another in what comes out, so that joining them is a view.

    torch's kernel leaves them as it found them, and padding or joining channels puts heads first.
    """
    s, spec = core.sizes, core.spec
    if s.heads == 1:
        return True
    if isinstance(spec, Spatial) and spec.window is not None:
        return bands(spec)
    plain = isinstance(spec, Softmax | Spatial)
    partly = c.rotary is not None and (c.rotary.width or c.head_width) < c.head_width
    if not plain or core.softcap is not None or s.key_width != s.value_width or partly:
        return False
    if core.bias is not None:
        return not run.tape.learning and s.queries * s.keys <= 2**17
    return not core.kernel.tiles


def feedforward(run: Run, x: Value, width: int, c: FeedForwardConfig) -> Value:
    """down(act(up(x))), or down(act(gate(x)) · up(x))."""
    hidden = _hidden(run, x, width, c)
    return linear(run, hidden, c.hidden, width, bias=c.bias)


def _hidden(run: Run, x: Value, width: int, c: FeedForwardConfig) -> Value:
    if not c.gated:
        return activation(run, linear(run, x, width, c.hidden, bias=c.bias), c.activation)
    gate = activation(run, linear(run, x, width, c.hidden, bias=c.bias), c.activation)
    return product(run, gate, linear(run, x, width, c.hidden, bias=c.bias))


@dataclass(frozen=True, eq=False)
class Around:
    """What the blocks of a stack share: their attention calls, a rotation, a source."""

    own: Core
    cross: Core | None = None
    turn: Turn | None = None
    source: Value | None = None


def block(run: Run, given: Value, c: BlockConfig, around: Around) -> Value:
    own = around.own.sizes
    x = filled(run, given, own.batch * own.queries) if around.own.padded else given
    found = attention(run, _before(run, x, c, c.width), c.attention, around.own, around.turn)
    x = _after(run, x, found, c, c.attention.output_width)
    if c.cross is not None:
        assert around.cross is not None and around.source is not None
        found = attention(run, _before(run, x, c, c.cross.width), c.cross, around.cross, None, around.source)
        x = _after(run, x, found, c, c.cross.output_width)
    if c.feedforward is not None:
        found = feedforward(run, _before(run, x, c, c.output_width), c.output_width, c.feedforward)
        x = _after(run, x, found, c, c.output_width)
    return x


def _before(run: Run, x: Value, c: BlockConfig, width: int) -> Value:
    return norm(run, x, c.norm, width) if c.order == "pre" else x


def _after(run: Run, x: Value, found: Value, c: BlockConfig, width: int) -> Value:
    found = dropout(run, found, c.dropout)
    total = add(run, x, found) if c.residual else found
    return norm(run, total, c.norm, width) if c.order == "post" else total


def stack(run: Run, x: Value, c: StackConfig, around: Around) -> Value:
    """Every block in turn; with checkpoints each is a computation that is done again."""
    turn = make_turn(run, c.block.attention, around.own.sizes.queries)
    around = replace(around, turn=turn)
    shared = [value for value in (around.source, *((turn.cos, turn.sin) if turn else ())) if value is not None]
    for _ in range(c.layers):
        if run.forgets:
            x = run.tape.checkpoint(lambda given: block(run, given, c.block, around), x, shared)
        else:
            x = block(run, x, c.block, around)
    return norm(run, x, c.block.norm if c.final_norm else "none", c.block.output_width)
