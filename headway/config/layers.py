"""Layers, blocks and stacks of them: every width is free, and what cannot be is refused."""

from typing import Annotated, Any, Literal

from pydantic import Field, InstanceOf, model_validator

from headway.config.base import Frozen, Size
from headway.config.spec import Softmax, Spec

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


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


Scaling = LinearScaling | Llama3Scaling | YarnScaling


class Rotary(Frozen):
    """Rotary positions (arXiv:2104.09864) on the first `width` channels of each head (None: all of them).

    `scaling` stretches them over a longer text than the first training had.
    """

    base: float = 10000.0
    width: int | None = None
    interleaved: bool = False
    scaling: Annotated[Scaling, Field(discriminator="kind")] | None = None


class AttentionConfig(Frozen):
    """One attention layer. Every width is free; what is left out follows from `width` and `heads`.

    >>> AttentionConfig(width=12, heads=3).head_width
    4
    """

    width: Size
    heads: Size = 1
    kv_heads: Size = 0  # heads, where left out
    head_width: Size = 0  # width / heads, where left out
    value_width: Size = 0  # head_width, where left out
    source_width: Size = 0  # width, where left out
    output_width: Size = 0  # width, where left out; heads · value_width where there is no output projection
    project: bool = True
    bias: bool = False
    output_bias: bool = False
    scale: float | None = None  # None: 1/√head_width; 1.0: no scale
    softcap: float | None = None
    causal: bool = False
    rotary: Rotary | None = None
    mechanism: Annotated[Spec, Field(discriminator="kind")] | InstanceOf[Frozen] = Softmax()

    @model_validator(mode="before")
    @classmethod
    def _follow(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "width" not in given:
            return given
        width, heads = given["width"], given.get("heads", 1)
        if not (isinstance(width, int) and isinstance(heads, int) and width > 0 and heads > 0):
            return given
        if given.get("head_width") is None and width % heads:
            raise ValueError(f"width {width} is not divisible by heads {heads}: choose head_width too")
        full = {"head_width": width // heads, "kv_heads": heads, "source_width": width} | _said(given)
        full = {"value_width": full["head_width"]} | full
        own = width if full.get("project", True) else heads * full["value_width"]
        return {"output_width": own} | full

    @model_validator(mode="after")
    def _agree(self) -> "AttentionConfig":
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.kv_heads} key/value heads do not divide {self.heads} query heads")
        if not self.project and self.output_width != self.heads * self.value_width:
            raise ValueError(
                f"without an output projection {self.heads} heads of value width {self.value_width} give "
                f"{self.heads * self.value_width}, not output_width {self.output_width}"
            )
        return self


def _said(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


class FeedForwardConfig(Frozen):
    """The feed-forward layer of a block; `hidden` is F."""

    hidden: Size
    activation: str = "gelu"
    gated: bool = False
    bias: bool = True


class BlockConfig(Frozen):
    """Attention, optional cross-attention, feed-forward; norms before, after or nowhere; residuals or not."""

    attention: AttentionConfig
    cross: AttentionConfig | None = None
    feedforward: FeedForwardConfig | None = None
    norm: str = "layer"
    order: Literal["pre", "post", "none"] = "pre"
    eps: float = 1e-5
    residual: bool = True
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @model_validator(mode="after")
    def _same_size(self) -> "BlockConfig":
        for name, part in (("attention", self.attention), ("cross-attention", self.cross)):
            if part is not None and self.residual and part.output_width != part.width:
                raise ValueError(
                    f"a residual adds a layer's output to its input, so both need one size: the {name} maps width "
                    f"{part.width} to {part.output_width}; make them equal or set residual=False"
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
    def width(self) -> int:
        return self.attention.width

    @property
    def output_width(self) -> int:
        return (self.cross or self.attention).output_width


class StackConfig(Frozen):
    """The same block `layers` times, each with its own parameters."""

    block: BlockConfig
    layers: Size
    final_norm: bool = False

    @model_validator(mode="after")
    def _stackable(self) -> "StackConfig":
        if self.layers > 1 and self.block.output_width != self.block.width:
            raise ValueError(
                f"a stack feeds each layer's output to the next, so both need one size: this block maps width "
                f"{self.block.width} to {self.block.output_width}"
            )
        return self
