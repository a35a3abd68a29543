"""What can be configured, as frozen models without torch: read from JSON, written to JSON, refused when they cannot be.

>>> read_spec({"kind": "local", "window": 4}).window
4
>>> read_spec(Linear(feature="relu").model_dump()) == Linear(feature="relu")
True
"""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, TypeAdapter, ValidationError, model_validator

Pair = tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]]
Extent = Annotated[int, Field(ge=1)] | Pair


def sides(size: Extent) -> Pair:
    """Rows and columns of an extent; one number stands for both.

    >>> sides(3), sides((2, 5))
    ((3, 3), (2, 5))
    """
    return (size, size) if isinstance(size, int) else size


class Frozen(BaseModel):
    """A model that cannot be changed and knows no key but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise ValueError(explain(error, self.kind_or_name(), type(self).model_fields)) from None

    @classmethod
    def kind_or_name(cls) -> str:
        """How a sentence calls it: a mechanism by its kind, everything else by its class."""
        kind = cls.model_fields.get("kind")
        return cls.__name__ if kind is None else str(kind.default)


class Softmax(Frozen):
    """Scaled dot-product attention (arXiv:1706.03762)."""

    kind: Literal["softmax"] = "softmax"


class Linear(Frozen):
    """Scores g(q)·g(k) instead of exp(q·k) (arXiv:2006.16236); `feature` names g, or is a function of one tensor."""

    kind: Literal["linear"] = "linear"
    feature: str | Callable[[Any], Any] = "elu"
    chunk: Annotated[int, Field(ge=1)] = 128


class Local(Frozen):
    """Softmax over near keys; `selected` positions and global tokens (negative positions) see and are seen by all."""

    kind: Literal["local"] = "local"
    window: Extent
    dilation: Extent = 1
    selected: tuple[int, ...] = ()
    global_tokens: bool = False
    grid: Pair | None = None


class Spatial(Frozen):
    """Softmax over both axes of a Y x X grid, whole or in windows that do not overlap."""

    kind: Literal["spatial"] = "spatial"
    grid: Pair
    window: Extent | None = None


class Channel(Frozen):
    """Softmax between channels, summed over positions (DaViT, arXiv:2204.03645); heads are its channel groups."""

    kind: Literal["channel"] = "channel"


class Additive(Frozen):
    """Bahdanau's score, vector · tanh(q + k) (arXiv:1409.0473)."""

    kind: Literal["additive"] = "additive"


Spec = Softmax | Linear | Local | Spatial | Channel | Additive
SPECS: dict[str, type[Spec]] = {
    "softmax": Softmax,
    "linear": Linear,
    "local": Local,
    "spatial": Spatial,
    "channel": Channel,
    "additive": Additive,
}
_ANY_SPEC: TypeAdapter[Spec] = TypeAdapter(Annotated[Spec, Field(discriminator="kind")])


def read_spec(given: "Frozen | str | dict[str, Any]", **options: Any) -> Any:
    """A mechanism's spec from its name and options, from a dict as in JSON, or as it is."""
    if isinstance(given, Frozen):
        return type(given)(**{**given.model_dump(), **options}) if options else given
    if not isinstance(given, str | dict):
        raise ValueError(f"a mechanism is a name ({', '.join(SPECS)}), a spec or a record, not {given!r}")
    fields = {"kind": given, **options} if isinstance(given, str) else {**given, **options}
    kind = fields.get("kind")
    if kind not in SPECS:
        raise ValueError(f"there is no mechanism {kind!r}{nearest(str(kind), SPECS)}; there are {', '.join(SPECS)}")
    try:
        return _ANY_SPEC.validate_python(fields)
    except ValidationError as error:
        raise ValueError(explain(error, str(kind), SPECS[kind].model_fields)) from None


def nearest(name: str, known: Any) -> str:
    """A hint at the nearest known name, or nothing.

    >>> nearest("sofmax", ["softmax", "linear"])
    ' (did you mean softmax?)'
    """
    found = get_close_matches(name.lower(), list(known), n=1)
    return f" (did you mean {found[0]}?)" if found else ""


def explain(error: ValidationError, what: str, known: Any) -> str:
    """The first complaint of pydantic as one sentence that names the option and the value."""
    # A word nobody knows comes first: it is often the misspelt one that something else then misses.
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    names = [str(part) for part in first["loc"] if part != what]
    name = names[0] if names else what
    if first["type"] == "extra_forbidden":
        options = ", ".join(option for option in known if option != "kind") or "none"
        return f"{what} has no option {name!r}{nearest(name, set(known) - {'kind'})}; its options: {options}"
    if first["type"] == "missing":
        return f"{what} needs the option {name!r}"
    if first["type"] == "value_error":
        return str(first.get("ctx", {}).get("error", first["msg"]))
    return f"{what} cannot take {name}={first['input']!r}: {first['msg'].lower()}"


class Rotary(Frozen):
    """Rotary positions (arXiv:2104.09864) on the first `width` channels of each head (None: all of them)."""

    base: float = 10000.0
    width: int | None = None
    interleaved: bool = False


Size = Annotated[int, Field(ge=1, strict=True)]


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
