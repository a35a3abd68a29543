"""A step of adapters alone: what is trained by hand, and every count beside the real model."""

import json

import pytest

from headway.cli import main
from headway.config.train import LoraConfig
from headway.cost.price import price
from headway.cost.verify import verify

LORA = LoraConfig(rank=3, on=("query", "value", "down"))


def small():
    import headway as hw

    sizes = dict(layers=5, width=28, heads=2, kv_heads=1, hidden=37, vocabulary=101, length=23)
    return hw.build("tinyllama", **sizes).config


def test_what_is_trained_by_hand() -> None:
    sheet, plain = (price(small(), batch=2, length=17, lora=lora) for lora in (LORA, None))
    trained = 5 * 3 * ((28 + 28) + (28 + 14) + (37 + 28))  # query; value of one head; down
    assert sheet.memory.gradients == 4 * trained and sheet.memory.optimiser == 8 * trained
    assert sheet.memory.weights == plain.memory.weights + 4 * trained
    assert sheet.memory.peak_step < plain.memory.peak_step
    assert plain.phases["forward"] == sheet.phases["forward"]
    assert sheet.phases["backward"].dense < plain.phases["backward"].dense
    assert f"{trained:,} parameters are trained" in sheet.notes[0]


def test_every_count_beside_the_real_model() -> None:
    found = {one.name: one for one in verify(price(small(), batch=2, length=17, lora=LORA))}
    for name in ("trained parameters", "parameters", "dense forward", "dense backward"):
        assert found[name].predicted == found[name].measured, name
    for name in ("saved activations", "peak of a pass and its way back"):
        assert found[name].ratio == pytest.approx(1.0, abs=0.1), name


def test_on_the_command_line(capsys) -> None:
    assert main(["cost", "gpt2", "--length", "16", "--lora.rank", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memory"]["gradients"] == 4 * 12 * 8 * 4 * 768
    assert main(["cost", "gpt2", "--lora.on", "query"]) == 2
    assert "with --lora.rank of at least 1" in capsys.readouterr().err
    assert main(["cost", "gpt2", "--lora.rank", "8", "--weights", "int8"]) == 2
    assert "adapters are trained on floating-point weights" in capsys.readouterr().err
