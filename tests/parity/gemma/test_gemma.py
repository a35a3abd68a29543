"""Gemma 2 and 3 beside transformers: four norms in a block, windows in turn, caps, two rotary bases."""

from typing import Any

from tests.parity.decoders import DecoderParity, V

SIZES: dict[str, Any] = dict(
    vocab_size=V, hidden_size=60, intermediate_size=29, num_hidden_layers=3, num_attention_heads=6,
    num_key_value_heads=2, head_dim=14, max_position_embeddings=64, rms_norm_eps=1e-4, sliding_window=5,
    query_pre_attn_scalar=11,
)  # fmt: skip
NORMS = ("attention_norm", "attention_out_norm", "feedforward_norm", "feedforward_out_norm")
NOTICED = ("attention.key", "attention.out", "feedforward.gate", *NORMS)


class TestGemma2(DecoderParity):
    model_type = "gemma2"
    sizes = SIZES
    shapes = {  # noqa: RUF012
        "plain": {},
        # Caps that are felt: the scores of a small model are far from 50.
        "small caps": dict(attn_logit_softcapping=2.0, final_logit_softcapping=3.0, tie_word_embeddings=False),
        "no caps": dict(
            attn_logit_softcapping=None, final_logit_softcapping=None, query_pre_attn_scalar=14, attention_bias=True,
            hidden_activation="silu",
        ),
        "other layers": dict(
            layer_types=["full_attention", "full_attention", "sliding_attention"], rope_theta=300.0
        ),
    }  # fmt: skip
    noticed = NOTICED


class TestGemma3(DecoderParity):
    model_type = "gemma3_text"
    sizes = SIZES
    shapes = {  # noqa: RUF012
        "plain": dict(num_hidden_layers=7),
        "every second": dict(sliding_window_pattern=2, final_logit_softcapping=3.0, tie_word_embeddings=False),
        "stretched": dict(
            rope_parameters=dict(
                full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e5),
                sliding_attention=dict(rope_type="default", rope_theta=300.0),
            ),
            layer_types=["sliding_attention", "full_attention", "full_attention"], attention_bias=True,
        ),
        "both stretched": dict(
            rope_parameters=dict(
                full_attention=dict(rope_type="default", rope_theta=1e5),
                sliding_attention=dict(rope_type="linear", factor=3.0, rope_theta=300.0),
            ),
            sliding_window_pattern=3,
        ),
    }  # fmt: skip
    noticed = (*NOTICED, "attention.query_norm", "attention.key_norm")
