"""Prices of models that read a source and write a target: Transformers, and Bahdanau's recurrent one."""

from dataclasses import replace

from headway.config import Additive, BlockConfig, StackConfig
from headway.config.recurrent import RecurrentConfig
from headway.config.seq2seq import Seq2SeqConfig
from headway.cost.layers import LEARNED, stack_part
from headway.cost.models_text import dropped, embed
from headway.cost.part import Part, beside, leaf, series
from headway.cost.setting import Setting
from headway.ops.activation import activation_price
from headway.ops.attention import MECHANISMS
from headway.ops.attention.price import PLAIN
from headway.ops.linear import linear_price
from headway.ops.loss import loss_price
from headway.ops.mask.pairs import Pairs
from headway.ops.move import add_price, lookup_price, scale_price
from headway.ops.norm import norm_price
from headway.sizes import Number, Operation, Sizes, other
from headway.steps import Each


def seq2seq(c: Seq2SeqConfig, setting: Setting) -> Part:
    """Encode the source (unless it is held already), decode the target, head."""
    source = replace(setting, length=setting.source_length, lengths=setting.source_lengths, past=0, mask=None)
    width, asked = c.decoder.block.output_width, setting.batch * setting.asked
    shared = c.target_vocabulary is None
    return series(
        "",
        None if setting.prepared else _side(c, c.encoder, source, "source", "encoder", c.vocabulary, own=True),
        _side(c, c.decoder, setting, "target", "decoder", c.outputs, own=not shared),
        leaf("head_scale", scale_price(asked * width)) if c.head_scale != 1.0 else None,
        leaf("head", linear_price(asked, width, c.outputs, bias=c.head_bias, own=not c.tied)),
        leaf("loss", loss_price(asked, c.outputs)) if setting.training else None,
    )


def _side(
    c: Seq2SeqConfig, stack: StackConfig, setting: Setting, entrance: str, name: str, vocabulary: Number, *, own: bool
) -> Part:
    heads = stack.block.attention.heads
    table = None if c.relative is None else Operation("embedding", weights=c.relative.buckets * heads)
    return series(
        "",
        _entrance(c, stack.block, setting, entrance, vocabulary, own),
        None if table is None else leaf(f"{entrance}_bias", table),
        stack_part(name, stack, setting, bias=None if c.relative is None else LEARNED),
    )


def _entrance(c: Seq2SeqConfig, block: BlockConfig, setting: Setting, name: str, vocabulary: Number, own: bool) -> Part:
    """norm(scale · x + position), each part where the model has it."""
    rows, entries = setting.rows, setting.rows * block.width
    words = embed("", vocabulary, block.width, rows, positions="none", own=own)
    table = None
    if c.positions == "learned":
        table = leaf("positions", lookup_price(rows, c.length + c.offset, block.width))  # pyright: ignore
    scaled = leaf("scale", scale_price(entries)) if c.embedding_scale != 1.0 else None
    return series(
        f"{name}_entrance",
        beside("", series("", words, scaled), table),
        leaf("positions_sum", add_price(entries)) if c.positions != "none" else None,
        leaf("norm", norm_price(block.norm, rows, block.width)) if c.embedding_norm else None,
        dropped("dropout", setting, entries, block.dropout),
    )


def recurrent(c: RecurrentConfig, setting: Setting) -> Part:
    """A step after the other: what a state needs of the state before it cannot run at once with it."""
    batch, length = setting.batch, setting.length
    rows, asked = batch * length, batch * setting.asked
    wide = 2 * c.output_width
    return series(
        "",
        None if setting.prepared else _annotate(c, setting),
        leaf("tokens", lookup_price(rows, c.vocabulary, c.width)),
        leaf("cell.input", linear_price(rows, c.width, 3 * c.hidden, bias=False)),
        series("", _align(c, setting), _cell("cell", c, batch, context=c.annotation_width), again=length),
        beside(
            "deep",
            leaf("state", linear_price(rows, c.hidden, wide, bias=False)),
            leaf("input", linear_price(rows, c.width, wide, bias=False)),
            leaf("context", linear_price(rows, c.annotation_width, wide, bias=False)),
        ),
        # two sums of three streams, then the larger of each pair
        leaf("deep.maxout", Operation("elementwise", other(5 * rows * c.output_width), other(5 * rows * c.output_width),
                                      steps=(Each(3),), reads=3 * rows * wide, writes=rows * c.output_width)),
        leaf("head", linear_price(asked, c.output_width, c.vocabulary, bias=False)),
        leaf("loss", loss_price(asked, c.vocabulary)) if setting.training else None,
    )  # fmt: skip


def _annotate(c: RecurrentConfig, setting: Setting) -> Part:
    """The source read in one direction or in both at once, keys of the alignment, the first state."""
    batch, length = setting.batch, setting.source_length
    rows = batch * length

    def way(name: str) -> Part:
        given = leaf("input", linear_price(rows, c.width, 3 * c.hidden, bias=False))
        # The state before the first step is 0 and learns nothing; the other steps have the same parameters.
        begin, rest = _cell("", c, batch, begin=True), _cell("", c, batch, own=False, again=length - 1)
        return series(name, given, begin, rest if length != 1 else None)

    directions = ("ahead", "back") if c.bidirectional else ("ahead",)
    start = leaf("start", linear_price(batch, c.hidden, c.hidden, bias=False))
    return series(
        "",
        leaf("encoder.tokens", lookup_price(rows, c.source_vocabulary, c.width)),
        beside("encoder", *map(way, directions)),
        beside(
            "",
            leaf("alignment.key", linear_price(rows, c.annotation_width, c.attention_width, bias=False)),
            series("", start, leaf("start_tanh", activation_price("tanh", batch * c.hidden))),
        ),
    )


def _align(c: RecurrentConfig, setting: Setting) -> Part:
    """One query over the annotations, which are keys (mapped) and values (as they are)."""
    batch, keys = setting.batch, setting.source_length
    sizes = Sizes(batch, 1, 1, 1, keys, c.attention_width, c.annotation_width)
    price = MECHANISMS["additive"].price
    assert price is not None
    pairs = Pairs.counting(1, keys) if sizes.whole else Pairs.counting(1, 1)
    core = price(sizes, setting.source_mask, Additive(), pairs, PLAIN)
    query = linear_price(batch, c.hidden, c.attention_width, bias=False)
    return series("alignment", leaf("query", query), leaf("core", replace(core, weights=c.attention_width)))


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
    gates = leaf("gates", linear_price(batch, hidden, 2 * hidden, bias=False, own=own, first=begin))
    given = None
    if context:
        product = leaf("context", linear_price(batch, context, 3 * hidden, bias=False))
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
