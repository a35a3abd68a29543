"""The prices of layers, blocks and stacks: the operations of headway/nn, composed over a configuration.

Names of parts are those of the modules, so that a line of a price can be found in the model.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from typing import get_args

import torch

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, PositionBias, StackConfig, nearest
from headway.config.layers import Order
from headway.cost.op_tree import Part, beside, leaf, series
from headway.cost.setting import Setting
from headway.nn.context import TABLED
from headway.ops.activation import activation_price
from headway.ops.attention import CacheNeed, record_of
from headway.ops.attention.cost import Workload
from headway.ops.attention.plan import Modifiers
from headway.ops.elementwise_prices import add_price, dropout_price, rotary_price, scale_price
from headway.ops.linear import linear_price
from headway.ops.mask import Mask, causal
from headway.ops.mask.pairs import Pairs
from headway.ops.norm import norm_price
from headway.sizes import Number, Operation, Sizes
from headway.steps import Each


def check_known(what: str, value: str, known: Iterable[str]) -> None:
    """Refuses a part of a model whose cost nobody wrote down, instead of taking it for another."""
    if value not in (known := tuple(known)):
        raise ValueError(
            f"the cost of {what} {value!r} is not known{nearest(value, known)}: known are {', '.join(known)}; "
            "headway.price of the module itself traces it"
        )


def entering(block: BlockConfig) -> Number:
    """The width of what enters a block, which may be a symbol."""
    return block.attention.width


def leaving(block: BlockConfig) -> Number:
    return (block.cross or block.attention).output_width


def stack_part(
    name: str,
    config: StackConfig,
    setting: Setting,
    *,
    first: int | None = None,
    fed: bool = False,
) -> Part:
    """Every block in turn, and a last norm. `first`: the position of the first token, where it is not 0 (or `past`).

    `fed`: the first block's input is the model's own and needs no gradient.
    """
    norm = leaf("norm", norm_price(config.block.norm, setting.rows, leaving(config.block), training=setting.training))
    entry = block_part("blocks", config.block, setting, bias=config.bias, first=first, fed=True) if fed else None
    counts = list(config.counts)
    counts[0] = counts[0] - 1 if fed else counts[0]
    repeated = "again" if config.shared else "times"
    entry = _borrowing(entry) if entry is not None and config.shared and counts[0] != 0 else entry
    blocks = [
        replace(block_part("blocks", block, setting, bias=config.bias, first=first), **{repeated: count})
        for block, count in zip(config.pattern, counts, strict=True)
        if count != 0
    ]
    return series(name, bias_part(config), entry, *blocks, norm if config.final_norm else None)


def _borrowing(part: Part) -> Part:
    """The same operations with parameters that another part counts."""
    operation = None if part.operation is None else replace(part.operation, weights=0)
    return replace(part, operation=operation, inside=tuple(map(_borrowing, part.inside)))


def bias_part(config: StackConfig) -> Part | None:
    """The learned numbers of a bias over differences of positions."""
    if config.bias is None or not is_learned(config.bias):
        return None
    return leaf("bias", Operation("embedding", weights=numbers_of(config.bias) * config.block.attention.heads))


def is_learned(bias: PositionBias | None) -> bool:
    return bias is not None and numbers_of(bias) > 0


def numbers_of(bias: PositionBias) -> int:
    """Learned numbers for each head: none for ALiBi, one for each bucket, or for each difference -reach … reach."""
    sizes = {"alibi": 0, "relative": getattr(bias, "buckets", 0), "clipped": 2 * getattr(bias, "reach", 0) + 1}
    check_known("bias", bias.kind, sizes)
    return sizes[bias.kind]


def block_part(
    name: str,
    c: BlockConfig,
    setting: Setting,
    *,
    bias: PositionBias | None = None,
    first: int | None = None,
    fed: bool = False,
) -> Part:
    """Attention, optional cross-attention, feed-forward, each as a branch of the residual stream."""
    bare = c.order not in ("pre", "sandwich") or c.norm == "none" or not c.first_norm
    after, fed = c.attention.output_width, fed and bare
    own = attention_part(c.attention, setting, bias=bias, first=first, fed=fed)
    parts = [branch(c, setting, "attention", own, entering(c), after)]
    if c.cross is not None:
        cross = attention_part(c.cross, setting, name="cross", crossing=True)
        parts.append(branch(c, setting, "cross", cross, after, c.cross.output_width))
    if c.feedforward is not None:
        width = leaving(c)
        parts.append(branch(c, setting, "feedforward", feedforward_part(width, c.feedforward, setting), width, width))
    if not c.parallel:
        return series(name, *parts)
    joined = [leaf(f"{part}_residual", add_price(setting.rows * after)) for part in ("attention", "feedforward")]
    return series(name, beside("", *parts), *joined)


def branch(c: BlockConfig, setting: Setting, name: str, inner: Part, before: Number, after: Number) -> Part:
    """The formulas of `headway.nn.block`, by where its norms stand."""
    check_known("order", c.order, get_args(Order))
    entries = setting.rows * after

    def norm(end: str, width: Number, *orders: str) -> Part | None:
        if c.order not in orders or c.norm == "none" or (name == "attention" and not c.first_norm):
            return None
        return leaf(f"{name}_{end}", norm_price(c.norm, setting.rows, width, training=setting.training))

    return series(
        "",
        norm("norm", before, "pre", "sandwich"),
        inner,
        norm("out_norm", after, "res_post", "sandwich"),
        leaf(f"{name}_scale", scale_price(entries, weights=after)) if c.layer_scale is not None else None,
        leaf(f"{name}_scale", scale_price(entries)) if c.residual_scale != 1.0 else None,
        leaf(f"{name}_dropout", dropout_price(entries)) if setting.training and c.dropout else None,
        leaf(f"{name}_residual", add_price(entries)) if c.residual and not c.parallel else None,
        norm("norm", after, "post"),
    )


def feedforward_part(width: Number, c: FeedForwardConfig, setting: Setting) -> Part:
    """down(act(up(x))), or down(act(gate(x)) · up(x))."""
    rows = setting.rows
    up = leaf("up", linear_price(rows, width, c.hidden, bias=c.bias))
    curve = leaf("activation", activation_price(c.activation, rows * c.hidden))
    down = leaf("down", linear_price(rows, c.hidden, width, bias=c.bias))
    if not c.gated:
        return series("feedforward", up, curve, down)
    gate = leaf("gate", linear_price(rows, width, c.hidden, bias=c.bias))
    gated = leaf("product", scale_price(rows * c.hidden))
    return series("feedforward", beside("", series("", gate, curve), up), gated, down)


def attention_part(
    c: AttentionConfig,
    setting: Setting,
    *,
    name: str = "attention",
    crossing: bool = False,
    bias: PositionBias | None = None,
    first: int | None = None,
    fed: bool = False,
) -> Part:
    """Projections around a mechanism; a source that is held in a cache is not projected again."""
    if not crossing:
        maps = _map("qkv", c, setting.rows, c.width, _columns(c), made={"query": c.heads, "key": c.kv_heads}, fed=fed)
    elif setting.prepared:
        maps = query_map(c, setting)
    else:
        maps = beside("", query_map(c, setting), source_maps(c, setting))
    return series(name, maps, gather_part(c, setting, crossing=crossing, bias=bias, first=first))


def _columns(c: AttentionConfig) -> Number:
    """Of queries, keys and values together."""
    return c.heads * c.head_width + c.kv_heads * (c.head_width + c.value_width)


def query_map(c: AttentionConfig, setting: Setting) -> Part:
    """Of cross-attention; queries are what is scaled, and the keys need not wait for it."""
    part = _map("query", c, setting.rows, c.width, c.heads * c.head_width, made={"query": c.heads}, fed=False)
    if not _scaled(c):
        return part
    return series("", part, leaf("query_scale", Operation("elementwise", steps=(Each(1),))))


def _scaled(c: AttentionConfig) -> bool:
    """Whether scores are multiplied by a scale: by the mechanism's own where nobody says."""
    return record_of(c.mechanism).scales if c.scale is None else c.scale != 1.0


def source_maps(c: AttentionConfig, setting: Setting) -> Part:
    """Keys and values of a source: ready long before the query is, and so not on the longest way."""
    rows = setting.batch * setting.source_length
    columns = c.kv_heads * (c.head_width + c.value_width)
    part = _map("key_value", c, rows, c.source_width, columns, made={"key": c.kv_heads}, fed=False)
    return replace(part, early=True)


def gather_part(
    c: AttentionConfig,
    setting: Setting,
    *,
    crossing: bool = False,
    bias: PositionBias | None = None,
    first: int | None = None,
) -> Part:
    """The mechanism itself and the map of what it gathers."""
    core = leaf("core", core_price(c, setting, crossing=crossing, bias=bias, first=first))
    out = leaf("out", linear_price(setting.rows, c.heads * c.value_width, c.output_width, bias=c.output_bias))
    return series("", core, out if c.project else None)


def _map(
    name: str,
    c: AttentionConfig,
    rows: Number,
    inputs: Number,
    outputs: Number,
    *,
    made: Mapping[str, Number],
    fed: bool,
) -> Part:
    """A product that makes queries, keys or both (`made`: how many heads of each), their norms, their rotation."""
    product = leaf(name, linear_price(rows, inputs, outputs, bias=c.bias, first=fed))
    norms = [_qk_norm(part, heads, c, rows) for part, heads in made.items()] if c.qk_norm is not None else []
    if c.rotary is None:
        return series("", product, beside("", *norms)) if norms else product
    turned = rows * sum(made.values()) * (c.rotary.width or c.head_width)
    return series("", product, beside("", *norms) if norms else None, leaf(f"{name}_rotary", rotary_price(turned)))


def _qk_norm(part: str, heads: Number, c: AttentionConfig, rows: Number) -> Part:
    """Each head is a row by itself, with weights that all share; or all heads are one row."""
    assert c.qk_norm is not None
    each = c.qk_norm.over == "head"
    price = norm_price(c.qk_norm.norm, rows * heads if each else rows, c.head_width if each else heads * c.head_width)
    return leaf(f"{part}_norm", price)


def core_price(
    c: AttentionConfig,
    setting: Setting,
    *,
    crossing: bool = False,
    bias: PositionBias | None = None,
    first: int | None = None,
) -> Operation:
    """The mechanism itself, with the mask that the model lays on it, and the parameters that it needs."""
    record, need = record_of(c.mechanism), record_of(c.mechanism).cache_of(c.mechanism)
    sizes = Sizes(setting.batch, c.heads, c.kv_heads, setting.length, _keys(need, setting, crossing), c.head_width,
                  c.value_width)  # fmt: skip
    # A bias that every layer shares is a table of the whole pass where it is small, and a rule beyond.
    modifiers = Modifiers(
        scaled=_scaled(c), early=crossing, softcap=c.softcap is not None, bias=bias is not None,
        rule=bias is not None and _long(sizes),
        learned=is_learned(bias), gradients=setting.training,
    )  # fmt: skip
    mask = setting.source_mask if crossing else _own_mask(c, need, setting)
    past = 0 if crossing else setting.past
    cached = not crossing and (setting.session or past != 0)
    work = Workload(sizes, mask, _pairs(sizes, setting, crossing, first), modifiers, past, cached)
    found = record.operation(c.mechanism, work)
    shapes = record.parameters(c.heads, c.head_width).values()
    return replace(found, weights=found.weights + sum(prod(shape) for shape in shapes))


def _long(sizes: Sizes) -> bool:
    """Whether the bias is made tile by tile; of a length that is a letter nobody asks how it is computed."""
    pairs = sizes.queries * sizes.keys
    return isinstance(pairs, int) and pairs > TABLED


def _keys(need: CacheNeed, setting: Setting, crossing: bool) -> Number:
    """The source, or what the cache holds and the new tokens; a running total holds none, a window its width."""
    if crossing:
        return setting.source_length
    if setting.past != 0 and need.kind == "none":
        raise ValueError(need.why)
    if need.kind == "total":
        return setting.length
    window = need.window if isinstance(setting.past, int) and setting.past else 0
    return setting.length + (min(setting.past, window - 1) if window else setting.past)


def _own_mask(c: AttentionConfig, need: CacheNeed, setting: Setting) -> Mask | None:
    single = isinstance(setting.length, int) and setting.length == 1 and setting.past != 0
    if not c.causal or (single and need.kind != "total"):  # it may see all that is held
        return setting.text_mask
    mask = setting.text_mask
    return causal() if mask is None else mask & causal()


def _pairs(sizes: Sizes, setting: Setting, crossing: bool, first: int | None) -> Pairs:
    if not sizes.whole:
        return Pairs.counting(1, 1)  # nobody looks at it
    if crossing:
        return Pairs.counting(sizes.queries, sizes.keys)
    begin = setting.past if first is None else first
    if not begin:
        return Pairs.of(sizes.queries)
    query = torch.arange(begin, begin + sizes.queries)
    return Pairs.of(query, torch.arange(begin + sizes.queries - sizes.keys, begin + sizes.queries))
