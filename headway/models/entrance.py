"""What a token's vector passes before the first layer of an encoder or a decoder: scale, position, norm, dropout."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config import BlockConfig
from headway.config.seq2seq import Seq2SeqConfig
from headway.nn.embedding import LearnedPositions, SinusoidalPositions
from headway.nn.norm import make_norm
from headway.nn.quarantine import zero_padding
from headway.ops.position import sinusoidal


class HalvedPositions(nn.Module):
    """x + sinusoids with all sines in the first half of the channels and all cosines in the second.

    The same numbers as `ops.position.sinusoidal`, in Marian's order (arXiv:1804.00344).

    >>> HalvedPositions(4)(torch.zeros(1, 1, 4), torch.tensor([1])).round(decimals=4)[0, 0].tolist()
    [0.8415, 0.01, 0.5403, 1.0]
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "*b L"]) -> Float[Tensor, "B L D"]:
        table = sinusoidal(positions, width=self.width, dtype=x.dtype)
        return x + torch.cat([table[..., 0::2], table[..., 1::2]], dim=-1)

    def extra_repr(self) -> str:
        return str(self.width)


class Entrance(nn.Module):
    """norm(scale · x + position), each part where the model has it."""

    def __init__(self, config: Seq2SeqConfig, block: BlockConfig) -> None:
        super().__init__()
        self.scale, self.offset, self.length = config.embedding_scale, config.offset, config.length
        self.positions = _positions(config, block.width)
        self.norm = make_norm(block.norm if config.embedding_norm else "none", block.width, eps=block.eps)
        self.dropout = nn.Dropout(block.dropout)

    def forward(
        self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "b L"], keep: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B L D"]:
        x = zero_padding(x, keep)
        x = x if self.scale == 1.0 else x * self.scale
        if self.positions is not None:
            # Padding before the first token has positions below 0, and its vector is never looked at.
            positions = positions if keep is None else positions.masked_fill(~keep, 0)
            self._check(positions)
            x = self.positions(x, positions + self.offset)
        return self.dropout(self.norm(x))

    def _check(self, positions: Tensor) -> None:
        if self.length is not None and positions.numel() and (last := int(positions.max())) >= self.length:
            raise ValueError(f"this model has {self.length} positions, and the text has a token at position {last}: "
                             f"shorten it to {self.length} tokens")  # fmt: skip


def _positions(config: Seq2SeqConfig, width: int) -> nn.Module | None:
    if config.positions == "learned":
        assert config.length is not None
        return LearnedPositions(config.length + config.offset, width)
    if config.positions == "sinusoidal":
        return SinusoidalPositions(width)
    return HalvedPositions(width) if config.positions == "halves" else None
