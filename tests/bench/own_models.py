"""Models that a user might have written, as `headway bench models package.module:function` meets them."""

from typing import Any

from torch import Tensor, nn

from headway.presets.seq2seq import t5


class Tokens(nn.Module):
    """Tokens in, logits out, and nothing that could generate."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(23, 6), nn.Linear(6, 23)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.table(tokens))


class Frozen(Tokens):
    """No weight has a gradient, so that there is nothing to train."""

    def __init__(self) -> None:
        super().__init__()
        self.requires_grad_(False)


class Detached(Tokens):
    """There are weights to train, and an output that does not lead back to them."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens).detach()


def encoder_decoder() -> Any:
    return t5(width=12, heads=3, layers=1, hidden=20, head_width=4)


def convolution() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 2, 16), nn.Flatten())


def two_inputs() -> nn.Module:
    return nn.Bilinear(3, 5, 7)


def of_transformers() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_embd=12, n_layer=1, n_head=3, vocab_size=31, n_positions=16))
