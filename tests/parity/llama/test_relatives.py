"""Qwen3, Granite and SmolLM3 beside transformers: the tensors of Llama, and what each of them does otherwise."""

from typing import Any

from tests.parity.decoders import DecoderParity, V

SIZES: dict[str, Any] = dict(
    vocab_size=V, hidden_size=60, intermediate_size=29, num_hidden_layers=2, num_attention_heads=6,
    num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-4, bos_token_id=1, eos_token_id=2,
    pad_token_id=0,
)  # fmt: skip
QK = ("attention.query_norm", "attention.key_norm")


class TestQwen3(DecoderParity):
    model_type = "qwen3"
    sizes = SIZES | dict(head_dim=14)
    shapes = {  # noqa: RUF012
        "plain": {},
        "tied": dict(tie_word_embeddings=True, rope_theta=1e6, head_dim=10),
        "biases": dict(attention_bias=True, num_key_value_heads=6),
        "window": dict(use_sliding_window=True, sliding_window=3, max_window_layers=0),
        "some windows": dict(use_sliding_window=True, sliding_window=4, max_window_layers=1, num_hidden_layers=3),
        "windows in turn": dict(
            use_sliding_window=True, sliding_window=4, num_hidden_layers=4,
            layer_types=["sliding_attention", "full_attention"] * 2,
        ),
        "yarn": dict(rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)),
    }  # fmt: skip
    noticed = (*DecoderParity.noticed, *QK)


class TestGranite(DecoderParity):
    model_type = "granite"
    sizes = SIZES
    shapes = {  # noqa: RUF012
        "published": dict(
            attention_multiplier=0.015625, embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22
        ),
        "no multipliers": dict(tie_word_embeddings=True),
        "odd multipliers": dict(
            attention_multiplier=10**-0.5, embedding_multiplier=0.3, logits_scaling=49.0, residual_multiplier=1.7,
            attention_bias=True, mlp_bias=True,
        ),
    }  # fmt: skip


class TestSmolLM3(DecoderParity):
    model_type = "smollm3"
    sizes = SIZES | dict(num_hidden_layers=5)
    shapes = {  # noqa: RUF012
        "every fourth": {},
        "every second": dict(no_rope_layer_interval=2, tie_word_embeddings=False, attention_bias=True, mlp_bias=True),
        "listed": dict(no_rope_layers=[0, 1, 1, 0, 1]),
        "windows": dict(use_sliding_window=True, sliding_window=4, no_rope_layer_interval=2),
        "windows elsewhere": dict(
            use_sliding_window=True, sliding_window=4,
            layer_types=["sliding_attention"] * 2 + ["full_attention"] * 3,
        ),
        "all alike": dict(no_rope_layers=[1] * 5),
    }  # fmt: skip
