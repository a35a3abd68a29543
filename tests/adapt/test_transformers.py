"""How models of `transformers` are called, guessed from their configuration and the names of their parameters."""

from typing import Any

import pytest
import torch
import transformers
from torch import nn

from headway.adapt.adapter import Adapter
from headway.adapt.guess import guess_adapter
from headway.audit.examination import examine

VOCABULARY, WIDTH = 37, 12
SIZES: dict[str, Any] = dict(
    vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=2, intermediate_size=14,
    max_position_embeddings=41,
)  # fmt: skip
GPT2: dict[str, Any] = dict(vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=1, n_head=2, n_positions=41)
BART: dict[str, Any] = dict(
    vocab_size=VOCABULARY, d_model=WIDTH, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
    decoder_attention_heads=2, encoder_ffn_dim=14, decoder_ffn_dim=14, max_position_embeddings=41,
)  # fmt: skip
OPT: dict[str, Any] = dict(SIZES, ffn_dim=14, word_embed_proj_dim=WIDTH)
T5: dict[str, Any] = dict(vocab_size=VOCABULARY, d_model=WIDTH, d_kv=6, num_layers=1, num_heads=2, d_ff=14)
VIT: dict[str, Any] = dict(SIZES, image_size=(12, 8), patch_size=4, num_channels=1)
CAUSAL: dict[str, Any] = dict(causal=True, vocabulary=VOCABULARY, mask="attention_mask")
NAMES: dict[str, Any] = dict(positions="position_ids", vectors="inputs_embeds", argument="input_ids")
DECODER: dict[str, Any] = CAUSAL | NAMES | dict(longest=41)
ENCODER: dict[str, Any] = DECODER | dict(causal=False, session=None, shifts=False)
PAIRS: dict[str, Any] = dict(
    causal=True, vocabulary=VOCABULARY, argument="decoder_input_ids", source="input_ids", source_mask="attention_mask",
    mask="decoder_attention_mask", vectors="decoder_inputs_embeds", positions=None,
)  # fmt: skip

EXPECTED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "GPT2LMHeadModel": ("GPT2Config", GPT2, DECODER | dict(shifts=False)),
    "GPT2Model": ("GPT2Config", GPT2, DECODER),
    "LlamaForCausalLM": ("LlamaConfig", SIZES, DECODER | dict(shifts=True)),
    "LlamaModel": ("LlamaConfig", SIZES, DECODER | dict(shifts=True)),
    "BloomForCausalLM": ("BloomConfig", dict(vocab_size=VOCABULARY, hidden_size=WIDTH, n_layer=1, n_head=2),
                         CAUSAL | dict(shifts=True, positions=None, longest=None)),
    "OPTForCausalLM": ("OPTConfig", OPT, DECODER),
    "BertModel": ("BertConfig", SIZES, ENCODER),
    "BertForMaskedLM": ("BertConfig", SIZES, ENCODER),
    "BertLMHeadModel": ("BertConfig", SIZES | dict(is_decoder=True), DECODER),
    "RobertaModel": ("RobertaConfig", SIZES, ENCODER | dict(longest=39)),
    "DistilBertModel": ("DistilBertConfig", dict(vocab_size=VOCABULARY, dim=WIDTH, n_layers=1, n_heads=2, hidden_dim=14,
                                                 max_position_embeddings=41), ENCODER),
    "T5ForConditionalGeneration": ("T5Config", T5, PAIRS | dict(shifts=True)),
    "BartForConditionalGeneration": ("BartConfig", BART, PAIRS | dict(shifts=False, longest=41)),
    "ViTForImageClassification": ("ViTConfig", VIT, dict(inputs="images", argument="pixel_values", image=(1, 12, 8))),
}  # fmt: skip


def made(name: str, **more: Any) -> nn.Module:
    torch.manual_seed(3)
    config, sizes, _ = EXPECTED[name]
    return getattr(transformers, name)(getattr(transformers, config)(**sizes, **more)).eval()


@pytest.mark.parametrize("name", EXPECTED)
def test_fields(name: str) -> None:
    found = guess_adapter(made(name), None, {})
    expected = EXPECTED[name][2]
    assert {field: getattr(found, field) for field in expected} == expected
    assert (found.session is not None) == bool(found.causal)
    assert found.rebuild is not None and type(found.rebuild()).__name__ == name


def broken(model: nn.Module, laws: str) -> list[str]:
    return [finding.law for finding in examine(model, laws=laws) if finding.status != "holds"]


@pytest.mark.parametrize("name", ["LlamaForCausalLM"])  # others: tests/audit/test_sound.py
def test_decoders_hold(name: str) -> None:
    assert broken(made(name, attn_implementation="sdpa"), "causal,padding,batch,cache") == []


@pytest.mark.parametrize("name", ["BertModel", "RobertaModel"])
def test_encoders_hold(name: str) -> None:
    """Padding and texts in one row, for which RoBERTa has to be told positions that begin at 2."""
    assert broken(made(name, attn_implementation="sdpa"), "padding,segments") == []


def test_texts_in_one_row_of_a_decoder() -> None:
    """By positions where they are heeded; OPT takes them and heeds them not, which is told."""
    llama, opt = (guess_adapter(made(name), None, {}) for name in ("LlamaForCausalLM", "OPTForCausalLM"))
    assert not llama.notes and any("mask of all pairs" in note for note in opt.notes)
    assert broken(made("LlamaForCausalLM"), "segments") == broken(made("OPTForCausalLM"), "segments") == []


def test_a_flag_that_is_off_does_not_take_the_claim_away() -> None:
    """A bug in the flags of a causal model is to be found, not to be believed."""
    model: Any = made("GPT2LMHeadModel", attn_implementation="sdpa")
    for block in model.transformer.h:
        block.attn.is_causal = False
    assert guess_adapter(model, None, {}).causal is True
    assert broken(model, "causal") == ["causal"]


def test_what_is_told_comes_first() -> None:
    found = guess_adapter(made("BertModel"), None, {"causal": True, "longest": 7})
    assert found.causal is True and found.longest == 7 and found.vocabulary == VOCABULARY


def test_sound_is_not_guessed() -> None:
    config = transformers.Wav2Vec2Config(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, conv_dim=(4,), conv_kernel=(3,),
        conv_stride=(2,), num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"reads input_values.*Adapter"):
        guess_adapter(transformers.Wav2Vec2Model(config), None, {})


def test_an_adapter_that_is_given_is_tried() -> None:
    with pytest.raises(ValueError, match=r"called with tokens .2, 5., failed: .*with an Adapter"):
        guess_adapter(made("ViTForImageClassification"), Adapter(vocabulary=5), {})
