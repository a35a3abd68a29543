"""GPT-2 in its four sizes (Radford et al. 2019; sizes of the released weights)."""

from functools import partial

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, LanguageConfig, Special, StackConfig

_SPECIAL = Special(begin=50256, end=(50256,))  # one token both begins and ends a text


def gpt2(
    *,
    width: int = 768,
    layers: int = 12,
    heads: int = 12,
    hidden: int | None = None,
    vocabulary: int = 50257,
    length: int = 1024,
    dropout: float = 0.1,
    special: Special = _SPECIAL,
) -> LanguageConfig:
    """Pre-norm blocks, learned positions, biases everywhere, a tied head; feed-forwards four times as wide.

    Maps that end a residual branch start smaller (Radford et al. 2019, 2.3).
    """
    attention = AttentionConfig(width=width, heads=heads, causal=True, bias=True, output_bias=True)
    block = BlockConfig(
        attention=attention,
        feedforward=FeedForwardConfig(hidden=hidden or 4 * width, activation="gelu_tanh"),
        eps=1e-5,
        dropout=dropout,
    )
    return LanguageConfig(
        family="gpt2",
        vocabulary=vocabulary,
        length=length,
        stack=StackConfig(block=block, layers=layers, final_norm=True, scaled_init=True),
        positions="learned",
        special=special,
    )


PRESETS = {
    "gpt2": gpt2,
    "gpt2-medium": partial(gpt2, width=1024, layers=24, heads=16),
    "gpt2-large": partial(gpt2, width=1280, layers=36, heads=20),
    "gpt2-xl": partial(gpt2, width=1600, layers=48, heads=25),
}
