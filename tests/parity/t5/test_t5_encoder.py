"""T5's encoder alone beside transformers in float64: hidden states, padding, texts in one row, and the way back."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MT5Config, MT5EncoderModel, T5Config, T5EncoderModel, T5ForConditionalGeneration

import headway
from headway.cost.verify import verify
from headway.data.tokenizer import Tokenizer
from headway.hub.parts import parts_of
from headway.hub.sentence import mean_pooled
from headway.models.encoder import Masked
from tests.cli.test_embed import WORDS
from tests.parity.compare import close, outputs_of, ragged, shake
from tests.parity.seq2seq import edit

SIZES = dict(vocab_size=53, d_model=17, d_kv=5, d_ff=23, num_heads=3, num_layers=3)
KINDS = {
    "t5": lambda: T5EncoderModel(T5Config(relative_attention_num_buckets=8, **SIZES)),
    "mt5": lambda: MT5EncoderModel(MT5Config(relative_attention_max_distance=11, **SIZES)),
}
LENGTHS = [7, 13, 2]
NEAR = 1e-6  # their norms take the mean square in float32


def theirs(kind: str, path: Path) -> Any:
    torch.manual_seed(1)
    model = KINDS[kind]().double().eval()
    shake(model)
    model.save_pretrained(path)
    return model


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Masked]:
    path = tmp_path_factory.mktemp("theirs")
    return theirs(request.param, path), headway.load(path).model


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_hidden_states_with_padding_and_without(pair: tuple[Any, Masked], side: str) -> None:
    other, model = pair
    texts, tokens, keep = ragged(53, LENGTHS, side=side)
    padded = model(tokens, keep=keep)
    for row, text in enumerate(texts):
        found = outputs_of(model.stack.blocks, lambda: model(text[None]))  # noqa: B023 called at once
        expected = outputs_of(other.encoder.block, lambda: other(text[None]))  # noqa: B023
        assert len(found) == len(expected) == 3
        assert all(close(a, b, tolerance=NEAR) for a, b in zip(found, expected, strict=True))
        last = other(text[None]).last_hidden_state[0]
        assert close(model(text[None])[0], last, tolerance=NEAR)
        assert close(padded[row][keep[row]], last, tolerance=NEAR)


@torch.no_grad()
def test_texts_become_the_mean_of_their_tokens(pair: tuple[Any, Masked], tmp_path: Path) -> None:
    other, model = pair
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    (tmp_path / "tokenizer_config.json").write_text('{"cls_token": "[CLS]", "sep_token": "[SEP]"}')
    tokenizer = Tokenizer.read(tmp_path)
    assert tokenizer is not None
    texts = ragged(53, LENGTHS, side="right")[0]
    found = mean_pooled(model, tokenizer).encode([text.tolist() for text in texts])
    expected = torch.stack([other(text[None]).last_hidden_state[0].mean(0) for text in texts])
    assert close(found, expected, tolerance=NEAR)
    alone = other(torch.tensor([tokenizer.encode("the rain")])).last_hidden_state.mean(1)[0]
    assert close(headway.embed(model, "the rain", tokenizer=tokenizer), alone, tolerance=NEAR)


@torch.no_grad()
def test_what_is_saved_loads_there(pair: tuple[Any, Masked], tmp_path: Path) -> None:
    other, model = pair
    headway.save(model, tmp_path / "ours")
    again, report = type(other).from_pretrained(tmp_path / "ours", output_loading_info=True, dtype="auto")
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    text = ragged(53, [13], side="right")[0][0][None]
    assert close(again.eval()(text).last_hidden_state, other(text).last_hidden_state, tolerance=NEAR)
    assert headway.load(tmp_path / "ours").model.config == model.config


@torch.no_grad()
def test_a_changed_weight_is_seen(pair: tuple[Any, Masked]) -> None:
    other, model = pair
    text = ragged(53, [13], side="right")[0][0][None]
    expected = other(text).last_hidden_state
    for name in ("tokens.weight", "stack.bias.weight", "stack.norm.weight", "stack.blocks.2.feedforward.up.weight"):
        part = parts_of(model)[name]
        kept = part.clone()
        part += torch.linspace(0.05, 0.2, part.numel()).view_as(part)
        assert not close(model(text), expected, tolerance=1e-4), name
        part.copy_(kept)
    assert close(model(text), expected, tolerance=NEAR)


def test_its_price_is_counted(pair: tuple[Any, Masked]) -> None:
    checks = list(verify(headway.price(pair[1].config, batch=2, length=9)))
    assert not [one for one in checks if one.unit in ("parameters", "FLOPs") and one.difference]


def test_a_whole_t5_stays_one(tmp_path: Path) -> None:
    """Files with a decoder are read with it, whatever class config.json names; an encoder is not read as a whole T5."""
    T5ForConditionalGeneration(T5Config(**SIZES)).save_pretrained(tmp_path / "whole")
    edit(tmp_path / "whole", {"architectures": ["T5EncoderModel"]})
    assert headway.load(tmp_path / "whole").model.config.kind == "seq2seq"
    theirs("t5", tmp_path / "encoder")
    edit(tmp_path / "encoder", {"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True})
    with pytest.raises(ValueError, match=r"lacks 'decoder\."):
        headway.load(tmp_path / "encoder")
