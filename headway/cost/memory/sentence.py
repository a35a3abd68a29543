"""Sentence encoders on sizes: a text in, one vector out."""

from dataclasses import replace

from headway.config.sentence import SentenceConfig
from headway.cost.memory.bricks import LONG, Run, activation, cast, linear
from headway.cost.memory.masked import judges, read
from headway.cost.memory.tape import Value
from headway.cost.memory.text import own_core
from headway.cost.setting import Setting
from headway.ops.attention.packed import runs as runs_of


def sentence(run: Run, c: SentenceConfig, setting: Setting) -> Value:
    """One vector a text. A training step reads two rows of packed texts, and asks which belong together."""
    inner = c.encoder
    table = run.leaf(inner.vocabulary * inner.stack.block.width)
    if not run.tape.learning:
        return pool(run, c, read(run, inner, setting, run.given(setting.rows), table), setting)
    batch = setting.batch
    runs = (
        ((batch, setting.length),)
        if setting.lengths is None
        else tuple((one.count, one.length) for one in runs_of(setting.lengths))
    )
    rows = sum(count * length for count, length in runs)
    there = replace(setting, batch=1, length=rows, lengths=None)
    core = replace(own_core(inner.stack.block.attention, there), runs=runs)
    first = len(run.weights.made)
    one = pool(run, c, read(run, inner, there, run.given(rows), table, core=core), setting)
    run.weights.next = first
    two = pool(run, c, read(run, inner, there, run.given(rows), table, core=core), setting)
    run.weights.next = None
    scores = run.tape.op((one, two), batch * batch, keeps=(one, two, one.bytes, two.bytes))
    return run.tape.op((scores, *judges(run, inner)), 1, keeps=(scores, scores.bytes, batch * batch))


def pool(run: Run, c: SentenceConfig, hidden: Value, setting: Setting) -> Value:
    """The mean of each text (or another sum), in at least float32; a linear map and a norm where there are any."""
    batch, width = setting.batch, c.encoder.stack.block.output_width
    rows = hidden.entries // width
    wide = cast(run, hidden, run.wide)
    total = run.tape.op((wide,), batch * width, keeps=(wide, rows * LONG))
    found = run.tape.op((total,), total.entries, keeps=(batch * LONG,))
    if c.dense is not None:
        found = linear(run, cast(run, found, run.item), width, c.dense.width, bias=c.dense.bias, few=False)
        found = cast(run, activation(run, found, c.dense.activation), run.wide)
    return run.tape.op((found,), found.entries, keeps=(found, batch * run.wide)) if c.normalise else found
