"""Masked-word models on sizes: BERT, its heads, and those that nobody asks."""

from headway.config.masked import MaskedConfig
from headway.cost.memory.bricks import (
    LONG,
    Run,
    activation,
    add,
    cast,
    dropout,
    filled,
    half_new,
    linear,
    lookup,
    norm,
)  # fmt: skip
from headway.cost.memory.core import Core
from headway.cost.memory.layers import Around, stack
from headway.cost.memory.loss import cross_entropy, linear_cross_entropy
from headway.cost.memory.tape import Value
from headway.cost.memory.text import own_core
from headway.cost.setting import Setting


def masked(run: Run, c: MaskedConfig, setting: Setting) -> Value:
    """The head that the model is for; a training step declares padding and tells sentences apart."""
    table, tokens = run.leaf(c.vocabulary * c.stack.block.width), run.given(setting.rows)
    if run.tape.learning:
        return _taught(run, c, setting, tokens, table)
    hidden = read(run, c, setting, tokens, table)
    if c.words and not c.classes:
        block = c.stack.block
        features = word_features(run, c, hidden, run.leaf(block.width * block.output_width))
        return linear(run, features, block.width, c.vocabulary, bias=True, weight=table, few=False)
    return judged(run, c, hidden, setting, judges(run, c)[-2:]) if judging(c) else hidden


def _taught(run: Run, c: MaskedConfig, setting: Setting, tokens: Value, table: Value) -> Value:
    """Hidden words, or the class of each text; where there are neither, the sum of the vectors."""
    block, heads = c.stack.block, judges(run, c)
    targets = run.given(setting.rows if c.words and not c.classes else setting.batch)
    hidden = read(run, c, setting, tokens, table, told=True)
    if c.words and not c.classes:
        chosen = run.tape.op((hidden,), setting.batch * setting.asked * block.output_width, keeps=(setting.rows,))
        dense = run.leaf(block.width * block.output_width)
        features, wanted = word_features(run, c, chosen, dense), run.whole(setting.batch * setting.asked)
        loss = linear_cross_entropy(run, features, block.width, table, c.vocabulary, wanted, bias=True)
        return run.tape.op((loss, table, dense, *heads), 1)
    if not judging(c):
        return run.tape.op((hidden, *heads), 1)
    logits = cast(run, judged(run, c, hidden, setting, heads), run.wide)
    spare = [table, run.leaf(block.width * (block.output_width + 3) + c.vocabulary)] if c.words else []
    return run.tape.op((cross_entropy(run, logits, setting.batch, targets), *heads, *spare), 1)


def judging(c: MaskedConfig) -> int:
    """Classes of the head that judges whole texts; 0 where there is none."""
    return c.classes or 2 * c.adjacent or 2 * c.inverted or c.inference


def judges(run: Run, c: MaskedConfig) -> list[Value]:
    """The weights of the pooler and of all heads on it: those that nobody asks have gradients too, of 0."""
    width = c.stack.block.output_width
    spare = sum((2 * c.adjacent, 2 * c.inverted, c.inference, c.classes)) - judging(c)
    found = [spare * (width + 1), (width + 1) * width * c.pooler, judging(c) * (width + 1)]
    return [run.leaf(entries) for entries in found if entries]


def judged(run: Run, c: MaskedConfig, hidden: Value, setting: Setting, heads: list[Value]) -> Value:
    """The pooled vector of each row through the head."""
    width, batch = c.stack.block.output_width, setting.batch
    first = run.tape.op((hidden,), batch * width, keeps=(2 * LONG * batch,))
    pooled = activation(run, linear(run, first, width, width, bias=False, weight=heads[-2], few=False), "tanh")
    pooled = dropout(run, pooled, c.stack.block.dropout) if c.classes else pooled
    return linear(run, pooled, width, judging(c), bias=False, weight=heads[-1], few=False)


def word_features(run: Run, c: MaskedConfig, x: Value, dense: Value) -> Value:
    block = c.stack.block
    curve = "gelu" if block.feedforward is None else block.feedforward.activation
    found = linear(run, x, block.output_width, block.width, bias=True, weight=dense, few=False)
    return norm(run, activation(run, found, curve), block.norm, block.width)


def read(
    run: Run, c: MaskedConfig, setting: Setting, tokens: Value, table: Value, *, told: bool = False,
    core: Core | None = None,
) -> Value:  # fmt: skip
    """Words, sentences and positions embedded, a norm, the stack. told: padding and sentences are declared."""
    block, rows = c.stack.block, setting.rows
    padded = (told or setting.lengths is not None) and core is None
    positions = run.whole(rows if core is not None else setting.length)
    x = lookup(run, tokens, table, block.width)
    kinds = run.leaf(c.types * block.width)
    x = add(run, x, lookup(run, run.given(rows), kinds, block.width)) if told else _first_kind(run, x, kinds)
    places = run.whole(rows) if padded else positions
    x = add(run, x, lookup(run, places, run.leaf(c.length * block.width), block.width))
    del places
    x = filled(run, x, rows) if padded else x
    x = dropout(run, norm(run, x, block.norm, block.width), block.dropout)
    return stack(run, x, c.stack, Around(core or own_core(block.attention, setting, padded=padded)))


def _first_kind(run: Run, x: Value, kinds: Value) -> Value:
    return run.tape.op((x, kinds), x.entries, pull=half_new)
