"""The prices of layers, blocks and stacks: the operations of headway/nn, composed over a configuration.

Names of parts are those of the modules, so that a line of a price can be found in the model.
"""

from dataclasses import replace

import torch

from headway.config import Additive, AttentionConfig, BlockConfig, FeedForwardConfig, Linear, StackConfig
from headway.cost.part import Part, beside, leaf, series
from headway.cost.setting import Setting
from headway.nn.state import reach_of
from headway.ops.activation import activation_price
from headway.ops.attention import MECHANISMS
from headway.ops.attention.linear import resumed
from headway.ops.attention.price import Modifiers, attention_operation, softmax_depth
from headway.ops.linear import linear_price
from headway.ops.mask import Mask, causal
from headway.ops.mask.pairs import Pairs
from headway.ops.move import add_price, dropout_price, rotary_price, scale_price
from headway.ops.norm import norm_price
from headway.sizes import Number, Operation, Sizes
from headway.steps import Each

LEARNED = "learned"  # a bias with parameters of its own, added to the scores


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
    bias: str | None = None,
    first: int | None = None,
    fed: bool = False,
) -> Part:
    """Every block in turn, and a last norm. `first`: the position of the first token, where it is not 0 (or `past`).

    `fed`: the first block's input is the model's own and needs no gradient.
    """
    block = block_part("blocks", config.block, setting, bias=bias, first=first)
    norm = leaf("norm", norm_price(config.block.norm, setting.rows, leaving(config.block), training=setting.training))
    entry = block_part("blocks", config.block, setting, bias=bias, first=first, fed=True) if fed else None
    rest = config.layers - 1 if fed else config.layers
    blocks = replace(block, times=rest) if rest != 0 else None
    return series(name, entry, blocks, norm if config.final_norm else None)


def block_part(
    name: str,
    c: BlockConfig,
    setting: Setting,
    *,
    bias: str | None = None,
    first: int | None = None,
    fed: bool = False,
) -> Part:
    """Attention, optional cross-attention, feed-forward, each as a branch of the residual stream."""
    after, fed = c.attention.output_width, fed and (c.order != "pre" or c.norm == "none")
    own = attention_part(c.attention, setting, bias=bias, first=first, fed=fed)
    parts = [branch(c, setting, "attention", own, entering(c), after)]
    if c.cross is not None:
        cross = attention_part(c.cross, setting, name="cross", crossing=True)
        parts.append(branch(c, setting, "cross", cross, after, c.cross.output_width))
    if c.feedforward is not None:
        width = leaving(c)
        parts.append(branch(c, setting, "feedforward", feedforward_part(width, c.feedforward, setting), width, width))
    return series(name, *parts)


def branch(c: BlockConfig, setting: Setting, name: str, inner: Part, before: Number, after: Number) -> Part:
    """pre: x + f(norm(x)); post: norm(x + f(x)); none: x + f(x); without residual: f(x)."""
    kind = "none" if c.order == "none" else c.norm
    norm = leaf(
        f"{name}_norm", norm_price(kind, setting.rows, before if c.order == "pre" else after, training=setting.training)
    )
    entries = setting.rows * after
    return series(
        "",
        norm if c.order == "pre" and kind != "none" else None,
        inner,
        leaf(f"{name}_dropout", dropout_price(entries)) if setting.training and c.dropout else None,
        leaf(f"{name}_residual", add_price(entries)) if c.residual else None,
        norm if c.order == "post" and kind != "none" else None,
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
    bias: str | None = None,
    first: int | None = None,
    fed: bool = False,
) -> Part:
    """Projections around a mechanism; a source that is held in a cache is not projected again."""
    maps = [query_map(c, setting, fed=fed, crossing=crossing)]
    if not (crossing and setting.prepared):
        maps.append(source_maps(c, setting, crossing=crossing, fed=fed))
    return series(name, beside("", *maps), gather_part(c, setting, crossing=crossing, bias=bias, first=first))


def query_map(c: AttentionConfig, setting: Setting, *, fed: bool = False, crossing: bool = False) -> Part:
    """Queries are what is scaled: of cross-attention, the keys need not wait for it."""
    part = _map("query", c, setting.rows, c.width, c.heads * c.head_width, turned=c.heads, fed=fed)
    if not crossing or not _scaled(c):
        return part
    return series("", part, leaf("query_scale", Operation("elementwise", steps=(Each(1),))))


def _scaled(c: AttentionConfig) -> bool:
    if isinstance(c.mechanism, Additive):
        return c.scale is not None  # its scores have no scale of their own
    return c.scale != 1.0 and not isinstance(c.mechanism, Linear)


def source_maps(c: AttentionConfig, setting: Setting, *, crossing: bool, fed: bool = False) -> Part:
    """Keys and values, side by side. Of a source they are ready long before the query is: not on the longest way."""
    rows = setting.batch * setting.source_length if crossing else setting.rows
    key = _map("key", c, rows, c.source_width, c.kv_heads * c.head_width, turned=c.kv_heads, fed=fed)
    value = _map("value", c, rows, c.source_width, c.kv_heads * c.value_width, fed=fed)
    return replace(beside("", key, value), early=crossing)


def gather_part(
    c: AttentionConfig, setting: Setting, *, crossing: bool = False, bias: str | None = None, first: int | None = None
) -> Part:
    """The mechanism itself and the map of what it gathers."""
    core = leaf("core", core_price(c, setting, crossing=crossing, bias=bias, first=first))
    out = leaf("out", linear_price(setting.rows, c.heads * c.value_width, c.output_width, bias=c.output_bias))
    return series("", core, out if c.project else None)


def _map(
    name: str, c: AttentionConfig, rows: Number, inputs: Number, outputs: Number, *, turned: Number = 0, fed: bool
) -> Part:
    product = leaf(name, linear_price(rows, inputs, outputs, bias=c.bias, first=fed))
    if c.rotary is None or not turned:
        return product
    width = c.rotary.width or c.head_width
    return series("", product, leaf(f"{name}_rotary", rotary_price(rows * turned * width)))


def core_price(
    c: AttentionConfig, setting: Setting, *, crossing: bool = False, bias: str | None = None, first: int | None = None
) -> Operation:
    """The mechanism itself, with the mask that the model lays on it."""
    sizes = Sizes(setting.batch, c.heads, c.kv_heads, setting.length, _keys(c, setting, crossing), c.head_width,
                  c.value_width)  # fmt: skip
    modifiers = Modifiers(
        scaled=_scaled(c), early=crossing, softcap=c.softcap is not None, bias=bias is not None,
        learned=bias == LEARNED, gradients=setting.training,
    )  # fmt: skip
    mask = setting.source_mask if crossing else _own_mask(c, setting)
    found = mechanism_price(c, sizes, mask, _pairs(sizes, setting, crossing, first), modifiers)
    if isinstance(c.mechanism, Linear) and setting.past != 0 and sizes.whole and not crossing:
        found = replace(found, forward=replace(found.forward, executed=resumed(sizes, c.mechanism)))
    return replace(found, weights=c.heads * c.head_width) if isinstance(c.mechanism, Additive) else found


def mechanism_price(
    c: AttentionConfig, sizes: Sizes, mask: Mask | None, pairs: Pairs, modifiers: Modifiers
) -> Operation:
    """The price of the mechanism; of one's own that has no price, what its cost says, and softmax's depth."""
    record = next((one for one in MECHANISMS.values() if isinstance(c.mechanism, one.spec)), None)
    if record is None:
        raise ValueError(
            f"{type(c.mechanism).__name__} is the spec of no mechanism in MECHANISMS: it has no price here"
        )
    if record.price is not None:
        return record.price(sizes, mask, c.mechanism, pairs, modifiers)
    forward = record.cost(sizes, mask, c.mechanism, pairs)
    steps = softmax_depth(sizes, modifiers)
    return attention_operation(sizes, forward=forward, backward=forward + forward, steps=steps)


def _keys(c: AttentionConfig, setting: Setting, crossing: bool) -> Number:
    """The source, or what the cache holds and the new tokens; a running total holds none, a window its width."""
    if crossing:
        return setting.source_length
    if isinstance(c.mechanism, Linear):
        return setting.length
    reach = reach_of(c) if isinstance(setting.past, int) and setting.past else 0
    return setting.length + (min(setting.past, reach - 1) if reach else setting.past)


def _own_mask(c: AttentionConfig, setting: Setting) -> Mask | None:
    single = isinstance(setting.length, int) and setting.length == 1 and setting.past != 0
    if not c.causal or (single and not isinstance(c.mechanism, Linear)):  # it may see all that is held
        return setting.text_mask
    mask = setting.text_mask
    return causal() if mask is None else mask & causal()


def _pairs(sizes: Sizes, setting: Setting, crossing: bool, first: int | None) -> Pairs:
    if not sizes.whole:
        return Pairs.counting(1, 1)  # nobody looks at it
    if crossing:
        return Pairs.counting(sizes.queries, sizes.keys)
    begin = setting.past if first is None else first
    if not begin and setting.session and setting.batch > 1:
        return Pairs.of(torch.arange(sizes.queries).expand(setting.batch, -1))  # a cache knows where each row stands
    if not begin:
        return Pairs.of(sizes.queries)
    query = torch.arange(begin, begin + sizes.queries)
    return Pairs.of(query, torch.arange(begin + sizes.queries - sizes.keys, begin + sizes.queries))
