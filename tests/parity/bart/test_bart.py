"""BART, Marian, mBART, Pegasus and M2M-100 beside transformers: padding, caches, and the way back."""

import json
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    BartConfig,
    BartModel,
    M2M100Config,
    MarianConfig,
    MBartConfig,
    PegasusConfig,
    PreTrainedConfig,
    PreTrainedModel,
)

import headway
from headway.config.text import Forced
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
    unpadded,
)

SIZES = dict(encoder_layers=2, decoder_layers=3, encoder_attention_heads=2, decoder_attention_heads=3,
             encoder_ffn_dim=19, decoder_ffn_dim=29)  # fmt: skip
BART = dict(vocab_size=53, d_model=18, max_position_embeddings=23, **SIZES)
MARIAN = dict(vocab_size=59, d_model=24, max_position_embeddings=31, pad_token_id=58, decoder_start_token_id=58,
              activation_function="swish", scale_embedding=True, **SIZES)  # fmt: skip
SHAPES = {
    "bart": BartConfig(**BART),
    "mbart": MBartConfig(scale_embedding=True, decoder_start_token_id=50, **BART),
    "pegasus": PegasusConfig(vocab_size=43, d_model=30, max_position_embeddings=29, activation_function="relu",
                             scale_embedding=True, **SIZES),
    "m2m_100": M2M100Config(vocab_size=47, d_model=36, max_position_embeddings=37, **SIZES),
    "marian": MarianConfig(**MARIAN),
    "marian-two": MarianConfig(decoder_vocab_size=61, share_encoder_decoder_embeddings=False, **MARIAN),
    "marian-untied": MarianConfig(
        decoder_vocab_size=61, share_encoder_decoder_embeddings=False, tie_word_embeddings=False, **MARIAN
    ),
}  # fmt: skip


def theirs(config: PreTrainedConfig, path: Path) -> PreTrainedModel:
    torch.manual_seed(1)
    model = AutoModelForSeq2SeqLM.from_config(config).eval()
    fixed = {key: held.clone() for key, held in model.named_parameters() if not held.requires_grad}
    shake(model)
    with torch.no_grad():
        for key, held in fixed.items():  # sinusoids
            model.get_parameter(key).copy_(held)
        if config.model_type != "m2m_100":
            model.final_logits_bias.normal_()
    model.save_pretrained(path)
    return model


@pytest.fixture(scope="module", params=["bart", "marian", "marian-untied", "mbart", "pegasus", "m2m_100"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("theirs")
    return theirs(SHAPES[request.param], path), headway.load(path).model


def test_logits_and_hidden_states(pair) -> None:
    other, model = pair
    same_states(other, model, other.model.encoder.layers, other.model.decoder.layers)


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
    for key in ("decoder_start_token_id", "eos_token_id", "pad_token_id", "bos_token_id", "forced_eos_token_id"):
        assert getattr(again.config, key, None) == getattr(other.config, key, None)


def test_the_comparison_can_fail(pair) -> None:
    other, model = pair
    names = ["tokens.weight", "encoder.blocks.1.attention_norm.bias", "decoder.blocks.2.cross.key.weight",
             "decoder.blocks.0.feedforward.up.bias", "decoder.blocks.1.feedforward_norm.weight"]  # fmt: skip
    if model.head_bias is not None:
        names += ["head_bias"]
    if model.config.encoder.final_norm:
        names += ["encoder.norm.bias", "decoder.norm.weight"]
    if model.config.positions == "learned":
        names += ["source_entrance.positions.weight", "target_entrance.positions.weight", "target_entrance.norm.bias"]
    if model.target_tokens is not None:
        names += ["target_tokens.weight"]
    can_fail(other, model, names if model.head is None else [*names, "head.weight"])


@pytest.mark.parametrize(
    "config", [BartConfig(scale_embedding=True, activation_function="relu", **BART), SHAPES["marian-two"]]
)
def test_further_shapes(tmp_path: Path, config: PreTrainedConfig) -> None:
    other = theirs(config, tmp_path / "theirs")
    model = headway.load(tmp_path / "theirs").model
    same_states(other, model, other.model.encoder.layers, other.model.decoder.layers)
    same_after_saving(other, model, tmp_path / "ours")


@torch.no_grad()
def test_a_bare_bart_has_a_tied_head_and_no_bias(tmp_path: Path) -> None:
    torch.manual_seed(1)
    bare = BartModel(SHAPES["bart"]).eval()
    shake(bare)
    bare.save_pretrained(tmp_path / "theirs")
    model = headway.load(tmp_path / "theirs").model
    assert model.head_bias is None
    other = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "theirs").eval()
    same_under_padding(other, model, "left", "right")
    same_after_saving(other, model, tmp_path / "ours")


def test_sinusoids_of_old_files_are_made_anew(tmp_path: Path) -> None:
    other = theirs(SHAPES["marian"], tmp_path)
    held = [other.model.encoder.embed_positions.weight, other.model.decoder.embed_positions.weight]
    names = ["model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"]
    edit(tmp_path, **{name: table.detach().clone() for name, table in zip(names, held, strict=True)})
    model, _, receipt = headway.load(tmp_path)
    assert sorted(receipt.unused) == sorted(names)
    # The sinusoids themselves, to the last position.
    made = model.source_entrance.positions(torch.zeros(1, 31, 24), torch.arange(31)[None])[0]
    assert torch.allclose(made, held[0], atol=1e-6)


def test_names_of_old_files_are_explained(tmp_path: Path) -> None:
    other = theirs(SHAPES["bart"], tmp_path)
    shared = other.model.shared.weight.detach()
    tied = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    edit(tmp_path, **{name: shared.clone() for name in tied}, **{"model.encoder.version": torch.zeros(1)})
    receipt = headway.load(tmp_path).receipt
    assert receipt.unused == ("model.encoder.version",) and set(receipt.tied) == set(tied)


def test_forced_tokens_are_kept(tmp_path: Path) -> None:
    theirs(SHAPES["marian"], tmp_path / "theirs")
    edit(tmp_path / "theirs", {"bad_words_ids": [[58], [3]], "forced_bos_token_id": 7})
    model = headway.load(tmp_path / "theirs").model
    assert model.config.forced == Forced(first=7, last=0, never=(58, 3))
    assert (model.config.special.start, model.config.special.end, model.config.special.pad) == (58, (0,), 58)
    headway.save(model, tmp_path / "ours")
    said = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert said["bad_words_ids"] == [[58], [3]] and said["forced_bos_token_id"] == 7
    assert headway.load(tmp_path / "ours").model.config == model.config


def test_old_bart_forces_its_first_token(tmp_path: Path) -> None:
    theirs(SHAPES["bart"], tmp_path)
    edit(tmp_path, {"force_bos_token_to_be_generated": True})
    assert headway.load(tmp_path).model.config.forced == Forced(first=0, last=2)


@pytest.mark.parametrize(
    ("name", "config", "sentence"),
    [
        ("bart", {"normalize_before": True}, "normalize_before=True"),
        ("bart", {"add_final_layer_norm": True}, "add_final_layer_norm=True"),
        ("bart", {"normalize_embedding": False}, "normalize_embedding=False"),
        ("bart", {"static_position_embeddings": True}, "static_position_embeddings=True"),
        ("bart", {"tie_word_embeddings": False}, "tie_word_embeddings=False"),
        ("bart", {"activation_function": "mish"}, "no activation 'mish'"),
        ("bart", {"decoder_attention_heads": 5}, "width 18 is not divisible by heads 5"),
        ("mbart", {"normalize_before": False}, "normalize_before=False"),
        ("mbart", {"normalize_embedding": False}, "normalize_embedding=False"),
        ("mbart", {"tie_word_embeddings": False}, "a mbart with one embedding for both languages"),
        ("pegasus", {"add_final_layer_norm": False}, "add_final_layer_norm=False"),
        ("pegasus", {"static_position_embeddings": False}, "static_position_embeddings=False"),
        ("m2m_100", {"pad_token_id": None}, "count from the number of the padding token"),
        ("marian", {"static_position_embeddings": False}, "static_position_embeddings=False"),
        ("marian", {"normalize_embedding": True}, "normalize_embedding=True"),
        ("marian", {"tie_word_embeddings": False}, "tie_word_embeddings=False"),
        ("marian", {"share_encoder_decoder_embeddings": False}, "lacks 'model.encoder.embed_tokens.weight'"),
        ("marian-two", {"decoder_vocab_size": 43}, "has shape"),
    ],
)
def test_what_cannot_be_honoured_is_refused(tmp_path: Path, name: str, config: dict, sentence: str) -> None:
    theirs(SHAPES[name], tmp_path)
    edit(tmp_path, config)
    with pytest.raises(ValueError, match=sentence):
        headway.load(tmp_path)


def test_a_layout_that_cannot_say_it_is_refused(tmp_path: Path) -> None:
    theirs(SHAPES["bart"], tmp_path / "theirs")
    model = headway.load(tmp_path / "theirs").model
    model.config = model.config.model_copy(update={"embedding_scale": 3.0})
    with pytest.raises(ValueError, match=r"no word for embedding_scale=3[.]0"):
        headway.save(model, tmp_path / "ours")


@torch.no_grad()
def test_past_the_last_position_is_refused(pair) -> None:
    other, model = pair
    length = model.config.length
    text = unpadded(model, torch.randint(0, 40, (length + 1,)))
    assert close(model(text[None, :-1], text[None, :-1])[0], logits(other, text[:-1], text[:-1]))
    with pytest.raises(ValueError, match=f"has {length} positions, and the text has a token at position {length}"):
        model.encode(text[None])
    session = model.session(text[None, :5])
    session.read(text[None, :-1])
    assert session.room == 0
    with pytest.raises(ValueError, match=f"has {length} positions"):
        session.read(text[None, -1:])
