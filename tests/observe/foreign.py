"""Tiny random models of another library, and what they read: a padded batch, or images."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

VOCABULARY, LENGTH, TARGET = 53, 23, 13
NAMES = ("gpt2", "bert", "t5", "bart", "llama", "vit")


def model_of(name: str, implementation: str = "sdpa") -> Any:
    """In float64, so that a tolerance means something."""
    t: Any = import_module("transformers")

    torch.manual_seed(0)
    words: dict[str, Any] = {"vocab_size": VOCABULARY, "attn_implementation": implementation}
    sizes: dict[str, Any] = {
        "hidden_size": 44,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 61,
    }
    ends: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}
    match name:
        case "gpt2":
            config = t.GPT2Config(
                n_positions=64, n_embd=44, n_layer=2, n_head=4, initializer_range=0.3, **words, **ends
            )
            model: Any = t.GPT2LMHeadModel(config)
        case "bert":
            model = t.BertModel(t.BertConfig(**words, **sizes, max_position_embeddings=64, initializer_range=0.3))
        case "t5":
            config = t.T5Config(
                d_model=44, d_kv=11, d_ff=61, num_layers=2, num_heads=4, decoder_start_token_id=0, **words
            )
            model = t.T5ForConditionalGeneration(config)
        case "bart":
            both: dict[str, Any] = {
                f"{side}_{part}": size for side in ("encoder", "decoder") for part, size in _BART.items()
            }
            config = t.BartConfig(d_model=44, init_std=0.3, decoder_start_token_id=2, **both, **words, **ends)
            model = t.BartForConditionalGeneration(config)
        case "llama":
            wide = sizes | {"hidden_size": 48, "num_key_value_heads": 2, "initializer_range": 0.3}
            model = t.LlamaForCausalLM(t.LlamaConfig(**words, **wide, **ends))
        case _:
            patches: dict[str, Any] = {"image_size": 20, "patch_size": 5, "initializer_range": 0.3}
            model = t.ViTModel(t.ViTConfig(**sizes, **patches, attn_implementation=implementation))
    return model.double().eval()


_BART = {"layers": 2, "attention_heads": 4, "ffn_dim": 61}


def inputs_of(name: str) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(3)
    if name == "vit":
        return {"pixel_values": torch.randn(2, 3, 20, 20, generator=draw, dtype=torch.float64)}
    tokens = torch.randint(3, VOCABULARY, (2, LENGTH), generator=draw)
    keep = (torch.arange(LENGTH) < torch.tensor([[LENGTH], [17]])).long()
    target = {"decoder_input_ids": tokens[:, :TARGET].flip(1)} if name in ("t5", "bart") else {}
    return {"input_ids": tokens, "attention_mask": keep} | target


def first_of(output: Any) -> Tensor:
    return next(one for one in output.values() if isinstance(one, Tensor))


def attentions_of(output: Any) -> list[Tensor]:
    """As the library returns them, in order of running."""
    if "decoder_attentions" not in output.keys():  # noqa: SIM118 (a class of its own)
        return list(output["attentions"])
    pairs = zip(output["decoder_attentions"], output["cross_attentions"], strict=True)
    return [*output["encoder_attentions"], *(one for pair in pairs for one in pair)]
