"""Layers, blocks and stacks of them: every width is free, and what cannot be is refused."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, field_validator, model_validator

from headway.config.base import Cap, Finite, Frozen, Pair, Size, forget_derived
from headway.config.model import ModelConfig
from headway.config.size_limits import LAYERS, check_size
from headway.config.spec import Softmax, Spec, read_spec

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
DerivedSize = int | Any  # an int; in formulas of cost, a letter or what follows from letters


class LinearScaling(Frozen):
    """Every pair turns `factor` times as slowly: positions interpolated (arXiv:2306.15595)."""

    kind: Literal["linear"] = "linear"
    factor: Positive


class Llama3Scaling(Frozen):
    """Pairs that turn fewer than `low` times in `length` are slowed by `factor`, more than `high` times not at all."""

    kind: Literal["llama3"] = "llama3"
    factor: Positive
    length: Size  # positions of the first training
    low: Positive
    high: Positive

    @model_validator(mode="after")
    def _ordered(self) -> "Llama3Scaling":
        if self.low >= self.high:
            raise ValueError(f"llama3 scaling goes from low to high: low {self.low} is not below high {self.high}")
        return self


class YarnScaling(Frozen):
    """YaRN (arXiv:2309.00071): as llama3, in steps of pairs, from `slow` to `fast` turns; q and k times `attention`."""

    kind: Literal["yarn"] = "yarn"
    factor: Positive
    length: Size  # positions of the first training
    fast: Positive = 32.0
    slow: Positive = 1.0
    whole: bool = True  # whether the ramp begins and ends at whole pairs
    attention: Positive | None = None  # None: 1 + ln(factor) / 10, the paper's


class DynamicScaling(Frozen):
    """A text longer than `length` turns by a larger base, the larger the longer it is: NTK-aware (arXiv:2309.00071).

    base · (factor · L / length - (factor - 1))^(width / (width - 2)), L the tokens of the text.
    """

    kind: Literal["dynamic"] = "dynamic"
    factor: Positive
    length: Size  # positions of the first training


class LongRopeScaling(Frozen):
    """LongRoPE (arXiv:2402.13753): pair i slowed by short[i] in a text of up to `length` tokens, by long[i] in others.

    q and k are multiplied by `attention`, in both.
    """

    kind: Literal["longrope"] = "longrope"
    short: tuple[Positive, ...]
    long: tuple[Positive, ...]
    length: Size  # positions of the first training
    factor: Positive = 1.0  # by how much texts may be longer
    attention: Positive | None = None  # None: √(1 + ln(factor) / ln(length)), the paper's

    @model_validator(mode="after")
    def _paired(self) -> "LongRopeScaling":
        if len(self.short) != len(self.long):
            raise ValueError(f"longrope has a number for each pair: {len(self.short)} short and {len(self.long)} long")
        return self


Scaling = LinearScaling | Llama3Scaling | YarnScaling | DynamicScaling | LongRopeScaling


class Rotary(Frozen):
    """Rotary positions (arXiv:2104.09864) on the first `width` channels of each head (None: all of them).

    `scaling` stretches them over a longer text than the first training had. On a `grid` of Y x X positions, read row by
    row, half of the pairs turn with the row and half with the column; tokens beside the grid are not turned.
    """

    base: float = 10000.0
    width: int | None = None
    interleaved: bool = False
    scaling: Annotated[Scaling, Field(discriminator="kind")] | None = None
    grid: Pair | None = None

    @model_validator(mode="after")
    def _agree(self) -> "Rotary":
        if self.grid is not None and self.scaling is not None:
            raise ValueError("a grid has no longer text to be stretched over: rotary scaling is for sequences")
        return self

    @property
    def rotation_changes_after(self) -> int | None:
        """Up to how many tokens a text turns as shorter ones do; None where its length never matters."""
        return self.scaling.length if isinstance(self.scaling, DynamicScaling | LongRopeScaling) else None

    def rotation_key(self, length: int) -> int:
        """A number that texts have in common if they turn alike."""
        alike = self.rotation_changes_after
        if alike is None or length <= alike:
            return 0
        return length if isinstance(self.scaling, DynamicScaling) else 1


class Alibi(Frozen):
    """A penalty that grows with distance, one slope per head and nothing to learn (arXiv:2108.12409)."""

    kind: Literal["alibi"] = "alibi"


class Relative(Frozen):
    """One learned number per head and bucket of distances (T5, arXiv:1910.10683)."""

    kind: Literal["relative"] = "relative"
    buckets: Size = 32
    max_distance: Size = 128


class Clipped(Frozen):
    """One learned number per head and difference of positions, clipped to ±`reach` (arXiv:1803.02155)."""

    kind: Literal["clipped"] = "clipped"
    reach: Size = 16


PositionBias = Annotated[Alibi | Relative | Clipped, Field(discriminator="kind")]


class QKNorm(Frozen):
    """A norm of queries and of keys before they meet (arXiv:2010.04245), each head by itself, or all heads as one row.

    >>> AttentionConfig(width=12, heads=3, qk_norm="all").qk_norm
    QKNorm(over='all')
    """

    over: Literal["head", "all"] = "head"
    norm: str = "rms"
    eps: float = 1e-6


def _read_qk_norm(given: Any) -> Any:
    """True for the usual one, "head" or "all" for what it is over."""
    if isinstance(given, bool):
        return QKNorm() if given else None
    return QKNorm(over=given) if isinstance(given, str) else given  # pyright: ignore[reportArgumentType]


class AttentionConfig(Frozen):
    """One attention layer. Every width is free; what is left out follows from `width` and `heads`.

    >>> AttentionConfig(width=12, heads=3).head_width
    4
    >>> AttentionConfig(width=12, heads=3).replace(heads=6).kv_heads
    6
    """

    width: Size
    heads: Size = 1
    # None where they follow: heads; width / heads; head_width; width; width (heads · value_width without `project`).
    own_kv_heads: Size | None = Field(default=None, alias="kv_heads")
    own_head_width: Size | None = Field(default=None, alias="head_width")
    own_value_width: Size | None = Field(default=None, alias="value_width")
    own_source_width: Size | None = Field(default=None, alias="source_width")
    own_output_width: Size | None = Field(default=None, alias="output_width")
    project: bool = True
    bias: bool = False
    output_bias: bool = False
    scale: Finite | None = None  # None: 1/√head_width; 1.0: no scale
    softcap: Cap | None = None
    causal: bool = False
    qk_norm: Annotated[QKNorm | None, BeforeValidator(_read_qk_norm)] = None
    rotary: Rotary | None = None
    mechanism: Annotated[SerializeAsAny[Spec], BeforeValidator(read_spec)] = Softmax()

    @property
    def kv_heads(self) -> DerivedSize:
        return self.heads if self.own_kv_heads is None else self.own_kv_heads

    @property
    def head_width(self) -> DerivedSize:
        return self.width // self.heads if self.own_head_width is None else self.own_head_width

    @property
    def value_width(self) -> DerivedSize:
        return self.head_width if self.own_value_width is None else self.own_value_width

    @property
    def source_width(self) -> DerivedSize:
        return self.width if self.own_source_width is None else self.own_source_width

    @property
    def output_width(self) -> DerivedSize:
        if self.own_output_width is not None:
            return self.own_output_width
        return self.width if self.project else self.heads * self.value_width

    @model_validator(mode="after")
    def _agree(self) -> "AttentionConfig":
        if self.own_head_width is None and self.width % self.heads:
            raise ValueError(f"width {self.width} is not divisible by heads {self.heads}: choose head_width too")
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.kv_heads} key/value heads do not divide {self.heads} query heads")
        if not self.project and self.output_width != self.heads * self.value_width:
            raise ValueError(
                f"without an output projection {self.heads} heads of value width {self.value_width} give "
                f"{self.heads * self.value_width}, not output_width {self.output_width}"
            )
        even = ("head_width",) if self.width % self.heads == 0 else ()
        forget_derived(self, (*even, "kv_heads", "value_width", "source_width", "output_width"))
        return self


class FeedForwardConfig(Frozen):
    """The feed-forward layer of a block; `hidden` is F."""

    hidden: Size
    activation: str = "gelu"
    gated: bool = False
    bias: bool = True


# Where the norms of a block stand: before a branch (arXiv:2002.04745), after its sum (arXiv:1706.03762), on what it
# gives, before the sum (Swin 2, arXiv:2111.09883), both before it and on what it gives (arXiv:2105.13290), or nowhere.
Order = Literal["pre", "post", "res_post", "sandwich", "none"]


class BlockConfig(Frozen):
    """Attention, optional cross-attention, feed-forward; norms where `order` says; residuals or not.

    parallel: attention and feed-forward read the same vectors, and the sum gets both (GPT-J; GPT-NeoX,
    arXiv:2204.06745). residual_scale: what a branch gives is multiplied by it before the sum (Granite).
    layer_scale: and by learned numbers, one a channel, that begin at this value (LayerScale, arXiv:2103.17239).
    first_norm: False leaves out the norm before the attention, for what has a norm already (ModernBERT's first layer).
    """

    attention: AttentionConfig
    cross: AttentionConfig | None = None
    feedforward: FeedForwardConfig | None = None
    norm: str = "layer"
    order: Order = "pre"
    first_norm: bool = True
    eps: float = 1e-5
    residual: bool = True
    parallel: bool = False
    residual_scale: float = 1.0
    layer_scale: Positive | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @model_validator(mode="after")
    def _same_size(self) -> "BlockConfig":
        for name, part in (("attention", self.attention), ("cross-attention", self.cross)):
            if part is not None and self.residual and part.output_width != part.width:
                raise ValueError(
                    f"a residual adds a layer's output to its input, so both need one size: the {name} maps width "
                    f"{part.width} to {part.output_width}; make them equal or set residual=False"
                )
        if self.parallel and (self.cross is not None or self.feedforward is None or not self.residual):
            raise ValueError("parallel is for attention and a feed-forward with residuals, and no cross-attention")
        if self.parallel and self.order not in ("pre", "none"):
            raise ValueError(
                f"branches that are parallel have their norms before them: order is 'pre', not {self.order!r}"
            )
        if self.residual_scale != 1.0 and not self.residual:
            raise ValueError(f"residual_scale={self.residual_scale:g} is of what is added to a residual: residual=True")
        if self.layer_scale is not None and not self.residual:
            raise ValueError(f"layer_scale={self.layer_scale:g} is of what is added to a residual: residual=True")
        if not self.first_norm and self.order != "pre":
            raise ValueError(
                f"first_norm=False leaves out a norm before the attention: order is 'pre', not {self.order!r}"
            )
        if self.cross is not None and self.cross.rotary is not None:
            raise ValueError(
                "a block does not know where its source's tokens stand: rotary cross-attention is for Attention"
            )
        if self.cross is not None and self.cross.width != self.attention.output_width:
            raise ValueError(f"cross-attention of width {self.cross.width} follows attention that gives "
                             f"{self.attention.output_width}")  # fmt: skip
        return self

    @property
    def width(self) -> DerivedSize:
        return self.attention.width

    @property
    def output_width(self) -> DerivedSize:
        return (self.cross or self.attention).output_width


class StackConfig(Frozen):
    """`layers` blocks, each with its own parameters: `block` again and again, or `block` and the `alternates` in turn.

    `shared`: one block with one set of parameters, run as every layer (ALBERT, arXiv:1909.11942).

    So a stack of six layers with alternates (b, c) is block, b, c, block, b, c; a pattern is as short as it can be.
    `bias` is added to the scores of every self-attention. `scaled_init`: the last map of each residual branch starts
    smaller by √(branches · layers) (GPT-2).

    >>> one, other = (BlockConfig(attention=AttentionConfig(width=12, heads=heads)) for heads in (3, 4))
    >>> len(StackConfig(block=one, alternates=(other, one, other), layers=7).pattern)
    2
    """

    block: BlockConfig
    alternates: tuple[BlockConfig, ...] = ()
    layers: Size
    final_norm: bool = False
    bias: PositionBias | None = None
    scaled_init: bool = False
    shared: bool = False

    @property
    def pattern(self) -> tuple[BlockConfig, ...]:
        """The blocks that repeat; of a stack that is shorter, those that are in it."""
        return (self.block, *self.alternates)[: self.layers] if self.alternates else (self.block,)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many layers each block of the pattern makes."""
        if not self.alternates:
            return (self.layers,)
        return tuple(len(range(place, self.layers, len(self.pattern))) for place in range(len(self.pattern)))

    @property
    def blocks(self) -> tuple[BlockConfig, ...]:
        """The block of every layer."""
        return tuple(self.pattern[layer % len(self.pattern)] for layer in range(self.layers))

    @property
    def rotation_changes_after(self) -> int | None:
        """Up to how many tokens a text is turned as shorter ones are; None where its length never matters."""
        return min((one.rotation_changes_after for one in self._rotaries if one.rotation_changes_after), default=None)

    def rotation_key(self, length: int) -> tuple[int, ...]:
        """Numbers that texts have in common if every layer turns them alike."""
        return tuple(one.rotation_key(length) for one in self._rotaries)

    @property
    def _rotaries(self) -> list[Rotary]:
        return [block.attention.rotary for block in self.pattern if block.attention.rotary is not None]

    @property
    def grid(self) -> Pair | None:
        """The grid on which its attention stands; None where it reads sequences of any length."""
        return next((b.attention.mechanism.layout for b in self.pattern if b.attention.mechanism.layout), None)

    @field_validator("layers")
    @classmethod
    def _of_a_depth(cls, layers: int) -> int:
        return check_size(layers, LAYERS, "a stack of layers")

    @model_validator(mode="after")
    def _stackable(self) -> "StackConfig":
        if self.layers > 1 and self.block.output_width != self.block.width:
            raise ValueError(
                f"a stack feeds each layer's output to the next, so both need one size: this block maps width "
                f"{self.block.width} to {self.block.output_width}"
            )
        if self.shared and self.alternates:
            raise ValueError("layers that share their parameters are one block: shared=True leaves no alternates")
        for other in self.alternates:
            self._check_alternate(other)
        if self.alternates:
            object.__setattr__(
                self, "alternates", _shortest((self.block, *self.alternates)[: self.layers], self.layers)[1:]
            )
        return self

    def _check_alternate(self, other: BlockConfig) -> None:
        for name in ("width", "output_width"):
            if getattr(other, name) != getattr(self.block, name):
                raise ValueError(
                    f"blocks of one stack have one size: an alternate has {name} {getattr(other, name)}, the first "
                    f"block {getattr(self.block, name)}"
                )
        if other.attention.causal != self.block.attention.causal or (other.cross is None) != (self.block.cross is None):
            raise ValueError("blocks of one stack are all causal or none, and all attend to a source or none")
        if self.bias is not None and other.attention.heads != self.block.attention.heads:
            raise ValueError(
                f"one bias serves one number of heads, not {self.block.attention.heads} and {other.attention.heads}"
            )


def _shortest(pattern: tuple[BlockConfig, ...], layers: int) -> tuple[BlockConfig, ...]:
    """The shortest pattern that repeats to the same layers, so that two stacks that are the same are equal."""
    kinds: list[BlockConfig] = []
    for block in pattern:
        if block not in kinds:
            kinds.append(block)
    numbers = [kinds.index(pattern[layer % len(pattern)]) for layer in range(layers)]
    period = next(size for size in range(1, layers + 1) if numbers == [numbers[i % size] for i in range(layers)])
    return pattern[:period]


def stacks_of(config: Frozen) -> dict[str, StackConfig]:
    """The stacks of a model, by the names that its configuration has for them."""
    found = {name: getattr(config, name) for name in type(config).model_fields}
    return {name: part for name, part in found.items() if isinstance(part, StackConfig)}


class VectorsConfig(ModelConfig):
    """A stack of blocks and nothing around it: no words, no positions, no head.

    `length` is how many vectors a sequence has where nobody says; others are read as well, unless the attention stands
    on a grid, which fixes it.

    >>> from headway.config import AttentionConfig, BlockConfig
    >>> block = BlockConfig(attention=AttentionConfig(width=12, output_width=5), order="none", residual=False)
    >>> VectorsConfig(stack=StackConfig(block=block, layers=1)).output_width
    5
    """

    module = "headway.models.vectors:Vectors"
    reads = "vectors"
    unit = "vector"

    kind: Literal["vectors"] = "vectors"
    family: str = "headway"
    stack: StackConfig
    length: Size = 32

    @property
    def width(self) -> int:
        """Of the vectors it reads."""
        return self.stack.block.width

    @property
    def output_width(self) -> int:
        """Of the vectors it gives."""
        return self.stack.block.output_width

    @model_validator(mode="after")
    def _agree(self) -> "VectorsConfig":
        block = self.stack.block
        if block.cross is not None or block.attention.source_width != block.width:
            raise ValueError(
                "layers by themselves read one sequence of vectors: no cross-attention, source_width=width"
            )
        grid = self.stack.grid
        if grid is not None and grid[0] * grid[1] != self.length:
            raise ValueError(f"a grid of {grid} has {grid[0] * grid[1]} positions, not {self.length}")
        return self
