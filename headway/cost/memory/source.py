"""Encoder-decoders on sizes: a source in, the logits of a target (or its loss) out."""

from dataclasses import replace

from headway.config import StackConfig
from headway.config.seq2seq import Seq2SeqConfig
from headway.cost.memory.bricks import Run, add, dropout, filled, linear, lookup, norm, scaled
from headway.cost.memory.core import core_of
from headway.cost.memory.layers import Around, stack
from headway.cost.memory.loss import linear_cross_entropy
from headway.cost.memory.scores import Bias
from headway.cost.memory.tape import Value
from headway.cost.memory.text import own_core, sinusoids
from headway.cost.setting import Setting


def seq2seq(run: Run, c: Seq2SeqConfig, setting: Setting) -> Value:
    """Encode the source, decode the target, head or loss."""
    width, learning = c.decoder.block.output_width, run.tape.learning
    table = run.leaf(c.vocabulary * c.encoder.block.width)
    own = table if c.target_vocabulary is None else run.leaf(c.target_vocabulary * c.decoder.block.width)
    source, target = run.given(setting.batch * setting.source_length), run.given(setting.rows)
    targets = run.given(setting.rows if learning else 0)
    memory = _encode(run, c, setting, source, table)
    hidden = _decode(run, c, setting, target, own, memory)
    head = own if c.tied else run.leaf(width * c.outputs)
    if learning:
        return linear_cross_entropy(run, hidden, width, head, c.outputs, targets, bias=c.head_bias, scale=c.head_scale)
    hidden = hidden if c.head_scale == 1.0 else scaled(run, hidden)
    return linear(run, hidden, width, c.outputs, bias=c.head_bias, weight=head)


def _encode(run: Run, c: Seq2SeqConfig, setting: Setting, source: Value, table: Value) -> Value:
    there = replace(setting, length=setting.source_length, lengths=setting.source_lengths, mask=None)
    positions = run.whole(there.length)
    x = _enter(run, c, c.encoder, there, lookup(run, source, table, c.encoder.block.width), positions)
    bias = _bias(run, c, c.encoder)
    core = own_core(c.encoder.block.attention, there, padded=there.lengths is not None, bias=bias)
    return stack(run, x, c.encoder, Around(core))


def _decode(run: Run, c: Seq2SeqConfig, setting: Setting, target: Value, table: Value, memory: Value) -> Value:
    block, positions = c.decoder.block, run.whole(setting.length)
    x = _enter(run, c, c.decoder, setting, lookup(run, target, table, block.width), positions)
    own = own_core(block.attention, setting, padded=setting.lengths is not None, bias=_bias(run, c, c.decoder))
    assert block.cross is not None
    cross = core_of(block.cross, setting.batch, setting.length, setting.source_length,
                    padded=setting.source_lengths is not None)  # fmt: skip
    return stack(run, x, c.decoder, Around(own, cross, source=memory))


def _bias(run: Run, c: Seq2SeqConfig, stack: StackConfig) -> Bias | None:
    if c.relative is None:
        return None
    weight = run.leaf(c.relative.buckets * stack.block.attention.heads)
    return Bias(weight, 2 * c.relative.max_distance + 1)


def _enter(run: Run, c: Seq2SeqConfig, stack: StackConfig, setting: Setting, x: Value, positions: Value) -> Value:
    """norm(scale · x + position), each part where the model has it."""
    block, rows = stack.block, setting.rows
    x = filled(run, x, rows) if setting.lengths is not None else x
    x = x if c.embedding_scale == 1.0 else scaled(run, x)
    if c.positions == "learned":
        assert c.length is not None
        moved = run.whole(setting.length)
        x = add(run, x, lookup(run, moved, run.leaf((c.length + c.offset) * block.width), block.width))
        del moved
    elif c.positions != "none":
        x = sinusoids(run, x, setting.length, block.width)
    x = norm(run, x, block.norm if c.embedding_norm else "none", block.width)
    return dropout(run, x, block.dropout)
