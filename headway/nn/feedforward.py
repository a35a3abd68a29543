"""The feed-forward layer: each row for itself, through a hidden width F and back."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headway.nn.quarantine import Projection
from headway.ops.activation import find_activation


class FeedForward(nn.Module):
    """Two linear maps and a curve (arXiv:1706.03762), or three with a gate (Shazeer 2020, arXiv:2002.05202).

        y = down(act(up(x)))               plain
        y = down(act(gate(x)) * up(x))     gated: with silu SwiGLU, with gelu GEGLU, with sigmoid GLU

    Dropout acts on the hidden entries, just before `down`.

    >>> sum(p.numel() for p in FeedForward(5, hidden=7).parameters())  # 5·7 + 7 + 7·5 + 5
    82
    """

    def __init__(
        self,
        width: int,
        *,
        hidden: int,
        activation: str = "gelu",
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        output_width: int | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout is the share of entries left out, from 0 to below 1, not {dropout}")
        self.width, self.activation, self.dropout = width, activation, dropout
        self._act = find_activation(activation)
        self.gate = Projection(width, hidden, bias=bias) if gated else None
        self.up = Projection(width, hidden, bias=bias)
        self.down = Projection(hidden, width if output_width is None else output_width, bias=bias)

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b O"]:
        if x.shape[-1] != self.width:
            raise ValueError(f"a feed-forward of width {self.width} got rows of width {x.shape[-1]}")
        hidden = self._act(self.up(x)) if self.gate is None else self._act(self.gate(x)) * self.up(x)
        return self.down(F.dropout(hidden, self.dropout) if self.training else hidden)

    def extra_repr(self) -> str:
        return f"activation={self.activation}, dropout={self.dropout}"
