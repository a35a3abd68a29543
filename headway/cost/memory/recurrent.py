"""Bahdanau's recurrent encoder-decoder on sizes: steps that wait for one another, and keep their states."""

from headway.config import Additive
from headway.config.recurrent import RecurrentConfig
from headway.cost.memory.bricks import Run, activation, add, filled, linear, lookup, product, sliced, split
from headway.cost.memory.core import Core, attend
from headway.cost.memory.loss import linear_cross_entropy
from headway.cost.memory.scores import Bias
from headway.cost.memory.tape import OUT, Value, anew
from headway.cost.setting import Setting
from headway.ops.mask.pairs import Pairs
from headway.sizes import Sizes


def recurrent(run: Run, c: RecurrentConfig, setting: Setting) -> Value:
    """The source word by word, then the target word by word: steps that wait for one another keep their states."""
    learning = run.tape.learning
    source, target = run.given(setting.batch * setting.source_length), run.given(setting.rows)
    targets = run.given(setting.rows if learning else 0)
    annotations, keys, state = _annotate(run, c, setting, source)
    hidden = _advance(run, c, setting, target, annotations, keys, state)
    del annotations, keys, state
    if learning:
        head = run.leaf(c.output_width * c.vocabulary)
        return linear_cross_entropy(run, hidden, c.output_width, head, c.vocabulary, targets)
    return linear(run, hidden, c.output_width, c.vocabulary, bias=False)


def _annotate(run: Run, c: RecurrentConfig, setting: Setting, source: Value) -> tuple[Value, Value, Value]:
    rows = setting.batch * setting.source_length
    keep = run.tape.new(rows, 1)
    x = filled(run, lookup(run, source, run.leaf(c.source_vocabulary * c.width), c.width), rows)
    states = _scan(run, c, setting, x)
    last = Value(setting.batch * c.hidden, run.item, states.piece, states.source)
    if c.bidirectional:
        flipped = run.tape.op((x,), x.entries)
        back = _scan(run, c, setting, flipped)
        del flipped
        last = run.tape.op((back,), setting.batch * c.hidden, made=back.piece)
        states = run.tape.op((states, run.tape.op((back,), back.entries)), rows * 2 * c.hidden)
        del back
    annotations = filled(run, states, rows)
    del states, keep
    keys = linear(run, annotations, c.annotation_width, c.attention_width, bias=False)
    start = linear(run, last, c.hidden, c.hidden, bias=False)
    return annotations, keys, activation(run, start, "tanh")


class Cell:
    """The weights of one gated network."""

    def __init__(self, run: Run, c: RecurrentConfig, context: int = 0) -> None:
        h = c.hidden
        self.run, self.hidden, self.width = run, h, context
        self.gates, self.candidate = run.leaf(2 * h * h), run.leaf(h * h)
        self.context = run.leaf(3 * h * context) if context else None

    def __call__(self, given: Value, state: Value, context: Value | None = None) -> Value:
        run, h = self.run, self.hidden
        if context is not None:
            given = add(run, given, linear(run, context, self.width, 3 * h, bias=False, weight=self.context))
        rows = state.entries // h
        gates, new = given.part(2 * rows * h), given.part(rows * h)
        found = add(run, gates, linear(run, state, h, 2 * h, bias=False, weight=self.gates))
        found = run.tape.op((found,), found.entries, keeps=(OUT,))
        z, r = found.part(rows * h), found.part(rows * h)
        del gates, found
        rest = product(run, run.tape.op((z,), z.entries), state)
        moved = linear(run, product(run, r, state), h, h, bias=False, weight=self.candidate)
        fresh = activation(run, add(run, new, moved), "tanh")
        del moved
        return add(run, rest, product(run, z, fresh))


def _scan(run: Run, c: RecurrentConfig, setting: Setting, x: Value) -> Value:
    """The states of one direction, put side by side at the end."""
    cell, size = Cell(run, c), setting.batch * c.hidden
    given = split(run, linear(run, x, c.width, 3 * c.hidden, bias=False), [3 * size] * setting.source_length)
    states = [run.new(size)]
    for word in given:
        states.append(_kept(run, cell(word, states[-1]), states[-1]))
    return run.tape.op(tuple(states[1:]), len(given) * size, pull=sliced)


def _kept(run: Run, new: Value, old: Value) -> Value:
    """The new state where the word is real, else the old one."""
    return run.tape.op((new, old), new.entries)


def _advance(
    run: Run, c: RecurrentConfig, setting: Setting, target: Value, annotations: Value, keys: Value, state: Value
) -> Value:
    x = filled(run, lookup(run, target, run.leaf(c.vocabulary * c.width), c.width), setting.rows)
    cell, query = Cell(run, c, c.annotation_width), run.leaf(c.hidden * c.attention_width)
    align = _alignment(run, c, setting)
    given = split(
        run, linear(run, x, c.width, 3 * c.hidden, bias=False), [3 * setting.batch * c.hidden] * setting.length
    )
    states: list[Value] = []
    contexts: list[Value] = []
    for word in given:
        asked = linear(run, state, c.hidden, c.attention_width, bias=False, weight=query)
        context = attend(run, align, asked, keys, annotations)
        state = _kept(run, cell(word, state, context), state)
        states.append(state)
        contexts.append(context)
    return _deep(run, c, states, x, contexts)


def _alignment(run: Run, c: RecurrentConfig, setting: Setting) -> Core:
    sizes = Sizes(setting.batch, 1, 1, 1, setting.source_length, c.attention_width, c.annotation_width)
    vector = Bias(run.leaf(c.attention_width), 0)
    return Core(sizes, Additive(), None, Pairs.counting(1, setting.source_length), bias=vector)


def _deep(run: Run, c: RecurrentConfig, states: list[Value], x: Value, contexts: list[Value]) -> Value:
    """The largest of each pair of U s + V e + C c."""
    wide = 2 * c.output_width
    state = run.tape.op(tuple(states), len(states) * states[0].entries, pull=sliced)
    context = run.tape.op(tuple(contexts), len(contexts) * contexts[0].entries, pull=sliced)
    total = add(run, linear(run, state, c.hidden, wide, bias=False), linear(run, x, c.width, wide, bias=False))
    total = add(run, total, linear(run, context, c.annotation_width, wide, bias=False))
    return run.tape.op((total,), total.entries // 2, keeps=(total, OUT), pull=anew(2 * total.bytes))
