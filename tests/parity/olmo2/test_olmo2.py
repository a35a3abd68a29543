"""OLMo 2 beside transformers: norms of what a branch gives, and of all queries and keys as one row."""

from tests.parity.decoders import DecoderParity, V


class TestOLMo2(DecoderParity):
    model_type = "olmo2"
    sizes = dict(  # noqa: RUF012
        vocab_size=V, hidden_size=60, intermediate_size=29, num_hidden_layers=2, num_attention_heads=6,
        max_position_embeddings=64, rms_norm_eps=1e-4, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    shapes = {  # noqa: RUF012
        "plain": {},
        "grouped": dict(num_key_value_heads=2, tie_word_embeddings=True, rope_theta=5e5),
        "biases": dict(attention_bias=True, num_key_value_heads=3, hidden_act="gelu"),
    }
    noticed = (
        "attention.key", "attention.out", "feedforward.gate", "attention_out_norm", "feedforward_out_norm",
        "attention.query_norm", "attention.key_norm",
    )  # fmt: skip
