"""Vision models: ViT (arXiv:2010.11929), DeiT (2012.12877), DINOv2 (2304.07193) and DaViT (2204.03645)."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from headway.config.base import Extent, Frozen, Pair, Size, sides
from headway.config.layers import AttentionConfig, StackConfig
from headway.config.model import ModelConfig
from headway.config.size_limits import LAYERS, check_pixels, check_size
from headway.config.spec import read_spec

Count = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
VisionPositions = Literal["learned", "learned_grid", "sinusoidal_grid", "none"]


MOST_CHANNELS = 64  # of which means are written down
Resample = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]


class Images(Frozen):
    """A picture is resized, its middle is cut out, and each pixel becomes (pixel · scale - mean) / std.

    `resize` is rows and columns, one number for the shorter side, or None for the size that the model reads. `mean` and
    `std` are one number, or one a channel.
    """

    resize: Extent | None = None
    crop: Pair | None = None
    resample: Resample = "bilinear"
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)

    @field_validator("mean", "std", mode="before")
    @classmethod
    def _few(cls, given: Any) -> Any:
        if not isinstance(given, list | tuple) or len(given) > MOST_CHANNELS:
            raise ValueError(f"a mean or std is one number or one a channel, not {str(given)[:40]}")
        return given

    @field_validator("resize", "crop")
    @classmethod
    def _of_a_size(cls, given: Extent | None) -> Extent | None:
        if given is not None:
            check_pixels(*sides(given), "the picture resized")
        return given

    @field_validator("std")
    @classmethod
    def _divides(cls, std: tuple[float, ...]) -> tuple[float, ...]:
        if 0 in std:
            raise ValueError(f"pixels are divided by std, and one of {std} is 0")
        return std


def _resized(config: "VisionConfig | DaViTConfig", image: Extent) -> dict[str, Any]:
    """The fields of a configuration, for pictures that are brought to another size."""
    images = config.images.replace(resize=None, crop=None)
    return {name: getattr(config, name) for name in type(config).model_fields} | {"image": image, "images": images}


def _named(classes: int, labels: tuple[str, ...]) -> None:
    if labels and len(labels) != classes:
        raise ValueError(f"{classes} classes have {classes} labels, not {len(labels)}")


class VisionConfig(ModelConfig):
    """Patches of P x P pixels as tokens, a stack that looks at all of them, a vector for the image, classes.

    `positions` are a learned vector for every token, or of the patches alone a learned one for each row and column,
    fixed sinusoids of both, or none (rotary positions and biases live in the stack).
    A table that was learned on images of another size, `table_image`, is interpolated in every pass (DINOv2).
    The vector is the class token's, the `mean` of the patches, for a classifier both, one after the other, or what a
    learned vector gathers of all by `attention`, and a feed-forward adds (SigLIP).
    A `distilled` model has a second token, and with a `teacher` a second classifier on it; the logits are then the mean
    of both. The attention of the stack is free: on the grid of patches it may be local or in windows. `family` names
    the layout the model is saved in.
    """

    module = "headway.models.vit:Vision"
    reads = "images"
    unit = "patch"
    tasks = ("images",)
    measures = ("images",)

    kind: Literal["vision"] = "vision"
    family: str = "headway"
    image: Extent = 224
    patch: Extent = 16
    channels: Size = 3
    stack: StackConfig
    patch_bias: bool = True
    positions: VisionPositions = "learned"
    table_image: Extent | None = None  # of the table of positions; None: `image`
    embedding_norm: bool = False  # of what enters the stack (CLIP)
    class_token: bool = True
    distilled: bool = False
    teacher: bool = False
    pooling: Literal["class", "mean", "class_mean", "attention"] = "class"
    pooler: bool = False  # tanh(W · vector + b), of a model without classes
    classes: Count = 0  # 0: no classifier
    labels: tuple[str, ...] = ()  # names of the classes; none, or one each
    images: Images = Images()

    @property
    def grid(self) -> Pair:
        """Rows and columns of patches; pixels past the last whole patch are not looked at."""
        return self._grid(self.image)

    @property
    def table_grid(self) -> Pair:
        """The same of the images that the table of positions is for."""
        return self.grid if self.table_image is None else self._grid(self.table_image)

    def _grid(self, image: Extent) -> Pair:
        (rows, columns), (down, across) = sides(image), sides(self.patch)
        return rows // down, columns // across

    @property
    def extra(self) -> int:
        """Tokens before the patches."""
        return int(self.class_token) + int(self.distilled)

    @property
    def length(self) -> int:
        """Tokens of an image."""
        return self.extra + self.grid[0] * self.grid[1]

    @property
    def table_length(self) -> int:
        """Rows of the table of positions."""
        return self.extra + self.table_grid[0] * self.table_grid[1]

    @property
    def vector_width(self) -> int:
        """Of the image's vector, as a classifier reads it."""
        return self.stack.block.output_width * (2 if self.pooling == "class_mean" else 1)

    def at(self, image: Extent) -> "VisionConfig":
        """The same for images of another size."""
        return VisionConfig(**_resized(self, image))

    def label(self, index: int) -> str:
        """What a class is called; its number where nobody named it."""
        return self.labels[index] if self.labels else str(index)

    @model_validator(mode="after")
    def _agree(self) -> "VisionConfig":
        if self.stack.block.attention.causal or self.stack.block.cross is not None:
            raise ValueError("a vision model looks at all patches of one image: causal=False, and no cross-attention")
        if 0 in (*self.grid, *self.table_grid):
            raise ValueError(f"an image of {self.image if 0 in self.grid else self.table_image} has no whole patch of "
                             f"{self.patch}")  # fmt: skip
        if self.table_image is not None and self.positions != "learned":
            raise ValueError(f"table_image is of learned positions, and these are {self.positions}: leave it out")
        if self.pooling == "class_mean" and (self.distilled or self.pooler):
            raise ValueError("pooling='class_mean' is for one class token and no pooler: distilled=False, pooler=False")
        if self.pooling == "attention" and (self.pooler or self.stack.block.feedforward is None):
            raise ValueError("pooling='attention' has a feed-forward as its blocks have, and no pooler")
        if not self.class_token and (self.pooling in ("class", "class_mean") or self.distilled):
            raise ValueError("without a class token the image's vector is a mean: pooling='mean', distilled=False")
        if self.pooler and self.classes:
            raise ValueError("a classifier reads the image's vector itself: pooler=False, or classes=0")
        if self.teacher and not (self.distilled and self.classes):
            raise ValueError("a teacher's classifier reads the second token: distilled=True, classes=1 or more")
        _named(self.classes, self.labels)
        self._on_grid()
        return self

    def _on_grid(self) -> None:
        """Refuse an attention for another grid, or one that leaves the class token alone."""
        for block in self.stack.pattern:
            block.attention.mechanism.check_layout(self.grid, self.extra)
            rotary = block.attention.rotary
            if rotary is not None and rotary.grid is not None and rotary.grid != self.grid:
                raise ValueError(f"the patches stand on a grid of {self.grid}, and the rotation is for {rotary.grid}")


class DaViTConfig(ModelConfig):
    """Stages of dual blocks, attention in windows and then between channels, on a grid that halves from stage to stage.

    Each tuple has one entry per stage. The first grid has a position for every `stride` pixels, which sees `stem` x
    `stem` of them: 7 and 4 as published, less for small images. `kernel` is the side of the convolution that halves the
    grid. A score between channels is scaled by `width` (1/√K, K channels a group) or by `positions` (1/√L, as
    Florence-2 does).

    >>> DaViTConfig(depths=(1, 1), widths=(4, 8), heads=(2, 2), image=(50, 30)).grids
    ((13, 8), (7, 4))
    >>> DaViTConfig(depths=(1, 1), widths=(4, 8), heads=(2, 2), image=8, stem=3, stride=1).grids
    ((8, 8), (4, 4))
    """

    module = "headway.models.davit:DaViT"
    reads = "images"
    unit = "pixel"
    tasks = ("images",)
    measures = ("images",)

    kind: Literal["davit"] = "davit"
    family: str = "headway"
    image: Extent = 224
    channels: Size = 3
    depths: tuple[Size, ...]

    @field_validator("depths")
    @classmethod
    def _of_a_depth(cls, depths: tuple[int, ...]) -> tuple[int, ...]:
        check_size(sum(depths), LAYERS, "a stack of layers")
        return depths

    widths: tuple[Size, ...]
    heads: tuple[Size, ...]  # of the windows, and groups of channels
    window: Extent = 7
    ratio: Annotated[float, Field(gt=0)] = 4.0  # feed-forward width / width
    stem: Size = 7
    stride: Size = 4
    kernel: Literal[2, 3] = 2
    bias: bool = True
    scaled: Literal["width", "positions"] = "width"
    eps: float = 1e-5
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0  # of what a branch adds, while training
    classes: Count = 1000  # 0: no classifier
    labels: tuple[str, ...] = ()
    images: Images = Images()

    @property
    def grids(self) -> tuple[Pair, ...]:
        """Rows and columns of each stage: one every `stride` pixels, then halved, rounded up."""
        rows, columns = sides(self.image)
        steps = [self.stride * 2**stage for stage in range(len(self.depths))]
        return tuple((-(-rows // step), -(-columns // step)) for step in steps)

    @property
    def vector_width(self) -> int:
        """Of the image's vector."""
        return self.widths[-1]

    def padded(self, stage: int) -> Pair:
        """The grid of a stage, filled up to whole windows."""
        (rows, columns), (down, across) = self.grids[stage], sides(self.window)
        return -(-rows // down) * down, -(-columns // across) * across

    def spatial(self, stage: int) -> AttentionConfig:
        """Attention between the positions of a window."""
        return self._attention(stage, {"kind": "spatial", "grid": self.padded(stage), "window": self.window})

    def channel(self, stage: int) -> AttentionConfig:
        """Attention between the channels of a group."""
        rows, columns = self.grids[stage]
        scale = None if self.scaled == "width" else (rows * columns) ** -0.5
        return self._attention(stage, {"kind": "channel"}, scale)

    def _attention(self, stage: int, mechanism: dict[str, Any], scale: float | None = None) -> AttentionConfig:
        return AttentionConfig(
            width=self.widths[stage], heads=self.heads[stage], bias=self.bias, output_bias=True, scale=scale,
            mechanism=read_spec(mechanism),
        )  # fmt: skip

    def hidden(self, stage: int) -> int:
        """The feed-forward width of a stage."""
        return int(self.widths[stage] * self.ratio)

    def at(self, image: Extent) -> "DaViTConfig":
        """The same for images of another size."""
        return DaViTConfig(**_resized(self, image))

    def label(self, index: int) -> str:
        """What a class is called; its number where nobody named it."""
        return self.labels[index] if self.labels else str(index)

    @model_validator(mode="after")
    def _agree(self) -> "DaViTConfig":
        if not len(self.depths) == len(self.widths) == len(self.heads) or not self.depths:
            raise ValueError(
                f"each stage has a depth, a width and a number of heads; there are {len(self.depths)}, "
                f"{len(self.widths)} and {len(self.heads)}"
            )
        for width, heads in zip(self.widths, self.heads, strict=True):
            if width % heads:
                raise ValueError(f"width {width} is not divisible by heads {heads}")
        if self.stem % 2 == 0 or self.stem < self.stride:
            raise ValueError(
                f"a stem of {self.stem} x {self.stem} pixels every {self.stride} has no middle or leaves pixels out: "
                "its side is odd, and no less than the stride"
            )
        _named(self.classes, self.labels)
        return self
