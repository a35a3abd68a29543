"""Tiny models of transformers with random adapters of headway's, written in the layout of peft."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

import headway
from headway.config.train import LoraConfig
from headway.hub.adapter import write_adapter
from headway.models.lora import adapters_of, add_lora
from tests.parity.compare import shake

V = 31
TOLERANCE = {"llama": 1e-6, "gpt2": 1e-12, "t5": 1e-6}  # transformers computes some norms and rotations in float32
LLAMA = dict(
    model_type="llama", vocab_size=V, hidden_size=22, intermediate_size=13, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, head_dim=10, max_position_embeddings=32,
)  # fmt: skip
CASES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "llama": (LLAMA, ("query", "value", "down")),
    "gpt2": (dict(model_type="gpt2", vocab_size=V, n_embd=14, n_layer=2, n_head=2, n_positions=32),
             ("query", "value", "out")),
    "t5": (dict(model_type="t5", vocab_size=V, d_model=14, d_kv=5, d_ff=11, num_layers=1, num_heads=3,
                decoder_start_token_id=0), ("key", "up")),
}  # fmt: skip


def made(name: str, place: Path) -> tuple[Any, Any]:
    """Their model, and ours with adapters; both in float64, and the adapter in place / "adapter"."""
    said, on = CASES[name]
    torch.manual_seed(1)
    kind = AutoModelForSeq2SeqLM if name == "t5" else AutoModelForCausalLM
    other = kind.from_config(AutoConfig.for_model(**said)).double().eval()
    shake(other)
    other.save_pretrained(place / "base")
    model = headway.load(place / "base").model
    lora = LoraConfig(rank=3, alpha=5.0, on=on)
    add_lora(model, lora)
    for adapter in adapters_of(model).values():
        adapter.double().up.data.normal_()
    (place / "adapter").mkdir()
    write_adapter(model.eval(), lora, place / "adapter", str(place / "base"))
    return other, model


def logits(model: Any, tokens: torch.Tensor, *, theirs: bool) -> torch.Tensor:
    """Of tokens; an encoder-decoder reads them as the source and as the target."""
    with torch.no_grad():
        if theirs:
            both = {"decoder_input_ids": tokens} if model.config.is_encoder_decoder else {}
            return model(tokens, **both).logits
        return model(tokens, tokens) if model.config.kind == "seq2seq" else model(tokens)
