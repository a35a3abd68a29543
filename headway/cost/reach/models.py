"""What every layer of a model sees of its inputs, by composing what each layer looks at.

Parts: `stack` (of tokens, or of patches), `encoder` (what its layers see of the source), `decoder` (of the target),
`source` (what the decoder's layers see of the source); of DaViT `stem`, `spatial` and `channel` (of pixels). In a DaViT
a convolution sees a square of positions, a window its tile, both products of a range of rows and one of columns; a
score between channels is a sum over the whole grid.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from headway.config import (
    AttentionConfig,
    BlockConfig,
    DaViTConfig,
    Frozen,
    RecurrentConfig,
    SentenceConfig,
    Seq2SeqConfig,
    StackConfig,
    VisionConfig,
    sides,
)
from headway.config.base import Pair
from headway.config.layers import stacks_of
from headway.cost.reach.masks import looked_at, selected_layers, selects, tile_axis
from headway.cost.reach.sets import (
    LONGEST,
    Axis,
    Boxes,
    LayerSets,
    Sets,
    TableSets,
    compose,
    everything,
    itself,
    nothing,
    same,
    union,
)
from headway.ops.mask import Mask
from headway.ops.mask.kernel import kept_keys, without_padding
from headway.ops.mask.pairs import Pairs


def grid_layers(config: DaViTConfig) -> list[LayerSets]:
    """The stem, and the two kinds of block in turn, numbered through all stages."""
    image, grids, number = sides(config.image), config.grids, 0
    pixels = Boxes(tuple(itself(size) for size in image))
    found: list[LayerSets] = []
    seen: Sets = pixels
    for stage, (grid, before) in enumerate(zip(grids, (image, *grids), strict=False)):
        side, step = (config.kernel, 2) if stage else (config.stem, config.stride)
        seen = compose(_convolution(grid, before, side, step), seen)
        if not stage:
            found.append(LayerSets("stem", 0, seen))
        for _ in range(config.depths[stage]):
            for part, attended in (("spatial", _windows(config, grid)), ("channel", _channels(config, stage))):
                number, seen = number + 1, _block(grid, attended, seen)
                found.append(LayerSets(part, number, seen))
    return found


def _block(grid: Pair, attended: Boxes, seen: Sets) -> Sets:
    """A convolution of 3 x 3, attention, another convolution; each beside a residual, which adds nothing new."""
    near = _convolution(grid, grid, 3, 1)
    return compose(near, compose(attended, compose(near, seen)))


def _convolution(after: Pair, before: Pair, side: int, step: int) -> Boxes:
    """Each position sees `side` x `side` of those before, one square every `step`.

    A side of 2 begins at its own place; an odd side has its place in the middle.
    """
    return _along(after, before, lambda size, old: _taps(size, old, side, step))


def _taps(size: int, old: int, side: int, step: int) -> Axis:
    first = torch.arange(size) * step - (side - 1) // 2
    return Axis(first.clamp(min=0), (first + side).clamp(max=old), old)


def _along(after: Pair, before: Pair, axis: Callable[[int, int], Axis]) -> Boxes:
    return Boxes(tuple(axis(size, old) for size, old in zip(after, before, strict=True)))


def _windows(config: DaViTConfig, grid: Pair) -> Boxes:
    return Boxes(tuple(tile_axis(size, part) for size, part in zip(grid, sides(config.window), strict=True)))


def _channels(config: DaViTConfig, stage: int) -> Boxes:
    """All positions; but a group of one channel has nothing to choose from, and each position keeps to itself."""
    alone = config.channel(stage).head_width == 1
    return Boxes(tuple(itself(size) if alone else everything(size, size) for size in config.grids[stage]))


@dataclass(frozen=True, eq=False)
class Texts:
    """How long the text is, and the source where there is one; a mask of the text, padding included."""

    length: int
    source: int
    mask: Mask | None = None

    def __post_init__(self) -> None:
        if self.mask is not None and self.mask.batch > 1:
            raise ValueError(f"a reach is of one text: this mask tells {self.mask.batch} rows of a batch apart")

    @property
    def real(self) -> int:
        """Tokens of the text that are not padding."""
        keep = None if self.mask is None else kept_keys(self.mask)
        return self.length if keep is None else int(keep.sum())

    def pairs(self) -> tuple[Pairs, Mask | None]:
        """Where tokens stand, and what else hides them: padding at the ends is simply not there."""
        keep = None if self.mask is None else kept_keys(self.mask)
        if self.mask is None or keep is None:
            return Pairs.of(self.length), self.mask
        self.mask.check(1, self.mask.heads, self.length, self.length)
        first, real = int(keep[0].int().argmax()), int(keep.sum())
        if without_padding(self.mask) is None and bool(keep[0, first : first + real].all()):
            return Pairs.of(real), None
        return Pairs.of(torch.arange(self.length) - first), self.mask


def layers_of(config: Frozen, texts: Texts) -> list[LayerSets]:
    """The sets of every layer of a model."""
    if isinstance(config, SentenceConfig):
        return layers_of(config.encoder, texts)
    if isinstance(config, VisionConfig):
        return _patches(config, texts.mask)
    if len(stacks := list(stacks_of(config).values())) == 1:
        return _stack("stack", stacks[0], texts)
    if texts.mask is not None:
        raise ValueError(
            f"a mask of one's own is for models of one text, or of patches, not for {config.kind_or_name()}"
        )
    if isinstance(config, DaViTConfig):
        return grid_layers(config)
    if isinstance(config, Seq2SeqConfig):
        return _translation(config, texts)
    if isinstance(config, RecurrentConfig):
        return _recurrent(config, texts)
    raise ValueError(f"{config.kind_or_name()} configures no model whose layers could be operations_are_followed")


def _stack(part: str, config: StackConfig, texts: Texts) -> list[LayerSets]:
    attention, (pairs, mask) = config.block.attention, texts.pairs()
    length = pairs.shape[0]
    if mask is None and length > LONGEST and selects(attention, length) and not config.alternates:
        return _layers(part, selected_layers(attention, length, config.layers), causal=attention.causal)
    seen = _seen(config, pairs, mask)
    return _layers(part, repeated(seen, _start(seen), config.layers), causal=attention.causal)


def _seen(config: StackConfig, pairs: Pairs, mask: Mask | None) -> list[Sets]:
    """What each block of the pattern looks at."""
    return [looked_at(b.attention, pairs, mask=mask, residual=b.residual) for b in config.pattern]


def _start(patterns: list[Sets]) -> Sets:
    """Every position sees itself before the first layer, in the same axes."""
    seen = patterns[0]
    if not all(isinstance(one, Boxes) for one in patterns) or not isinstance(seen, Boxes):
        return TableSets(torch.eye(len(seen.counts), dtype=torch.bool))
    return Boxes(tuple(itself(axis.size, axis.step) for axis in seen.axes))


def repeated(seen: list[Sets], start: Sets, layers: int) -> list[Sets]:
    """The same layers again and again; where none of them changes anything any more, nothing is computed."""
    found: list[Sets] = []
    for layer in range(layers):
        before = found[-1] if found else start
        after = compose(seen[layer % len(seen)], before)
        if len(found) >= len(seen) and all(same(after, one) for one in found[-len(seen) :]):
            return found + [before] * (layers - len(found))
        found.append(after)
    return found


def _layers(part: str, found: list[Sets], *, causal: bool = False) -> list[LayerSets]:
    return [LayerSets(part, number, sets, causal) for number, sets in enumerate(found, 1)]


def _patches(config: VisionConfig, mask: Mask | None) -> list[LayerSets]:
    """Of the patches: tokens before them are parameters, and see nothing before the first layer."""
    extra, patches = config.extra, config.grid[0] * config.grid[1]
    pairs = Pairs.of(patches) if not extra else Pairs.of(torch.arange(-extra, patches))
    seen = _seen(config.stack, pairs, mask)
    if extra or any(isinstance(one, TableSets) for one in seen):
        keep = None if mask is None else kept_keys(mask)
        start = Boxes((Axis(*_after_extra(extra, patches), patches),))
        start = start if keep is None else TableSets(start.table[keep[0]][:, keep[0, extra:]])
    else:
        start = _start(seen)
    return _layers("stack", repeated(seen, start, config.stack.layers))


def _after_extra(extra: int, patches: int) -> tuple[Int[Tensor, " L"], Int[Tensor, " L"]]:
    place = torch.arange(-extra, patches)
    return place.clamp(min=0), (place + 1).clamp(min=0)


def _translation(config: Seq2SeqConfig, texts: Texts) -> list[LayerSets]:
    encoder = _stack("encoder", config.encoder, Texts(texts.source, texts.source))
    own, other = _decoded(config.decoder, texts, encoder[-1].sets)
    return encoder + _layers("decoder", own, causal=True) + _layers("source", other)


def _decoded(config: StackConfig, texts: Texts, memory: Sets) -> tuple[list[Sets], list[Sets]]:
    """What the decoder's layers see of the target, and of the source through what the encoder saw."""
    block = config.block
    assert block.cross is not None
    patterns = _seen(config, Pairs.of(texts.length), None)
    across = _across(block.cross, texts)
    given = compose(across, memory)
    own, other = _start(patterns), Boxes((nothing(texts.length, texts.source),))
    found: tuple[list[Sets], list[Sets]] = ([], [])
    for layer in range(config.layers):
        seen = patterns[layer % len(patterns)]
        own, other = compose(seen, own), compose(seen, other)
        own, other = _asking(block, across, own), union(_asking(block, across, other), given)
        found[0].append(own)
        found[1].append(other)
    return found


def _across(cross: AttentionConfig, texts: Texts) -> Sets:
    return looked_at(cross, Pairs.counting(texts.length, texts.source), own=False)


def _asking(block: BlockConfig, across: Sets, sets: Sets) -> Sets:
    """What passes a cross-attention: by the residual, or by the query where there is more than one key to weigh."""
    if block.residual or bool((across.counts > 1).all()):
        return sets
    return TableSets(sets.table & (across.counts > 1)[:, None])


def _recurrent(config: RecurrentConfig, texts: Texts) -> list[LayerSets]:
    """Reading from both ends a network has seen all, from one end all before; the decoder starts from all of it."""
    length, source = texts.length, texts.source
    ahead = Axis(torch.zeros(source, dtype=torch.long), torch.arange(source) + 1, source)
    encoder = everything(source, source) if config.bidirectional else ahead
    decoder = Axis(torch.zeros(length, dtype=torch.long), torch.arange(length) + 1, length)
    return [
        LayerSets("encoder", 1, Boxes((encoder,)), not config.bidirectional),
        LayerSets("decoder", 1, Boxes((decoder,)), True),
        LayerSets("source", 1, Boxes((everything(length, source),))),
    ]
