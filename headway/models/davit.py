"""DaViT: attention in windows of the grid, then between channels, in stages that halve the grid (Ding et al. 2022,
arXiv:2204.03645).

    x = x + c₁(x)        x = x + attention(norm(x))        x = x + c₂(x)        x = x + feedforward(norm(x))

c₁ and c₂ are convolutions of 3 x 3 within each channel: they tell positions apart. The two kinds of block differ in
their attention alone.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config.base import Extent, Pair, sides
from headway.config.layers import AttentionConfig
from headway.config.vision import DaViTConfig
from headway.models.model import Model
from headway.models.vit import check_images
from headway.nn.attention import Attention
from headway.nn.block import FeedForward
from headway.nn.context import NOTHING, Context, Guard, run_guarded
from headway.nn.layers import LayerNorm
from headway.ops.loss import cross_entropy_sum


class DaViT(Model):
    """Images in; the logits of their classes out, or their vectors where there are no classes.

    >>> config = DaViTConfig(depths=(1, 1), widths=(4, 8), heads=(2, 2), image=(50, 30), window=3, classes=7)
    >>> DaViT(config)(torch.zeros(2, 3, 50, 30)).shape
    torch.Size([2, 7])
    """

    config: DaViTConfig

    def __init__(self, config: DaViTConfig) -> None:
        super().__init__()
        c = self.config = config
        self.stem = Stem(c)
        self.stages = nn.ModuleList(Stage(c, stage) for stage in range(len(c.depths)))
        self.norm = LayerNorm(c.widths[-1], eps=c.eps)
        self.head = nn.Linear(c.widths[-1], c.classes) if c.classes else None

    def forward(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B O"]:
        """The logits of the classes; without classes the images' vectors."""
        vector = self.vector(self.hidden_states(images))
        return vector if self.head is None else self.head(vector)

    def hidden_states(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B D y x"]:
        """The last stage's grid."""
        check_images(images, self.config.channels, sides(self.config.image))

        def run(guard: Guard) -> Tensor:
            x, context = self.stem(images.to(self.stem.conv.weight.dtype)), Context(guard=guard)
            for stage in self.stages:
                x = stage(x, context)
            return x

        return run_guarded(run)

    def vector(self, grid: Float[Tensor, "B D y x"]) -> Float[Tensor, "B D"]:
        """The image's own vector: the mean over the grid, normalised."""
        return self.norm(grid.mean((2, 3)))

    def image_vectors(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B D"]:
        """The image's own vector, whatever else the model is for."""
        return self.vector(self.hidden_states(images))

    def logits(self, grid: Float[Tensor, "B D y x"]) -> Float[Tensor, "B C"]:
        if self.head is None:
            raise ValueError("this model has no classifier: its configuration would need classes=2, or more")
        return self.head(self.vector(grid))

    def cross_entropy(
        self, grid: Float[Tensor, "B D y x"], labels: Int[Tensor, " B"], *, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Σ -log p of the right classes, and how many are the likeliest."""
        return cross_entropy_sum(self.logits(grid), labels, smoothing=smoothing)

    def loss(
        self, images: Float[Tensor, "B C Y X"], labels: Int[Tensor, " B"], *, smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """The mean of -log p of the right classes."""
        return self.cross_entropy(self.hidden_states(images), labels, smoothing=smoothing)[0] / len(labels)

    def resized(self, image: Extent) -> "DaViT":
        """The same weights, shared, for images of another size: none of them knows the size of the grid."""
        with torch.device("meta"):
            other = DaViT(self.config.at(image))
        other.load_state_dict(self.state_dict(keep_vars=True), assign=True)
        return other.train(self.training)


class Stem(nn.Module):
    """Overlapping patches of `stem` x `stem` pixels, one every `stride` pixels."""

    def __init__(self, config: DaViTConfig) -> None:
        super().__init__()
        side, width = config.stem, config.widths[0]
        self.conv = nn.Conv2d(config.channels, width, side, stride=config.stride, padding=side // 2)
        self.norm = LayerNorm(width, eps=config.eps)

    def forward(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B D y x"]:
        return _normed(self.norm, self.conv(images))


class Halve(nn.Module):
    """Every other position, from 2 x 2 or 3 x 3 positions; a grid of odd size is filled up with zeros."""

    def __init__(self, config: DaViTConfig, stage: int) -> None:
        super().__init__()
        before, after = config.widths[stage - 1], config.widths[stage]
        self.norm = LayerNorm(before, eps=config.eps)
        self.conv = nn.Conv2d(before, after, config.kernel, stride=2, padding=config.kernel // 3)

    def forward(self, x: Float[Tensor, "B D Y X"]) -> Float[Tensor, "B E y x"]:
        x = _normed(self.norm, x)
        odd = self.conv.kernel_size[0] == 2 and (x.shape[2] % 2 or x.shape[3] % 2)
        return self.conv(F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2)) if odd else x)


class Stage(nn.Module):
    """A smaller grid of wider tokens (but for the first stage), then dual blocks."""

    def __init__(self, config: DaViTConfig, stage: int) -> None:
        super().__init__()
        self.halve = Halve(config, stage) if stage else None
        self.blocks = nn.ModuleList(Dual(config, stage) for _ in range(config.depths[stage]))

    def forward(self, x: Float[Tensor, "B D Y X"], context: Context = NOTHING) -> Float[Tensor, "B E y x"]:
        x = x if self.halve is None else self.halve(x)
        for block in self.blocks:
            x = block(x, context)
        return x


class Dual(nn.Module):
    """Attention between positions, then attention between channels."""

    def __init__(self, config: DaViTConfig, stage: int) -> None:
        super().__init__()
        self.spatial = GridBlock(config, stage, config.spatial(stage), padded=config.padded(stage))
        self.channel = GridBlock(config, stage, config.channel(stage), padded=config.grids[stage])

    def forward(self, x: Float[Tensor, "B D Y X"], context: Context = NOTHING) -> Float[Tensor, "B D Y X"]:
        return self.channel(self.spatial(x, context), context)


class GridBlock(nn.Module):
    """A pre-norm block on a grid, each of its two branches after a convolution that tells positions apart."""

    def __init__(self, config: DaViTConfig, stage: int, attention: AttentionConfig, *, padded: Pair) -> None:
        super().__init__()
        width, eps, self.padded = attention.width, config.eps, padded
        self.attention_positions = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.attention_norm = LayerNorm(width, eps=eps)
        self.attention = Attention(attention)
        self.feedforward_positions = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.feedforward_norm = LayerNorm(width, eps=eps)
        self.feedforward = FeedForward(width, hidden=config.hidden(stage))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Float[Tensor, "B D Y X"], context: Context = NOTHING) -> Float[Tensor, "B D Y X"]:
        x = x + self.attention_positions(x)
        x = x + self.dropout(self._attend(_normed(self.attention_norm, x), context))
        x = x + self.feedforward_positions(x)
        return x + self.dropout(_rows_first(self.feedforward(self.feedforward_norm(_channels_last(x)))))

    def _attend(self, x: Float[Tensor, "B D Y X"], context: Context = NOTHING) -> Float[Tensor, "B D Y X"]:
        """Attention on the grid, filled up to whole windows with zeros that are attended to like any other token."""
        rows, columns = x.shape[2:]
        x = F.pad(x, (0, self.padded[1] - columns, 0, self.padded[0] - rows))
        found = self.attention(rearrange(x, "B D Y X -> B (Y X) D"), context=context)
        found = rearrange(found, "B (Y X) D -> B D Y X", Y=self.padded[0])
        return found[:, :, :rows, :columns]


def _normed(norm: LayerNorm, x: Float[Tensor, "B D Y X"]) -> Float[Tensor, "B D Y X"]:
    return _rows_first(norm(_channels_last(x)))


def _channels_last(x: Float[Tensor, "B D Y X"]) -> Float[Tensor, "B Y X D"]:
    return rearrange(x, "B D Y X -> B Y X D")


def _rows_first(x: Float[Tensor, "B Y X D"]) -> Float[Tensor, "B D Y X"]:
    return rearrange(x, "B Y X D -> B D Y X")
