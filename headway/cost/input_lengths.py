"""The sizes that a model is priced at: what it can read, what was asked for, made complete or refused."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.config import (
    AttentionConfig,
    BlockConfig,
    DaViTConfig,
    Extent,
    Frozen,
    MaskedConfig,
    RecurrentConfig,
    SentenceConfig,
    Seq2SeqConfig,
    StackConfig,
    VectorsConfig,
    VisionConfig,
    nearest,
)
from headway.config.base import sides
from headway.config.clip import ClipConfig
from headway.config.layers import stacks_of
from headway.config.model import ModelConfig
from headway.config.text import DecoderConfig
from headway.config.train import LoraConfig
from headway.cost.setting import BYTES, Setting
from headway.ops.attention import record_of
from headway.ops.mask import Mask

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


def with_image(config: Frozen, image: Extent | None) -> Frozen:
    """The same model for pictures of another size."""
    if image is None:
        return config
    if not isinstance(config, VisionConfig | DaViTConfig):
        raise ValueError(f"a {config.kind_or_name()} model reads no pictures: leave the size of an image out")
    sides = (image,) if isinstance(image, int) else image
    if min(sides) < 1:
        raise ValueError(f"an image has at least one pixel a side, not {image}")
    return config.at(image)


def default_length(config: Frozen) -> int:
    """How many positions a model reads where nobody says.

    >>> from headway.presets import preset
    >>> [default_length(preset(name)) for name in ("gpt2", "vit-b16", "t5-small", "rnnsearch", "minilm-l6")]
    [1024, 197, 512, 128, 512]
    """
    if (fixed := fixed_length(config)) is not None:
        return fixed
    if isinstance(config, SentenceConfig):
        return config.limit
    if isinstance(config, DecoderConfig | MaskedConfig | Seq2SeqConfig | VectorsConfig | ClipConfig):
        return config.length or UNLIMITED
    if isinstance(config, RecurrentConfig):
        return RECURRENT
    raise ValueError(
        f"{config.kind_or_name()} configures no model with a price: how many positions it reads is not known"
    )


def fixed_length(config: Frozen) -> int | None:
    """The one length that a model can read: of pictures, and of vectors on a grid; None where it is free."""
    if isinstance(config, VisionConfig):
        return config.length
    if isinstance(config, DaViTConfig):
        return config.grids[0][0] * config.grids[0][1]
    if isinstance(config, VectorsConfig) and config.stack.grid is not None:
        return config.length
    return None


def writes(config: Frozen) -> bool:
    """Whether a model writes one token after the other.

    >>> from headway.presets import preset
    >>> [writes(preset(name)) for name in ("gpt2", "rnnsearch", "bert-base", "vit-b16")]
    [True, True, False, False]
    """
    return why_unwritten(config) == ""


def why_unwritten(config: Frozen) -> str:
    """Why a model writes no tokens one after the other; empty where it does."""
    if not isinstance(config, ModelConfig) or not config.writes:
        return f"a {config.kind_or_name()} model writes no tokens one after the other"
    stacks = list(stacks_of(config).values())[-1:]  # of an encoder-decoder the last one
    specs = [block.attention.mechanism for stack in stacks for block in stack.pattern]
    needs = [record_of(spec).cache_of(spec) for spec in specs]
    return next((need.why for need in needs if need.kind == "none"), "")


def position_rows(config: Frozen) -> int | None:
    """Rows of a table of learned positions, which no text can exceed; None where there is none."""
    if isinstance(config, SentenceConfig):
        return config.encoder.length
    if isinstance(config, MaskedConfig | ClipConfig):
        return config.length
    if isinstance(config, DecoderConfig | Seq2SeqConfig) and config.positions == "learned":
        return config.length
    return None


@dataclass(frozen=True, eq=False)
class PriceRequest:
    """The arguments of `headway.price`, as they were given."""

    batch: int = 1
    length: int | None = None
    source: int | None = None
    past: int | None = None
    new: int | None = None
    lengths: Sequence[int] | None = None
    source_lengths: Sequence[int] | None = None
    image: Extent | None = None
    inputs: str | None = None
    dtype: str = "float32"
    weights: str | None = None
    optimiser: str = "adamw"
    mask: Mask | None = None
    lora: LoraConfig | None = None

    def setting(self, config: Frozen) -> Setting:
        """The size that a configuration is priced at; `past` is what the cache of a decoding step holds."""
        _check_counts(config, self)
        length = default_length(config) if self.length is None else self.length
        _check_length(config, length, self.new or 0)
        _check_lengths(self.lengths, self.batch, length, "lengths")
        _check_lengths(self.source_lengths, self.batch, self.source or length, "source lengths")
        return Setting(
            batch=self.batch, length=length, source=self.source, past=_held(config, length, self.past),
            lengths=_tuple(self.lengths), source_lengths=_tuple(self.source_lengths), mask=self.mask, dtype=self.dtype,
            lora=self.lora, image=sides(config.image) if isinstance(config, VisionConfig | DaViTConfig) else None,
        )  # fmt: skip


def _check_counts(config: Frozen, asked: PriceRequest) -> None:
    """Refuse numbers below one, and what the model has no use for."""
    kind = config.kind_or_name()
    check_positive(batch=asked.batch, length=asked.length, source=asked.source)
    if asked.mask is not None and not isinstance(asked.mask, Mask):
        what = type(asked.mask).__name__
        raise ValueError(f"a mask is one of headway's (headway.window(4), headway.allowed(table)), not a {what}")
    if asked.inputs is not None:
        raise ValueError("a model of ours knows what it reads: leave `inputs` out, and give batch and length")
    if (asked.source or asked.source_lengths) and not _reads_source(config):
        raise ValueError(f"a {kind} model reads no source: leave its length out")
    if asked.lengths is not None and fixed_length(config) is not None:
        raise ValueError(f"rows of a {kind} model are never padded: leave their lengths out")
    for name, count in (("past", asked.past), ("new", asked.new)):
        if count is not None:
            check_positive(**{name: count})
        if count and (why := why_unwritten(config)):
            raise ValueError(f"{why}: leave `{name}` out")


def _reads_source(config: Frozen) -> bool:
    return isinstance(config, ModelConfig) and config.reads == "source"


MOST = 10**8  # tokens: positions of more would have to be written down to count the pairs of a mask


def check_positive(**counts: int | None) -> None:
    """Refuse what is no whole number of at least one, and texts that nobody reads."""
    for name, count in counts.items():
        if count is None:
            continue
        if not isinstance(count, int) or isinstance(count, bool):
            raise ValueError(f"{name} is a whole number, not {count!r}: letters are for --formula")
        if count < 1:
            raise ValueError(f"{name} is at least 1, not {count}")
        if name != "batch" and count > MOST:
            raise ValueError(f"{name} of {count:,} is beyond what is counted here, {MOST:,} tokens")


def _check_length(config: Frozen, length: int, new: int) -> None:
    """Refuse a text that the model has no positions for."""
    fixed, table = fixed_length(config), position_rows(config)
    if fixed is not None and length != fixed:
        what = "grid" if isinstance(config, VectorsConfig) else "image"
        raise ValueError(f"the model's {what} has {fixed:,} positions, not {length:,}: leave the length out")
    if table is not None and length > table:
        raise ValueError(f"this model has {table:,} positions, too few for a length of {length:,}")
    if table is not None and new and length + new - 1 > table:
        raise ValueError(
            f"this model has {table:,} positions: a prompt of {length:,} leaves room for {table - length + 1:,} new "
            f"tokens, not {new:,}"
        )


def _check_lengths(lengths: Sequence[int] | None, batch: int, longest: int, what: str) -> None:
    """Refuse lengths of rows that are not those of the batch."""
    if lengths is None:
        return
    if len(lengths) != batch:
        raise ValueError(f"{what} of {len(lengths)} rows do not fit a batch of {batch}")
    wrong = [one for one in lengths if not 1 <= one <= longest]
    if wrong:
        raise ValueError(f"{what}: a row has 1 to {longest:,} tokens, not {wrong[0]:,}")


def _held(config: Frozen, length: int, past: int | None) -> int:
    """Tokens in the cache of a decoding step: the text, but for its last where the table of positions ends there."""
    if not writes(config):
        return 0
    table = position_rows(config)
    if past is not None and table is not None and past + 1 > table:
        raise ValueError(f"this model has {table:,} positions: {past:,} in the cache leave none for another token")
    return past or (length - 1 if table == length else length)


def _tuple(values: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


def check_dtype(dtype: str) -> None:
    if dtype not in BYTES:
        raise ValueError(f"there is no dtype {dtype!r}{nearest(dtype, BYTES)}; there are {', '.join(BYTES)}")
