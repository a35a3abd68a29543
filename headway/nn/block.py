"""A Transformer block: attention, optional cross-attention, feed-forward, each as a branch of the residual stream.

pre:   x + f(norm(x))        post:   norm(x + f(x))        none:   x + f(x)        without residual:   f(x)
"""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config import BlockConfig
from headway.nn.attention import Attention
from headway.nn.feedforward import FeedForward
from headway.nn.norm import make_norm
from headway.nn.quarantine import zero_padding
from headway.nn.state import State
from headway.ops.bias import Bias
from headway.ops.mask import Mask, allowed
from headway.ops.mask.kernel import kept_keys
from headway.ops.position import RotaryTable


@dataclass(frozen=True, eq=False)
class Context:
    """What the layers of a stack share besides x: masks, positions, biases, and a source to attend to."""

    mask: Mask | Tensor | None = None
    positions: Int[Tensor, "b L"] | None = None
    bias: Tensor | Bias | None = None
    source: Float[Tensor, "B M E"] | None = None
    source_mask: Mask | Tensor | None = None
    step: bool = False  # one real token in each row, right after all that the caches hold
    turn: RotaryTable | None = None  # the rotation of the positions, made once for all layers

    def __post_init__(self) -> None:
        for name in ("mask", "source_mask"):
            if isinstance(table := getattr(self, name), Tensor):
                object.__setattr__(self, name, allowed(table))


@dataclass(frozen=True, eq=False)
class BlockState:
    """The caches of one block."""

    own: State | None = None
    cross: State | None = None


_NOTHING, _NO_STATE = Context(), BlockState()


class Block(nn.Module):
    """Two or three residual branches. M13's bare block is `order="none", residual=False`.

    >>> import torch
    >>> from headway.config import AttentionConfig, FeedForwardConfig
    >>> attention = AttentionConfig(width=12, heads=3)
    >>> block = Block(BlockConfig(attention=attention, feedforward=FeedForwardConfig(hidden=20)))
    >>> block(torch.zeros(2, 5, 12)).shape
    torch.Size([2, 5, 12])
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        c = self.config = config
        self.attention = Attention(c.attention)
        self.attention_norm = self._norm(c.attention.width, c.attention.output_width)
        if c.cross is not None:
            self.cross = Attention(c.cross)
            self.cross_norm = self._norm(c.cross.width, c.cross.output_width)
        if c.feedforward is not None:
            f = c.feedforward
            self.feedforward = FeedForward(
                c.output_width, hidden=f.hidden, activation=f.activation, gated=f.gated, bias=f.bias
            )
            self.feedforward_norm = self._norm(c.output_width, c.output_width)
        self.dropout = nn.Dropout(c.dropout)

    def forward(
        self, x: Float[Tensor, "B L D"], context: Context = _NOTHING, state: BlockState = _NO_STATE
    ) -> Float[Tensor, "B L O"]:
        c = self.config
        x = zero_padding(x, kept_keys(context.mask) if isinstance(context.mask, Mask) else None)
        found = self._attend(self._before(self.attention_norm, x), context, state)
        x = self._after(self.attention_norm, x, found)
        if c.cross is not None:
            found = self._attend_source(self._before(self.cross_norm, x), context, state)
            x = self._after(self.cross_norm, x, found)
        if c.feedforward is not None:
            found = self.feedforward(self._before(self.feedforward_norm, x))
            x = self._after(self.feedforward_norm, x, found)
        return x

    def _attend(self, x: Tensor, context: Context, state: BlockState) -> Tensor:
        c = context
        if c.step and state.own is not None and not isinstance(c.bias, Tensor):
            return self.attention.step(x, state.own, positions=c.positions, bias=c.bias, turn=c.turn)
        return self.attention(x, mask=c.mask, positions=c.positions, bias=c.bias, state=state.own, turn=c.turn)

    def _attend_source(self, x: Tensor, context: Context, state: BlockState) -> Tensor:
        held = None if state.cross is None else state.cross.source
        if context.source is None and held is None:
            raise ValueError("this block attends to a source: pass Context(source=...)")
        if context.step and state.cross is not None and held is not None:
            return self.cross.step(x, state.cross)
        return self.cross(x, context.source, mask=context.source_mask, state=state.cross)

    def _norm(self, before: int, after: int) -> nn.Module:
        c = self.config
        return make_norm(c.norm if c.order != "none" else "none", before if c.order == "pre" else after, eps=c.eps)

    def _before(self, norm: nn.Module, x: Tensor) -> Tensor:
        return norm(x) if self.config.order == "pre" else x

    def _after(self, norm: nn.Module, x: Tensor, found: Tensor) -> Tensor:
        found = self.dropout(found) if self.training else found
        total = x + found if self.config.residual else found
        return norm(total) if self.config.order == "post" else total
