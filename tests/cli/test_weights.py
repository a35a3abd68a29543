"""`--weights` of the verbs that load a model, and GGUF files where a model is named."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

import headway as hw
from headway.cli import main
from headway.config.train import ModelChoice, TokenizerConfig
from headway.data.tokenizer_training import train_tokenizer
from headway.presets.sized import sized_language
from tests.fresh import fresh
from tests.hub.test_gguf import write

TEXT = "The café is closed. It opens at seven.\n" * 7


@pytest.fixture
def place(tmp_path: Path) -> Path:
    tokenizer = train_tokenizer([TEXT], TokenizerConfig(kind="byte"), task="language")
    config = sized_language(ModelChoice(layers=2, width=64, heads=2), vocabulary=tokenizer.size, length=32)
    hw.save(fresh(config, std=0.2), tmp_path / "model", tokenizer=tokenizer)
    (tmp_path / "x.txt").write_text(TEXT)
    return tmp_path


def test_eval_prints_the_loss_beside_that_of_the_weights_as_they_are(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, text = str(place / "model"), str(place / "x.txt")
    assert main(["eval", model, text, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert main(["eval", model, text, "--weights", "int4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["not_quantised"]["loss"] == plain["loss"] and "not_quantised" not in plain
    assert 0 < abs(found["loss"] - plain["loss"]) < 0.3 * plain["loss"]
    assert main(["eval", model, text, "--weights", "int8"]) == 0
    out = capsys.readouterr().out
    assert "not quantised" in out and f"{plain['loss']:.4f}" in out


def test_convert_writes_what_every_verb_reads(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, small = str(place / "model"), str(place / "small")
    assert main(["convert", model, small, "--weights", "int4", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["weights"] == "int4" and "written in float32 with int4 weights" in said.err
    assert json.loads(said.out)["hash"][:12] == hw.load(small).receipt.hash[:12]
    with safe_open(place / "small" / "model.safetensors", "pt") as file:
        assert file.get_tensor("stack.blocks.0.attention.out.weight").dtype == torch.uint8
    for verb in (["generate", small, "--prompt", "The", "--max-new-tokens", "5"],
                 ["generate", model, "--weights", "int4", "--prompt", "The", "--max-new-tokens", "5"]):  # fmt: skip
        assert main(verb) == 0
    first = capsys.readouterr().out
    assert len(set(first.splitlines())) >= 1
    texts = [hw.generate(hw.load(*one).model, "The", max_new_tokens=5).tokens for one in ((small,),)]
    assert texts[0] == hw.generate(hw.load(model, weights="int4").model, "The", max_new_tokens=5).tokens
    assert main(["info", small]) == 0
    told = capsys.readouterr().out
    assert "int4 and float32" in told and "in int4" in told
    assert main(["convert", small, str(place / "floats"), "--weights", "float"]) == 0
    assert hw.generate(hw.load(place / "floats").model, "The", max_new_tokens=5).tokens == texts[0]
    assert hw.load(place / "floats").model.config.weights is None
    assert main(["convert", model, str(place / "again"), "--weights", "float"]) == 2
    assert "has floating-point weights already" in capsys.readouterr().err
    assert main(["convert", small, str(place / "again"), "--weights", "int8"]) == 2
    assert "stored as int4 already" in capsys.readouterr().err


def test_a_wrong_name_and_a_quantised_start_are_one_sentence(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(place / "model"), "--prompt", "The", "--weights", "int3"]) == 2
    assert "int8" in capsys.readouterr().err
    assert main(["convert", str(place / "model"), str(place / "small"), "--weights", "int8"]) == 0
    capsys.readouterr()
    run = ["train", str(place / "x.txt"), "--out", str(place / "run"), "--model.start", str(place / "small")]
    assert main([*run, "--steps", "1"]) == 2
    assert "cannot be trained" in capsys.readouterr().err


def test_the_audit_names_the_maps_that_lose_most(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(place / "model"), "--weights", "int4", "--laws", "dtype", "--quick", "--json"]) == 0
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert "lose most by rounding" in finding["why"] and "4 bits" in finding["why"]


def test_verbs_read_gguf_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "model.gguf", "llama", "q8_0")
    (tmp_path / "x.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 9)
    file = str(tmp_path / "model.gguf")
    assert main(["generate", file, "--prompt", "the quick", "--max-new-tokens", "4"]) == 0
    assert main(["info", file]) == 0
    assert "q8_0" in capsys.readouterr().out
    assert main(["eval", file, str(tmp_path / "x.txt"), "--json"]) == 0
    loss = json.loads(capsys.readouterr().out)["loss"]
    assert main(["convert", file, str(tmp_path / "saved")]) == 0
    assert main(["eval", str(tmp_path / "saved"), str(tmp_path / "x.txt"), "--json"]) == 0
    captured = capsys.readouterr().out
    assert json.loads(captured)["loss"] == loss
    assert main(["cost", file, "--json"]) == 0
    (tmp_path / "bad.gguf").write_bytes(b"GGUF")
    capsys.readouterr()
    assert main(["generate", str(tmp_path / "bad.gguf"), "--prompt", "a"]) == 2
    assert "is no GGUF file that can be read" in capsys.readouterr().err


def test_cost_knows_the_bytes_of_quantised_weights(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "gpt2", "--length", "8", "--weights", "int8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    # 12 layers of 12 x 768² weights, and the head, in 8 bits with a float32 scale an output; embeddings, norms, biases.
    maps = 12 * (12 * 768**2 + 4 * (3 * 768 + 768 + 4 * 768 + 768)) + 50257 * (768 + 4)
    floats = 4 * (124_439_808 - 12 * 12 * 768**2)
    assert found["memory"]["weights"] == found["quantized"]["bytes"] == maps + floats
    assert found["quantized"]["read"] == maps + floats - 4 * 768 * (50257 + 1024)
    assert found["params"] == 124_439_808
    assert main(["convert", str(place / "model"), str(place / "small"), "--weights", "int4"]) == 0
    capsys.readouterr()
    assert main(["cost", str(place / "small"), "--json"]) == 0
    stored = json.loads(capsys.readouterr().out)["quantized"]
    assert main(["cost", str(place / "model"), "--weights", "int4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["quantized"] == stored
    files = (place / "small" / "model.safetensors").stat().st_size
    assert 0 < files - stored["bytes"] < 20_000
    assert main(["cost", "gpt2", "--length", "8", "--weights", "int4"]) == 0
    assert "int4 weights:" in capsys.readouterr().out
