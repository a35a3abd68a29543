"""T5 and mT5 beside transformers: both versions, padding, caches, and the way back."""

import json
from pathlib import Path

import pytest
import torch
from transformers import MT5Config, MT5ForConditionalGeneration, T5Config, T5ForConditionalGeneration

import headway
from tests.parity.compare import close, shake
from tests.parity.seq2seq import (
    can_fail,
    edit,
    logits,
    same_after_saving,
    same_in_pieces,
    same_states,
    same_under_padding,
    unchecked,  # noqa: F401 of every test here
)

SIZES = dict(vocab_size=53, d_model=17, d_kv=5, d_ff=23, num_heads=3, num_layers=2, num_decoder_layers=3)
SHAPES = {
    "1.0": dict(relative_attention_num_buckets=8, relative_attention_max_distance=11),
    "1.1": dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False, relative_attention_num_buckets=6),
    "silu": dict(feed_forward_proj="gated-silu", relative_attention_max_distance=29, layer_norm_epsilon=1e-3),
    "mt5": dict(tie_word_embeddings=False, relative_attention_num_buckets=10),
}


def theirs(shape: dict, path: Path) -> T5ForConditionalGeneration | MT5ForConditionalGeneration:
    torch.manual_seed(1)
    kinds = (
        (MT5Config, MT5ForConditionalGeneration) if shape is SHAPES["mt5"] else (T5Config, T5ForConditionalGeneration)
    )
    model = kinds[1](kinds[0](decoder_start_token_id=0, **SIZES, **shape)).eval()
    if shape.get("tie_word_embeddings") is False:
        model.lm_head.weight = torch.nn.Parameter(torch.randn(53, 17))
    shake(model)
    model.save_pretrained(path)
    return model


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("theirs")
    return theirs(SHAPES[request.param], path), headway.load(path).model


def test_logits_and_hidden_states(pair) -> None:
    other, model = pair
    same_states(other, model, other.encoder.block, other.decoder.block)


@pytest.mark.parametrize(("source", "target"), [("left", "right"), ("right", "left")])
def test_padding_changes_nothing(pair, source: str, target: str) -> None:
    same_under_padding(*pair, source, target)


@pytest.mark.parametrize(("side", "cache"), [("left", True), ("right", True), ("left", False)])
def test_pieces_and_caches_change_nothing(pair, side: str, cache: bool) -> None:
    same_in_pieces(*pair, side, cache=cache)


def test_what_is_saved_loads_there(pair, tmp_path: Path) -> None:
    other, model = pair
    again = same_after_saving(other, model, tmp_path / "ours")
    assert type(again) is type(other)
    assert getattr(again.config, "scale_decoder_outputs", None) == getattr(other.config, "scale_decoder_outputs", None)
    assert again.generation_config.decoder_start_token_id == 0


def test_the_comparison_can_fail(pair) -> None:
    other, model = pair
    names = ["tokens.weight", "source_bias.weight", "target_bias.weight", "encoder.norm.weight",
             "decoder.blocks.2.cross.key.weight", "encoder.blocks.1.feedforward.up.weight"]  # fmt: skip
    can_fail(other, model, names if model.head is None else [*names, "head.weight"])


@torch.no_grad()
def test_the_head_of_older_files(tmp_path: Path) -> None:
    """Before scale_decoder_outputs was written, the tie said whether the head's input is scaled."""
    for shape, tied in (("1.0", True), ("1.1", False)):
        path = tmp_path / shape
        other = theirs(SHAPES[shape], path)
        config = json.loads((path / "config.json").read_text())
        del config["scale_decoder_outputs"], config["dense_act_fn"], config["is_gated_act"]
        (path / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": tied}))
        model = headway.load(path).model
        assert model.config.tied is tied and (model.config.head_scale == 1.0) is not tied
        source, target = torch.randint(0, 53, (2, 5)).unbind()
        assert close(model(source[None], target[None])[0], logits(other, source, target))


def test_a_tied_head_without_scale(tmp_path: Path) -> None:
    """What a release without untied heads saves of a new model of version 1.1: one tensor, no scale."""
    torch.manual_seed(1)
    other = T5ForConditionalGeneration(T5Config(**SIZES, tie_word_embeddings=False)).eval()
    other.save_pretrained(tmp_path / "theirs")
    model = headway.load(tmp_path / "theirs").model
    assert model.config.tied and model.config.head_scale == 1.0
    assert model.config.special.start == 0  # padding, where nobody says
    same_under_padding(other, model, "left", "left")
    same_after_saving(other, model, tmp_path / "ours")


def test_the_head_of_mt5_is_the_one_in_the_file(tmp_path: Path) -> None:
    """Without one it is the embedding, and its input is not scaled, whatever config.json says of the tie."""
    torch.manual_seed(1)
    other = MT5ForConditionalGeneration(MT5Config(**SIZES)).eval()
    other.save_pretrained(tmp_path / "theirs")
    edit(tmp_path / "theirs", {"tie_word_embeddings": False})
    model = headway.load(tmp_path / "theirs").model
    assert model.config.tied and model.config.head_scale == 1.0 and model.config.family == "mt5"
    assert model.config.encoder.block.feedforward.gated and model.config.special.start == 0
    same_under_padding(other, model, "left", "left")
    same_after_saving(other, model, tmp_path / "ours")


UNREAD = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"


def test_names_of_old_files_are_explained(tmp_path: Path) -> None:
    other = theirs(SHAPES["1.0"], tmp_path)
    shared = other.shared.weight.detach()
    extra = {"encoder.embed_tokens.weight": shared, "decoder.embed_tokens.weight": shared.clone(),
             "lm_head.weight": shared.clone(), UNREAD: torch.zeros(8, 3)}  # fmt: skip
    edit(tmp_path, **extra)
    receipt = headway.load(tmp_path).receipt
    assert receipt.unused == (UNREAD,) and len(receipt.tied) == 3


@pytest.mark.parametrize(
    ("config", "tensors", "sentence"),
    [
        ({"feed_forward_proj": "mish", "dense_act_fn": "mish"}, {}, "no activation 'mish'"),
        ({"dense_act_fn": "gelu"}, {}, "feed_forward_proj='relu' means dense_act_fn='relu'"),
        ({"is_encoder_decoder": False}, {}, "is_encoder_decoder=False"),
        ({"tie_word_embeddings": False}, {}, "lacks 'lm_head.weight'"),
        ({"bad_words_ids": [[3, 5]]}, {}, "bad_words_ids=[[3, 5]]"),
        ({"forced_eos_token_id": [1, 2]}, {}, "forced_eos_token_id=[1, 2]"),
        ({}, {"lm_head.weight": torch.zeros(53, 17)}, "ties 'lm_head.weight' to 'shared.weight'"),
        ({}, {"decoder.block.2.layer.1.EncDecAttention.q.weight": None}, "EncDecAttention.q.weight"),
        ({"num_heads": 5}, {}, "has shape"),
    ],
)
def test_what_cannot_be_honoured_is_refused(tmp_path: Path, config: dict, tensors: dict, sentence: str) -> None:
    theirs(SHAPES["1.0"], tmp_path)
    edit(tmp_path, config, **tensors)
    with pytest.raises(ValueError, match=sentence.replace("[", r"\[")):
        headway.load(tmp_path)
