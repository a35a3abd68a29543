"""GPT-NeoX beside transformers: branches side by side, heads that turn in part, tensors joined head by head."""

from tests.parity.decoders import DecoderParity, V


class TestGPTNeoX(DecoderParity):
    model_type = "gpt_neox"
    sizes = dict(  # noqa: RUF012
        vocab_size=V, hidden_size=72, intermediate_size=29, num_hidden_layers=2, num_attention_heads=3,
        max_position_embeddings=64, layer_norm_eps=1e-4, bos_token_id=1, eos_token_id=2, pad_token_id=0,
        hidden_dropout=0.1,
    )  # fmt: skip
    shapes = {  # noqa: RUF012
        "plain": {},
        "one after the other": dict(use_parallel_residual=False, rotary_pct=1.0, rotary_emb_base=300),
        "without biases": dict(
            attention_bias=False, rotary_pct=0.6, tie_word_embeddings=True, hidden_act="gelu_fast",
            rope_scaling=dict(rope_type="linear", factor=4.0),
        ),
    }  # fmt: skip
    noticed = ("attention.query", "attention.key", "attention.out", "feedforward.up", "feedforward_norm")
