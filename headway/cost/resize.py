"""A model of another width or depth, in the proportions it has."""

from math import gcd, lcm
from typing import Any

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Frozen, SentenceConfig, StackConfig

OUTSIDE = ("width", "source_width", "output_width")
INSIDE = ("head_width", "value_width")


def resized(config: Frozen, name: str, value: int) -> Frozen:
    """The configuration with another `width` (heads as many, feed-forwards in proportion) or so many `layers`.

    >>> from headway.presets import preset
    >>> wide = resized(preset("gpt2"), "width", 1536).stack.block
    >>> wide.attention.head_width, wide.feedforward.hidden
    (128, 6144)
    """
    if value < 1:
        raise ValueError(f"{name} is at least 1, not {value}")
    if isinstance(config, SentenceConfig):
        return config.replace(encoder=resized(config.encoder, name, value))
    stacks = _stacks(config, name)
    change = _layers if name == "layers" else _wider
    return config.replace(**{field: change(stack, value) for field, stack in stacks.items()})


def grain(config: Frozen) -> int:
    """The smallest step between widths at which everything stays in proportion.

    >>> from headway.presets import preset
    >>> grain(preset("gpt2"))
    12
    """
    if isinstance(config, SentenceConfig):
        return grain(config.encoder)
    found = 1
    for stack in _stacks(config, "width").values():
        block, width = stack.block, stack.block.width
        layers = [block.attention, *([] if block.cross is None else [block.cross])]
        sizes = [getattr(layer, name) for layer in layers for name in (*OUTSIDE, *INSIDE)]
        sizes += [] if block.feedforward is None else [block.feedforward.hidden]
        found = lcm(found, *(width // gcd(width, size) for size in sizes))
    return found


def _stacks(config: Frozen, name: str) -> dict[str, StackConfig]:
    """The stacks of a model, which have the same width."""
    found = {field: getattr(config, field, None) for field in ("stack", "encoder", "decoder")}
    stacks = {field: stack for field, stack in found.items() if isinstance(stack, StackConfig)}
    if not stacks:
        raise ValueError(f"a {config.kind_or_name()} model has no one {name} to change")
    if name == "width" and len({stack.block.width for stack in stacks.values()}) > 1:
        raise ValueError("encoder and decoder have widths of their own: there is no one width to change")
    return stacks


def _layers(stack: StackConfig, layers: int) -> StackConfig:
    return stack.replace(layers=layers)


def _wider(stack: StackConfig, width: int) -> StackConfig:
    others = tuple(_wider_block(block, width) for block in stack.alternates)
    return stack.replace(block=_wider_block(stack.block, width), alternates=others)


def _wider_block(block: BlockConfig, width: int) -> BlockConfig:
    parts: dict[str, Any] = {"attention": _attention(block.attention, block.width, width)}
    if block.cross is not None:
        parts["cross"] = _attention(block.cross, block.width, width)
    if block.feedforward is not None:
        parts["feedforward"] = _feedforward(block.feedforward, block.width, width)
    return block.replace(**parts)


def _attention(c: AttentionConfig, before: int, after: int) -> AttentionConfig:
    return c.replace(**{name: _scaled(c, name, before, after) for name in (*OUTSIDE, *INSIDE)})


def _feedforward(c: FeedForwardConfig, before: int, after: int) -> FeedForwardConfig:
    return c.replace(hidden=_scaled(c, "hidden", before, after))


def _scaled(c: Frozen, name: str, before: int, after: int) -> int:
    size, what = getattr(c, name), name.replace("_", " ")
    if size * after % before:
        raise ValueError(f"{what} {size} at width {before} is no whole number at width {after}: choose another width")
    return size * after // before
