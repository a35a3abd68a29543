"""OPT beside transformers: an offset of positions, narrow embeddings, norms before or after."""

from tests.parity.decoders import DecoderParity, V


class TestOPT(DecoderParity):
    model_type = "opt"
    sizes = dict(  # noqa: RUF012
        vocab_size=V, hidden_size=60, ffn_dim=31, num_hidden_layers=2, num_attention_heads=6,
        max_position_embeddings=41, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    shapes = {  # noqa: RUF012
        "norms before": {},
        "narrow, norms after": dict(word_embed_proj_dim=22, do_layer_norm_before=False),
        "no last norm": dict(_remove_final_layer_norm=True, word_embed_proj_dim=22, tie_word_embeddings=False),
        "without biases": dict(enable_bias=False, activation_function="gelu"),
    }
    noticed = ("attention.key", "attention.out", "feedforward.down", "feedforward_norm")
