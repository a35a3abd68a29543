"""Prices of models that read a source and write a target: Transformers, and Bahdanau's recurrent one."""

from dataclasses import replace

from headway.config import BlockConfig, read_spec
from headway.config.text import RecurrentConfig, Seq2SeqConfig
from headway.cost.compose.layers import bias_part, block_part, check_known, entering, leaving, source_maps, stack_part
from headway.cost.compose.text import dropped, embed
from headway.cost.op_tree import Part, beside, cut, leaf, series
from headway.cost.setting import Setting
from headway.ops.activation import activation_price
from headway.ops.attention import record_of
from headway.ops.attention.cost import Workload
from headway.ops.attention.plan import PLAIN
from headway.ops.elementwise_prices import add_price, lookup_price, scale_price
from headway.ops.linear import linear_price
from headway.ops.loss import loss_price
from headway.ops.mask.pairs import Pairs
from headway.ops.norm import norm_price
from headway.sizes import Number, Operation, Sizes, other
from headway.steps import Each, Sum


def seq2seq(c: Seq2SeqConfig, setting: Setting) -> Part:
    """Encode the source (unless it is held already), decode the target, head."""
    width, asked = leaving(c.decoder.block), setting.batch * setting.asked
    return series(
        "",
        _decoded(c, setting) if setting.prepared else _joined(c, setting),
        leaf("head_scale", scale_price(asked * width)) if c.head_scale != 1.0 else None,
        leaf("head", linear_price(asked, width, c.outputs, bias=c.head_bias, own=not c.tied)),
        leaf("loss", loss_price(asked, c.outputs)) if setting.training else None,
    )


def _decoded(c: Seq2SeqConfig, setting: Setting) -> Part:
    stack = stack_part("decoder", c.decoder, setting)
    return series("", _target(c, setting), stack)


def _joined(c: Seq2SeqConfig, setting: Setting) -> Part:
    """Encoder and decoder run side by side up to the first cross-attention, where they meet."""
    block, cross = c.decoder.block, c.decoder.block.cross
    assert cross is not None
    held = replace(setting, prepared=True)
    bias = c.decoder.bias
    before, after = cut(block_part("blocks", block, held, bias=bias), "cross.core")
    keys = replace(source_maps(cross, setting), early=False)
    norm = leaf("norm", norm_price(block.norm, setting.rows, leaving(block)))
    return series(
        "",
        beside(
            "",
            series("", _encoded(c, setting), series("decoder.blocks.cross", keys)),
            series("", _target(c, setting), series("decoder", bias_part(c.decoder), before)),
        ),
        series(
            "decoder",
            after,
            *_others(c, setting),
            norm if c.decoder.final_norm else None,
        ),
    )


def _others(c: Seq2SeqConfig, setting: Setting) -> list[Part]:
    """The decoder's blocks but for the first."""
    counts = list(c.decoder.counts)
    counts[0] = counts[0] - 1
    return [
        replace(block_part("blocks", block, setting, bias=c.decoder.bias), times=count)
        for block, count in zip(c.decoder.pattern, counts, strict=True)
        if count != 0
    ]


def _encoded(c: Seq2SeqConfig, setting: Setting) -> Part:
    source = replace(setting, length=setting.source_length, lengths=setting.source_lengths, past=0, mask=None)
    return series(
        "",
        _entrance(c, c.encoder.block, source, "source", c.vocabulary, own=True),
        stack_part("encoder", c.encoder, source),
    )


def _target(c: Seq2SeqConfig, setting: Setting) -> Part:
    own = c.target_vocabulary is not None
    return _entrance(c, c.decoder.block, setting, "target", c.outputs, own=own)


def _entrance(
    c: Seq2SeqConfig, block: BlockConfig, setting: Setting, name: str, vocabulary: Number, *, own: bool
) -> Part:
    """norm(scale · x + position), each part where the model has it."""
    check_known("positions", c.positions, ("learned", "sinusoidal", "halves", "timing", "none"))
    rows, entries = setting.rows, setting.rows * entering(block)
    words = embed("", vocabulary, entering(block), rows, positions="none", own=own)
    table = None
    if c.positions == "learned":
        table = leaf("positions", lookup_price(rows, c.length + c.offset, entering(block)))  # pyright: ignore
    scaled = leaf("scale", scale_price(entries)) if c.embedding_scale != 1.0 else None
    return series(
        f"{name}_entrance",
        beside("", series("", words, scaled), table),
        leaf("positions_sum", add_price(entries)) if c.positions != "none" else None,
        leaf("norm", norm_price(block.norm, rows, entering(block))) if c.embedding_norm else None,
        dropped("dropout", setting, entries, block.dropout),
    )


def recurrent(c: RecurrentConfig, setting: Setting) -> Part:
    """A step after the other: what a state needs of the state before it cannot run at once with it."""
    batch, length = setting.batch, setting.length
    rows, asked, wide = batch * length, batch * setting.asked, 2 * c.output_width
    given = series(
        "",
        leaf("tokens", lookup_price(rows, c.vocabulary, c.width)),
        leaf("cell.input", linear_price(rows, c.width, 3 * c.hidden, bias=False)),
    )
    return series(
        "",
        beside("", _opened(c, setting), given),
        _step(c, setting),
        series("", _query(c, batch, own=False), _step(c, setting, own=False), again=length - 1)
        if length != 1
        else None,
        beside(
            "deep",
            leaf("state", linear_price(rows, c.hidden, wide, bias=False)),
            replace(leaf("input", linear_price(rows, c.width, wide, bias=False)), early=True),
            replace(leaf("context", linear_price(rows, c.annotation_width, wide, bias=False)), early=True),
        ),
        leaf("deep.maxout", _maxout(rows, c.output_width)),
        leaf("head", linear_price(asked, c.output_width, c.vocabulary, bias=False)),
        leaf("loss", loss_price(asked, c.vocabulary)) if setting.training else None,
    )


def _maxout(rows: Number, width: Number) -> Operation:
    """Two sums of three streams, then the larger of each pair."""
    flops = other(5 * rows * width)
    return Operation("elementwise", flops, flops, steps=(Each(2), Sum(2)), reads=6 * rows * width, writes=rows * width)


def _opened(c: RecurrentConfig, setting: Setting) -> Part:
    """All that comes before the first score: annotations and their keys, the first state and its query."""
    batch = setting.batch
    if setting.prepared:
        return _query(c, batch)
    rows = batch * setting.source_length
    directions = ("ahead", "back") if c.bidirectional else ("ahead",)
    return series(
        "",
        leaf("encoder.tokens", lookup_price(rows, c.source_vocabulary, c.width)),
        beside("encoder", *(_direction(name, c, setting) for name in directions)),
        beside(
            "",
            leaf("alignment.key", linear_price(rows, c.annotation_width, c.attention_width, bias=False)),
            series(
                "",
                leaf("start", linear_price(batch, c.hidden, c.hidden, bias=False)),
                leaf("start_tanh", activation_price("tanh", batch * c.hidden)),
                _query(c, batch),
            ),
        ),
    )


def _direction(name: str, c: RecurrentConfig, setting: Setting) -> Part:
    """The source read in one direction. The state before its first step is 0: nothing waits for it or learns of it."""
    batch, length = setting.batch, setting.source_length
    given = leaf("input", linear_price(batch * length, c.width, 3 * c.hidden, bias=False))
    begin, rest = _cell("", c, batch, begin=True), _cell("", c, batch, own=False, again=length - 1)
    return series(name, given, begin, rest if length != 1 else None)


def _query(c: RecurrentConfig, batch: Number, *, own: bool = True) -> Part:
    return leaf("alignment.query", linear_price(batch, c.hidden, c.attention_width, bias=False, own=own))


def _step(c: RecurrentConfig, setting: Setting, *, own: bool = True) -> Part:
    """One query over the annotations, which are keys (mapped) and values (as they are); then the next state."""
    batch, keys = setting.batch, setting.source_length
    sizes = Sizes(batch, 1, 1, 1, keys, c.attention_width, c.annotation_width)
    pairs, spec = Pairs.counting(1, keys) if sizes.whole else Pairs.counting(1, 1), read_spec("additive")
    work = Workload(sizes, setting.source_mask, pairs, replace(PLAIN, scaled=False))
    core = record_of(spec).operation(spec, work)
    core = replace(core, weights=c.attention_width if own else 0)
    return series("", leaf("alignment.core", core), _cell("cell", c, batch, context=c.annotation_width, own=own))


def _cell(
    name: str,
    c: RecurrentConfig,
    batch: Number,
    *,
    context: Number = 0,
    again: Number = 1,
    begin: bool = False,
    own: bool = True,
) -> Part:
    """z, r and the candidate: gates of the state, then the candidate of the reset state, then the mixture."""
    hidden = c.hidden
    gates: Part = leaf("gates", linear_price(batch, hidden, 2 * hidden, bias=False, own=own, first=begin))
    gates, given = replace(gates, early=begin), None
    if context:
        product = leaf("context", linear_price(batch, context, 3 * hidden, bias=False, own=own))
        given = series("", product, leaf("context_sum", add_price(3 * batch * hidden)))
    entries = batch * hidden
    return series(
        name,
        beside("", gates, given),
        leaf("gates_sum", add_price(2 * entries)),
        leaf("gates_sigmoid", activation_price("sigmoid", 2 * entries)),
        leaf("reset", scale_price(entries)),
        leaf("candidate", linear_price(batch, hidden, hidden, bias=False, own=own)),
        leaf("candidate_sum", add_price(entries)),
        leaf("candidate_tanh", activation_price("tanh", entries)),
        # z · new, (1 - z) · old beside it, and their sum
        leaf("mixture", Operation("elementwise", other(4 * entries), other(8 * entries), steps=(Each(2),),
                                  reads=3 * entries, writes=entries)),
        again=again,
    )  # fmt: skip
