"""Other people's models on the meta device: dense FLOPs equal to torch's own counter, and to published figures."""

from functools import cache
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from headway.cost.trace import inputs_for, trace

B, L, M = 2, 13, 11
ENDS = dict(bos_token_id=1, eos_token_id=1)
SMALL = dict(hidden_size=24, num_hidden_layers=1, num_attention_heads=3, intermediate_size=40)
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", dict(n_layer=1, n_embd=24, n_head=3, vocab_size=97, **ENDS)),
    "bert": ("BertForMaskedLM", "BertConfig", SMALL | dict(vocab_size=97)),
    "llama": ("LlamaForCausalLM", "LlamaConfig", SMALL | dict(vocab_size=97, num_key_value_heads=1)),
    "t5": ("T5ForConditionalGeneration", "T5Config",
           dict(d_model=24, d_kv=8, d_ff=40, num_layers=1, num_heads=3, vocab_size=97)),
    "vit": ("ViTForImageClassification", "ViTConfig", SMALL | dict(image_size=32, patch_size=8)),
}  # fmt: skip


@cache
def model(name: str) -> nn.Module:
    kind, config, sizes = MODELS[name]
    with torch.device("meta"):
        return getattr(transformers, kind)(getattr(transformers, config)(**sizes))


@pytest.mark.parametrize("name", MODELS)
def test_dense_flops_are_those_of_torchs_counter(name: str) -> None:
    inputs, keywords = inputs_for(model(name), B, L, M)
    with FlopCounterMode(display=False) as forward:
        output = model(name)(*inputs, **keywords)
    with FlopCounterMode(display=False) as backward:
        sum(value.sum() for value in output.values() if isinstance(value, Tensor)).backward()
    found = trace(model(name), *inputs, backward=True, memory=False, **keywords)
    assert found.complete and found.notes == ()
    assert found.forward.flops - forward.get_total_flops() == 0
    assert found.backward.flops - backward.get_total_flops() == 0
    alone = trace(model(name), *inputs, memory=False, **keywords)
    assert alone.forward.dense == found.forward.dense and alone.backward.dense == 0


def test_the_cpus_kernels_are_counted_as_the_products_they_replace() -> None:
    name = "gpt2"
    inputs, keywords = inputs_for(model(name).eval(), B, L, M)
    plain = trace(model(name), *inputs, backward=True, memory=False, **keywords)
    fused = trace(model(name), *inputs, backward=True, memory=False, device="fake", **keywords)
    assert (fused.forward.dense, fused.backward.dense) == (plain.forward.dense, plain.backward.dense)
    assert any("flash_attention_for_cpu" in line.path for line in fused.lines)
    assert not any("flash_attention_for_cpu" in line.path for line in plain.lines)


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_belongs_to_one_operation(name: str) -> None:
    """Tied ones too: the table of words is the head's as well, and only lent to it."""
    inputs, keywords = inputs_for(model(name), B, L, M)
    found = trace(model(name), *inputs, memory=False, **keywords)
    used = sum(line.sets * line.operation.parameters for line in found.lines)
    assert found.parameters.total == sum(parameter.numel() for parameter in model(name).parameters()) == used
    borrowed = sum(line.operation.borrowed for line in found.lines if line.operation.kind == "product")
    assert borrowed == (97 * 24 if "lm_head.weight" in found.parameters.tied or name == "bert" else 0)


def test_a_causal_model_uses_the_pairs_below_the_diagonal() -> None:
    """L (L + 1) / 2 of L² pairs, forwards and backwards; torch says so in its call, whatever it makes of it."""
    inputs, keywords = inputs_for(model("gpt2"), B, L)
    for device in ("meta", "fake"):
        found = trace(model("gpt2").eval(), *inputs, backward=True, memory=False, device=device, **keywords)
        masked = B * 2 * 24 * (L * L - L * (L + 1) // 2)
        assert found.forward.dense - found.forward.useful == masked
        assert found.backward.dense - found.backward.useful == 2 * masked


def test_the_loss_of_a_model_is_counted_and_differentiated() -> None:
    inputs, keywords = inputs_for(model("gpt2"), B, L)
    labels = torch.empty(B, L, dtype=torch.long, device="meta")
    plain = trace(model("gpt2"), *inputs, backward=True, memory=False, **keywords)
    found = trace(model("gpt2"), *inputs, backward=True, memory=False, labels=labels, **keywords)
    assert found.complete and found.forward.dense == plain.forward.dense
    assert sum(line.operation.forward.other for line in found.lines if line.operation.kind == "loss") >= 4 * B * L * 97
    assert found.depth["tree"] > plain.depth["tree"]


def test_gpt2_at_1024_tokens_as_published() -> None:
    """291,648,307,200 FLOPs in matrix products: 12 layers of 24 D² L + 4 L² D, and the head."""
    with torch.device("meta"):
        gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    inputs, keywords = inputs_for(gpt2, 1, 1024)
    found = trace(gpt2, *inputs, memory=False, **keywords)
    assert found.forward.flops == 291_648_307_200
    assert found.parameters.total == 124_439_808
    # ⌈lg⌉ of 768, 64, 1024 and 3072 are 10, 6, 10 and 12: in each layer two norms, four maps, scores, softmax, sum
    layer = 2 * 2 * 10 + 3 * 10 + 12 + 6 + 3 * 10
    assert found.depth["sums"] == 12 * layer + 2 * 10 + 10


def test_vit_b16_as_published() -> None:
    """17,563,828,224 multiply-adds: patches, 12 layers over 197 tokens, a head of 1,000 classes on one of them."""
    with torch.device("meta"):
        vit = transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000)).eval()
    inputs, keywords = inputs_for(vit, 1, 1)
    found = trace(vit, *inputs, memory=False, **keywords)
    assert found.forward.dense == 17_563_828_224
    by_kind = dict.fromkeys(("convolution", "product", "attention"), 0)
    for line in found.lines:
        if line.operation.forward.dense:
            by_kind[line.operation.kind] += line.runs * line.operation.forward.dense
    patches, layers, scores = 196 * 768 * 768, 12 * 12 * 197 * 768 * 768, 12 * 2 * 197 * 197 * 768
    assert by_kind == {"convolution": patches, "product": layers + 768 * 1000, "attention": scores}


def test_a_model_that_drops_layers_at_random_can_be_traced() -> None:
    with torch.device("meta"):
        config = transformers.BartConfig(vocab_size=97, d_model=24, encoder_layers=1, decoder_layers=1,
                                         encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=40,
                                         decoder_ffn_dim=40)  # fmt: skip
        bart = transformers.BartModel(config)
    inputs, keywords = inputs_for(bart, B, L, M)
    found = trace(bart.train(), *inputs, memory=False, **keywords)
    assert found.complete
    assert found.forward.dense == trace(bart.eval(), *inputs, memory=False, **keywords).forward.dense
