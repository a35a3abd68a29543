"""Phi-3 beside transformers: joined tensors, heads that turn in part, LongRoPE, a window."""

from typing import Any

from tests.parity.decoders import DecoderParity, V


def longrope(pairs: int) -> dict[str, Any]:
    short, long = [1.0 + i / 7 for i in range(pairs)], [1.5 + i for i in range(pairs)]
    return dict(rope_type="longrope", short_factor=short, long_factor=long)


class TestPhi3(DecoderParity):
    model_type = "phi3"
    sizes = dict(  # noqa: RUF012
        vocab_size=V, hidden_size=60, intermediate_size=29, num_hidden_layers=2, num_attention_heads=6,
        max_position_embeddings=64, rms_norm_eps=1e-4, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    shapes = {  # noqa: RUF012
        "plain": {},
        "window": dict(sliding_window=5, num_key_value_heads=2),
        # Past 8 tokens, the texts of these tests, the long factors serve.
        "long": dict(rope_scaling=longrope(5), original_max_position_embeddings=8, tie_word_embeddings=True),
        "in part": dict(
            rope_scaling=longrope(2), partial_rotary_factor=0.4, original_max_position_embeddings=12,
            num_key_value_heads=3,
        ),
        "in part, plain": dict(partial_rotary_factor=0.6, hidden_act="gelu"),
    }  # fmt: skip
