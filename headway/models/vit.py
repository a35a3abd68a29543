"""A vision Transformer: an image's patches as tokens, a stack, a classifier (ViT: Dosovitskiy et al. 2020,
arXiv:2010.11929; DeiT: Touvron et al. 2020, arXiv:2012.12877).

    x = [class token, patch · E + b, …] + positions        h = stack(x)        logits = h₀ W + b

Patches stand at positions 0, 1, … of their grid, row by row; the tokens before them at -1 (and -2), which a mechanism
on the grid takes as global tokens.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config import AttentionConfig, BlockConfig
from headway.config.base import Extent, Pair, sides
from headway.config.vision import VisionConfig
from headway.models.model import Model
from headway.nn.attention import Attention
from headway.nn.block import FeedForward, Stack
from headway.nn.context import Context, begin, run_guarded
from headway.nn.layers import make_norm, normal
from headway.nn.positions import LearnedGridPositions, SinusoidalGridPositions
from headway.ops.loss import cross_entropy_sum
from headway.ops.mask import Mask
from headway.ops.mask.pairs import Pairs


class Vision(Model):
    """Images in; the logits of their classes out, or their vectors where there are no classes.

    >>> from headway.presets.vision import vit
    >>> model = Vision(vit(width=12, heads=3, layers=2, image=10, patch=5, classes=7))
    >>> model(torch.zeros(2, 3, 10, 10)).shape
    torch.Size([2, 7])
    """

    config: VisionConfig

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        c = self.config = config
        width, out = c.stack.block.width, c.stack.block.output_width
        self.patches = nn.Conv2d(c.channels, width, sides(c.patch), stride=sides(c.patch), bias=c.patch_bias)
        # Tokens and positions have an axis for the batch, of size 1: so does every file that holds them.
        self.class_token = _vectors(1, width) if c.class_token else None
        self.distillation_token = _vectors(1, width) if c.distilled else None
        self.positions = _vectors(c.table_length, width) if c.positions == "learned" else None
        self.grid_positions = _grid_positions(c, width)
        self.norm = make_norm(c.stack.block.norm if c.embedding_norm else "none", width, eps=c.stack.block.eps)
        self.dropout = nn.Dropout(c.stack.block.dropout)
        self.stack = Stack(c.stack)
        self.pool = AttentionPool(c.stack.block) if c.pooling == "attention" else None
        self.pooler = nn.Linear(out, out) if c.pooler else None
        self.head = nn.Linear(c.vector_width, c.classes) if c.classes else None
        self.teacher_head = nn.Linear(out, c.classes) if c.teacher else None

    def forward(self, images: Float[Tensor, "B C Y X"], *, mask: Mask | None = None) -> Float[Tensor, "B O"]:
        """The logits of the classes; without classes the pooled vector, or the image's vector itself."""
        hidden = self.hidden_states(images, mask=mask)
        if self.head is not None:
            return self.logits(hidden)
        return self.vector(hidden) if self.pooler is None else self.pooled(hidden)

    def hidden_states(self, images: Float[Tensor, "B C Y X"], *, mask: Mask | None = None) -> Float[Tensor, "B L D"]:
        """The last layer's vectors: the class token's, the distillation token's, then patch by patch.

        `mask` is any rule between their positions, -1 for a single token before the patches.
        """
        check_images(images, self.config.channels, sides(self.config.image))
        x = rearrange(self.patches(images.to(self.patches.weight.dtype)), "B D Y X -> B (Y X) D")
        if self.grid_positions is not None:
            x = self.grid_positions(x, torch.arange(x.shape[1], device=x.device))
        tokens = [token for token in (self.class_token, self.distillation_token) if token is not None]
        x = torch.cat([*(token.expand(len(x), -1, -1) for token in tokens), x], dim=1)
        x = x if self.positions is None else x + self._table()
        x, context = begin(x, Context(mask, self._places(images.device)))
        x = self.norm(x)
        return run_guarded(lambda guard: self.stack(self.dropout(x), context.under(guard)))

    def _table(self) -> Float[Tensor, "1 L D"]:
        assert self.positions is not None
        c = self.config
        return self.positions if c.table_image is None else interpolate(self.positions, c.table_grid, c.grid)

    def vector(self, hidden: Float[Tensor, "B L D"]) -> Float[Tensor, "B O"]:
        """The image's own vector: the class token's, the mean of its patches, both, or what is gathered of all."""
        if self.pool is not None:
            return self.pool(hidden)
        if self.config.pooling == "class":
            return hidden[:, 0]
        mean = hidden[:, self.config.extra :].mean(1)
        return mean if self.config.pooling == "mean" else torch.cat([hidden[:, 0], mean], dim=-1)

    def image_vectors(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B O"]:
        """The image's own vector, whatever else the model is for."""
        return self.vector(self.hidden_states(images))

    def pooled(self, hidden: Float[Tensor, "B L D"]) -> Float[Tensor, "B D"]:
        """tanh of a linear map of the image's vector."""
        if self.pooler is None:
            raise ValueError("this model has no pooler: its configuration would need pooler=True")
        return torch.tanh(self.pooler(self.vector(hidden)))

    def logits(self, hidden: Float[Tensor, "B L D"]) -> Float[Tensor, "B C"]:
        """The classifier on the image's vector; with a teacher, the mean of that and of its own on the second token."""
        if self.head is None:
            raise ValueError("this model has no classifier: its configuration would need classes=2, or more")
        found = self.head(self.vector(hidden))
        return found if self.teacher_head is None else (found + self.teacher_head(hidden[:, 1])) / 2

    def cross_entropy(
        self, hidden: Float[Tensor, "B L D"], labels: Int[Tensor, " B"], *, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Σ -log p of the right classes, and how many are the likeliest; with a teacher's head, the mean of both heads.

        DeiT's second head follows a teacher's answers (arXiv:2012.12877); without a teacher the label is its teacher.
        """
        total, right = cross_entropy_sum(self.logits(hidden), labels, smoothing=smoothing)
        if self.head is not None and self.teacher_head is not None:
            heads = self.head(self.vector(hidden)), self.teacher_head(hidden[:, 1])
            first, second = (cross_entropy_sum(one, labels, smoothing=smoothing)[0] for one in heads)
            total = (first + second) / 2
        return total, right

    def loss(
        self, images: Float[Tensor, "B C Y X"], labels: Int[Tensor, " B"], *, smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """The mean of -log p of the right classes."""
        return self.cross_entropy(self.hidden_states(images), labels, smoothing=smoothing)[0] / len(labels)

    def resized(self, image: Extent) -> "Vision":
        """The same weights for images of another size: positions are interpolated, everything else is shared.

        Bicubic, as the first ViT was brought from 224 to 384 pixels (arXiv:2010.11929, 3.2).
        """
        config = self.config.at(image)
        with torch.device("meta"):
            other = Vision(config)
        whole = self.state_dict(keep_vars=True)
        if self.config.positions == "learned_grid" and config.grid != self.config.grid:
            raise ValueError(
                f"learned positions of {self.config.grid} rows and columns have none for {config.grid}: build a model"
            )
        if self.positions is not None and config.table_image is None:
            moved = interpolate(self.positions, self.config.grid, config.grid)
            whole["positions"] = nn.Parameter(moved.detach())
        other.load_state_dict(whole, assign=True)
        return other.train(self.training)

    def _places(self, device: torch.device) -> Pairs | None:
        """Where tokens stand: counted by whoever needs it, unless some stand before the patches."""
        extra, total = self.config.extra, self.config.length
        return Pairs.running(-extra, total, device) if extra else None


class AttentionPool(nn.Module):
    """One learned vector attends to all others: a = attention(probe, h), a + feedforward(norm(a)).

    The head of arXiv:2106.04560, which SigLIP has.
    """

    def __init__(self, block: BlockConfig) -> None:
        super().__init__()
        f, width = block.feedforward, block.output_width
        assert f is not None
        self.probe = _vectors(1, width)
        self.attention = Attention(pool_attention(block), cross=True)
        self.norm = make_norm(block.norm, width, eps=block.eps)
        self.feedforward = FeedForward(width, hidden=f.hidden, activation=f.activation, gated=f.gated, bias=f.bias)

    def forward(self, hidden: Float[Tensor, "B L D"]) -> Float[Tensor, "B D"]:
        found = self.attention(self.probe.expand(len(hidden), -1, -1), hidden)
        return (found + self.feedforward(self.norm(found)))[:, 0]


def pool_attention(block: BlockConfig) -> AttentionConfig:
    """The attention of a pool: as many heads as a block has, over all pairs."""
    own = block.attention
    return AttentionConfig(width=block.output_width, heads=own.heads, bias=own.bias, output_bias=own.output_bias)


def _grid_positions(config: VisionConfig, width: int) -> nn.Module | None:
    if config.positions == "learned_grid":
        return LearnedGridPositions(*config.grid, width)
    return SinusoidalGridPositions(*config.grid, width) if config.positions == "sinusoidal_grid" else None


def interpolate(positions: Float[Tensor, "1 L D"], old: Pair, new: Pair) -> Float[Tensor, "1 M D"]:
    """A table of positions on one grid for another grid; what stands before the patches stays as it is."""
    first = positions.shape[1] - old[0] * old[1]
    grid = rearrange(positions[:, first:], "B (Y X) D -> B D Y X", Y=old[0])
    grid = grid if old == new else F.interpolate(grid, size=new, mode="bicubic", align_corners=False)
    return torch.cat([positions[:, :first], rearrange(grid, "B D Y X -> B (Y X) D")], dim=1)


def check_images(images: Tensor, channels: int, size: Pair) -> None:
    """Refuse images that a model was not built for."""
    want = (channels, *size)
    if images.ndim != 4 or tuple(images.shape[1:]) != want:
        raise ValueError(
            f"this model reads images of shape B C Y X = (B, {', '.join(map(str, want))}), not {tuple(images.shape)}: "
            "resize the images, or use model.resized((Y, X))"
        )
    if not images.is_floating_point():
        raise ValueError(f"images are normalised numbers, not {images.dtype}: read_image makes them from a picture")


def _vectors(length: int, width: int) -> nn.Parameter:
    vectors = nn.Parameter(torch.empty(1, length, width))
    if not vectors.is_meta:  # there are no values there, and torch would import its compiler to draw them
        normal(vectors, std=0.02)
    return vectors
