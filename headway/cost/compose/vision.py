"""Prices of models that look at images: ViT, CLIP and DaViT."""

from dataclasses import replace

from headway.config import BlockConfig, FeedForwardConfig
from headway.config.base import Pair, sides
from headway.config.clip import ClipConfig
from headway.config.layers import AttentionConfig
from headway.config.vision import DaViTConfig, VisionConfig
from headway.cost.compose.layers import (
    attention_part,
    check_known,
    entering,
    feedforward_part,
    gather_part,
    leaving,
    query_map,
    source_maps,
    stack_part,
)
from headway.cost.compose.text import dropped, embed, unit
from headway.cost.op_tree import Part, beside, leaf, series
from headway.cost.setting import Setting
from headway.models.vit import pool_attention
from headway.ops.activation import activation_price
from headway.ops.elementwise_prices import add_price, scale_price
from headway.ops.linear import convolution_price, linear_price
from headway.ops.loss import loss_price
from headway.ops.norm import norm_price
from headway.sizes import Number, Operation, other
from headway.steps import POSITIONS, Each, Sum


def vision(c: VisionConfig, setting: Setting) -> Part:
    """Patches, tokens before them, positions, the stack, what makes one vector of it, classes."""
    block, batch, length = c.stack.block, setting.batch, c.length
    inner = replace(setting, length=length, past=0)
    entries = batch * length * entering(block)
    down, across = sides(c.patch)
    patches = convolution_price(
        batch * c.grid[0] * c.grid[1], down * across, c.channels, entering(block), first=True, bias=c.patch_bias,
        read=batch * c.channels * sides(c.image)[0] * sides(c.image)[1],
    )  # fmt: skip
    # A vector for every token, or half a vector for every row and for every column.
    table = {
        "learned": c.table_length * entering(block), "learned_grid": sum(c.grid) * (entering(block) // 2),
        "sinusoidal_grid": 0, "none": 0,
    }  # fmt: skip
    check_known("positions", c.positions, table)
    added = entries if c.positions == "learned" else batch * c.grid[0] * c.grid[1] * entering(block)
    positions = add_price(added, weights=table[c.positions], kind="embedding")
    return series(
        "",
        leaf("patches", patches),
        leaf("class_token", Operation("embedding", weights=c.extra * entering(block))) if c.extra else None,
        leaf("positions", positions) if c.positions != "none" else None,
        leaf("norm", norm_price(block.norm, batch * length, entering(block))) if c.embedding_norm else None,
        dropped("dropout", setting, entries, block.dropout),
        stack_part("stack", c.stack, inner, first=-c.extra or None),
        pool_part(block, length, setting) if c.pooling == "attention" else None,
        *_top(c, batch, leaving(block)),
        leaf("loss", loss_price(batch, c.classes)) if setting.training and c.classes else None,
    )


def _top(c: VisionConfig, batch: Number, width: Number) -> list[Part | None]:
    check_known("pooling", c.pooling, ("class", "mean", "class_mean", "attention"))
    mean = _mean(batch, c.length - c.extra, width) if c.pooling in ("mean", "class_mean") else None
    return [
        mean,
        leaf("pooler", linear_price(batch, width, width, bias=True)) if c.pooler else None,
        leaf("pooler_tanh", activation_price("tanh", batch * width)) if c.pooler else None,
        beside(
            "",
            leaf("head", linear_price(batch, c.vector_width, c.classes, bias=True)) if c.classes else None,
            leaf("teacher_head", linear_price(batch, width, c.classes, bias=True)) if c.teacher else None,
        ),
        leaf("heads_mean", scale_price(batch * c.classes, flops=2)) if c.teacher else None,
    ]


def pool_part(block: BlockConfig, length: Number, setting: Setting) -> Part:
    """A learned vector that attends to all patches, and a feed-forward that is added."""
    f, c, width = block.feedforward, pool_attention(block), leaving(block)
    assert f is not None
    one = replace(setting, length=1, source=length, past=0)
    keys = replace(source_maps(c, one), early=False)
    return series(
        "pool",
        leaf("probe", Operation("embedding", weights=width)),
        series("attention", beside("", query_map(c, one), keys), gather_part(c, one, crossing=True)),
        leaf("norm", norm_price(block.norm, one.rows, width)),
        feedforward_part(width, f, one),
        leaf("residual", add_price(one.rows * width)),
    )


def _mean(batch: Number, places: Number, width: Number) -> Part:
    flops = other(batch * places * width)
    steps = (Sum(places, POSITIONS), Each(1))
    return leaf("mean", Operation("elementwise", flops, flops, steps=steps, reads=batch * places * width))


def clip(c: ClipConfig, setting: Setting) -> Part:
    """Both towers side by side, vectors of length 1, and every image with every text."""
    batch, block, rows = setting.batch, c.stack.block, setting.rows
    images = series(
        "",
        series("vision", vision(c.vision, setting)),
        leaf("image_projection", linear_price(batch, c.vision.vector_width, c.width, bias=False))
        if c.image_projection
        else None,
        leaf("normalise", unit(batch, c.width)),
    )
    texts = series(
        "",
        embed("", c.vocabulary, entering(block), rows, positions="learned", length=c.length),
        dropped("dropout", setting, rows * entering(block), block.dropout),
        stack_part("stack", c.stack, setting),
        leaf("text_projection", linear_price(batch, leaving(block), c.width, bias=c.text_bias)),
        leaf("normalise", unit(batch, c.width)),
    )
    biased = c.objective == "sigmoid"
    return series(
        "",
        beside("", images, texts),
        leaf("logits", linear_price(batch, c.width, batch, bias=False, own=False)),
        leaf("logit_scale", scale_price(batch * batch, weights=1)),
        leaf("logit_bias", add_price(batch * batch, weights=1)) if biased else None,
    )


def davit(c: DaViTConfig, setting: Setting) -> Part:
    """A stem, stages of dual blocks on a grid that halves, the mean over the last grid, classes."""
    batch, last = setting.batch, len(c.depths) - 1
    (rows, columns), width = c.grids[last], c.widths[last]
    return series(
        "",
        _stem(c, batch),
        *(_stage(c, stage, setting) for stage in range(len(c.depths))),
        _mean(batch, rows * columns, width),
        leaf("norm", norm_price("layer", batch, width)),
        leaf("head", linear_price(batch, width, c.classes, bias=True)) if c.classes else None,
        leaf("loss", loss_price(batch, c.classes)) if setting.training and c.classes else None,
    )


def _stem(c: DaViTConfig, batch: Number) -> Part:
    rows, columns = c.grids[0]
    places = batch * rows * columns
    read = batch * c.channels * sides(c.image)[0] * sides(c.image)[1]
    conv = convolution_price(places, c.stem * c.stem, c.channels, c.widths[0], read=read, first=True)
    return series("stem", leaf("conv", conv), leaf("norm", norm_price("layer", places, c.widths[0])))


def _stage(c: DaViTConfig, stage: int, setting: Setting) -> Part:
    blocks = series(
        "blocks",
        _grid_block("spatial", c, stage, c.spatial(stage), c.padded(stage), setting),
        _grid_block("channel", c, stage, c.channel(stage), c.grids[stage], setting),
        times=c.depths[stage],
    )
    return series(f"stages.{stage}", _halve(c, stage, setting.batch) if stage else None, blocks)


def _halve(c: DaViTConfig, stage: int, batch: Number) -> Part:
    before, after = c.widths[stage - 1], c.widths[stage]
    (rows, columns), (down, across) = c.grids[stage - 1], c.grids[stage]
    entries = batch * rows * columns
    conv = convolution_price(batch * down * across, c.kernel**2, before, after, read=entries * before)
    return series("halve", leaf("norm", norm_price("layer", entries, before)), leaf("conv", conv))


def _grid_block(
    name: str, c: DaViTConfig, stage: int, attention: AttentionConfig, padded: Pair, setting: Setting
) -> Part:
    """x + c₁(x), x + attention(norm(x)), x + c₂(x), x + feedforward(norm(x))."""
    (rows, columns), width, batch = c.grids[stage], attention.width, setting.batch
    places = batch * rows * columns
    entries = places * width
    whole = replace(setting, length=padded[0] * padded[1], past=0)
    here = replace(setting, length=rows * columns, past=0)
    mlp = FeedForwardConfig(hidden=c.hidden(stage))
    parts: list[Part | None] = []
    for branch, inner in (
        ("attention", attention_part(attention, whole)),
        ("feedforward", feedforward_part(width, mlp, here)),
    ):
        conv = convolution_price(places, 9, width, width, groups=width, read=entries)
        parts += [
            leaf(f"{branch}_positions", conv),
            leaf(f"{branch}_positions_sum", add_price(entries)),
            leaf(f"{branch}_norm", norm_price("layer", places, width)),
            inner,
            dropped(f"{branch}_dropout", setting, entries, c.dropout),
            leaf(f"{branch}_residual", add_price(entries)),
        ]
    return series(name, *parts)
