"""What can be asked of a model: how many positions it reads, at least and at most."""

from headway.config import (
    AttentionConfig,
    BlockConfig,
    DaViTConfig,
    Extent,
    Frozen,
    LanguageConfig,
    MaskedConfig,
    SentenceConfig,
    Seq2SeqConfig,
    StackConfig,
    VectorsConfig,
    VisionConfig,
)

# Tokens of a text where neither the user nor the model says how many.
UNLIMITED, RECURRENT = 512, 128


def whole(config: Frozen) -> Frozen:
    """A configuration of a model; layers, blocks and stacks by themselves become one of vectors.

    >>> whole(AttentionConfig(width=12, heads=3)).output_width
    12
    """
    if isinstance(config, AttentionConfig):
        config = BlockConfig(attention=config, order="none", residual=False)
    if isinstance(config, BlockConfig):
        config = StackConfig(block=config, layers=1)
    if not isinstance(config, StackConfig):
        return config
    grid = config.grid
    return VectorsConfig(stack=config) if grid is None else VectorsConfig(stack=config, length=grid[0] * grid[1])


def pictured(config: Frozen, image: Extent | None) -> Frozen:
    """The same model for pictures of another size."""
    if image is None:
        return config
    if not isinstance(config, VisionConfig | DaViTConfig):
        raise ValueError(f"a {config.kind_or_name()} model reads no pictures: leave the size of an image out")
    sides = (image,) if isinstance(image, int) else image
    if min(sides) < 1:
        raise ValueError(f"an image has at least one pixel a side, not {image}")
    return config.at(image)


def made_for(config: Frozen) -> int:
    """How many positions a model reads where nobody says.

    >>> from headway.presets import preset
    >>> [made_for(preset(name)) for name in ("gpt2", "vit-b16", "t5-small", "rnnsearch", "minilm-l6")]
    [1024, 197, 512, 128, 512]
    """
    if (fixed := fixed_length(config)) is not None:
        return fixed
    if isinstance(config, SentenceConfig):
        return config.limit
    if isinstance(config, LanguageConfig | MaskedConfig | Seq2SeqConfig | VectorsConfig):
        return config.length or UNLIMITED
    return RECURRENT


def fixed_length(config: Frozen) -> int | None:
    """The one length that a model can read: of pictures, and of vectors on a grid; None where it is free."""
    if isinstance(config, VisionConfig):
        return config.length
    if isinstance(config, DaViTConfig):
        return config.grids[0][0] * config.grids[0][1]
    if isinstance(config, VectorsConfig) and config.stack.grid is not None:
        return config.length
    return None


def positions_of(config: Frozen) -> int | None:
    """Rows of a table of learned positions, which no text can exceed; None where there is none."""
    if isinstance(config, SentenceConfig):
        return config.encoder.length
    if isinstance(config, MaskedConfig):
        return config.length
    if isinstance(config, LanguageConfig | Seq2SeqConfig) and config.positions == "learned":
        return config.length
    return None
