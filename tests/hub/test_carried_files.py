"""What comes with a model goes with it: through convert, save and train, as files that other libraries read."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

import headway as hw
from headway.cli import main
from tests.data.chat_templates import CHATML
from tests.data.test_chat import engine

CARD = """---
license: other
license_name: tiny-licence
language:
- en
tags: [chat]
---
# Tiny
Made for a test — with care.
"""
DEFAULTS = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "repetition_penalty": 1.1, "num_beams": 1}


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A directory as people publish it: files that headway reads, files that it does not, and rubbish."""
    place = tmp_path / "published"
    words = PreTrainedTokenizerFast(
        tokenizer_object=engine(), bos_token="<s>", eos_token="<|im_end|>", model_max_length=77, padding_side="left",
        clean_up_tokenization_spaces=True, extra_special_tokens=["<|im_start|>"],
    )  # fmt: skip
    words.chat_template = CHATML
    words.save_pretrained(place)
    numbers = dict(bos_token_id=words.bos_token_id, eos_token_id=[words.eos_token_id, 2], pad_token_id=0)
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=12, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
        intermediate_size=20, max_position_embeddings=77, tie_word_embeddings=True, initializer_range=0.017, **numbers,
    )  # fmt: skip
    torch.manual_seed(3)
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(**DEFAULTS, **numbers)
    model.save_pretrained(place)
    said = json.loads((place / "config.json").read_text())
    said |= {"use_cache": False, "auto_map": {"AutoModel": "modeling_tiny.Tiny"}, "my_note": {"a": [1, 2]}}
    (place / "config.json").write_text(json.dumps(said))
    (place / "README.md").write_text(CARD)
    (place / "LICENSE.txt").write_text("You may.")
    (place / "USE_POLICY.md").write_text("Be kind.")
    (place / "NOTICE").write_text("Notice.")
    (place / "modeling_tiny.py").write_text("raise SystemExit")
    (place / "pytorch_model.bin").write_bytes(b"pickle")
    (place / "onnx").mkdir()
    (place / "onnx" / "model.onnx").write_bytes(b"x")
    return place


ABOUT = ("README.md", "LICENSE.txt", "USE_POLICY.md", "NOTICE")
WORDS = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def test_convert_keeps_what_people_published(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(published), str(tmp_path / "new"), "--dtype", "bfloat16", "--json"]) == 0
    shown = capsys.readouterr()
    new, files = tmp_path / "new", json.loads(shown.out)["files"]
    for name in (*ABOUT, *WORDS):
        assert (new / name).read_bytes() == (published / name).read_bytes(), name
        assert name in files["carried"]
    assert sorted(files["dropped"]) == ["modeling_tiny.py", "onnx/", "pytorch_model.bin"]
    assert "config.json (without auto_map)" in files["changed"]
    assert "dropped modeling_tiny.py, onnx/, pytorch_model.bin" in shown.err
    before, after = (json.loads((place / "config.json").read_text()) for place in (published, new))
    kept = {key: value for key, value in before.items() if key not in ("auto_map", "dtype", "torch_dtype")}
    assert after | kept | {"dtype": "bfloat16"} == after
    assert json.loads((new / "generation_config.json").read_text()).items() >= DEFAULTS.items()
    # What transformers makes of both is the same.
    one, other = (AutoTokenizer.from_pretrained(place) for place in (published, new))
    talk = [{"role": "user", "content": "the quick brown fox"}]
    assert one.apply_chat_template(talk) == other.apply_chat_template(talk)
    assert (one.special_tokens_map, one.model_max_length, one.padding_side) == (
        other.special_tokens_map, other.model_max_length, other.padding_side,
    )  # fmt: skip
    assert AutoConfig.from_pretrained(new).initializer_range == 0.017
    theirs = GenerationConfig.from_pretrained(new)
    assert (theirs.temperature, theirs.top_p, theirs.repetition_penalty) == (0.6, 0.9, 1.1)
    assert AutoModelForCausalLM.from_pretrained(new).dtype == torch.bfloat16


def test_the_receipt_of_a_load_says_what_is_followed(published: Path, tmp_path: Path) -> None:
    model, tokenizer, receipt = hw.load(published)
    assert "decodes with top_p=0.9, repetition_penalty=1.1, temperature=0.6" in str(receipt)
    hw.save(model, tmp_path / "again")
    again = hw.load(tmp_path / "again")
    assert again.model.generation_defaults == model.generation_defaults
    assert again.tokenizer is not None and tokenizer is not None
    assert again.tokenizer.chat_template == tokenizer.chat_template == CHATML
    assert again.receipt.hash == receipt.hash


def test_weights_in_fewer_bits_keep_the_files_too(published: Path, tmp_path: Path) -> None:
    """The layout is another, so config.json cannot say what it said; the rest is the same."""
    assert main(["convert", str(published), str(tmp_path / "int8"), "--weights", "int8"]) == 0
    for name in (*ABOUT, *WORDS):
        assert (tmp_path / "int8" / name).read_bytes() == (published / name).read_bytes()
    model = hw.load(tmp_path / "int8").model
    assert model.generation_defaults is not None and model.generation_defaults.options["temperature"] == 0.6
    assert "my_note" not in json.loads((tmp_path / "int8" / "config.json").read_text())


def test_what_has_changed_is_not_put_back(published: Path, tmp_path: Path) -> None:
    model, tokenizer, _ = hw.load(published)
    assert tokenizer is not None
    tokenizer.chat_template = "{{ messages[0].content }}"
    carried = hw.save(model, tmp_path / "template")
    assert "chat_template.jinja" in carried.changed or "chat_template.jinja" in carried.dropped
    assert AutoTokenizer.from_pretrained(tmp_path / "template").chat_template == "{{ messages[0].content }}"
    again = hw.load(tmp_path / "template").tokenizer
    assert again is not None and again.chat_template == "{{ messages[0].content }}"
    assert AutoTokenizer.from_pretrained(tmp_path / "template").model_max_length == 77

    model, tokenizer, _ = hw.load(published)
    assert tokenizer is not None
    tokenizer.engine.add_tokens([AddedToken("<new>", normalized=False)])
    assert "tokenizer.json" in hw.save(model, tmp_path / "token").changed
    again = hw.load(tmp_path / "token").tokenizer
    assert again is not None and again.engine.token_to_id("<new>") is not None

    model, _, _ = hw.load(published)
    model.config = model.config.replace(length=50)
    carried = hw.save(model, tmp_path / "shorter")
    said = json.loads((tmp_path / "shorter" / "config.json").read_text())
    assert said["max_position_embeddings"] == 50 and "my_note" not in said
    assert any(name.startswith("config.json (without") for name in carried.changed)
    model, _, _ = hw.load(published)
    model.generation_defaults = None
    hw.save(model, tmp_path / "plain")
    assert "temperature" not in json.loads((tmp_path / "plain" / "generation_config.json").read_text())


def test_a_directory_that_is_gone_is_said(published: Path, tmp_path: Path) -> None:
    model = hw.load(published).model
    shutil.rmtree(published)
    carried = hw.save(model, tmp_path / "new")
    assert carried.dropped == (f"all that came with it, since {published} is gone",)
    assert hw.load(tmp_path / "new").tokenizer is not None


def test_what_was_carried_may_be_written_over_and_what_was_edited_not(published: Path, tmp_path: Path) -> None:
    model = hw.load(published).model
    hw.save(model, tmp_path / "new")
    hw.save(model, tmp_path / "new", overwrite=True)
    assert (tmp_path / "new" / "LICENSE.txt").read_text() == "You may."
    (tmp_path / "new" / "LICENSE.txt").write_text("You may not.")
    with pytest.raises(ValueError, match=r"holds LICENSE\.txt, which is no file of a model and would be lost"):
        hw.save(model, tmp_path / "new", overwrite=True)


def test_a_link_out_of_the_directory_is_followed_and_a_pipe_is_refused(published: Path, tmp_path: Path) -> None:
    """Caches of model hubs are made of links."""
    import os

    shutil.move(published / "LICENSE.txt", tmp_path / "blob")
    (published / "LICENSE.txt").symlink_to(tmp_path / "blob")
    hw.save(hw.load(published).model, tmp_path / "new")
    assert (tmp_path / "new" / "LICENSE.txt").read_text() == "You may."
    assert not (tmp_path / "new" / "LICENSE.txt").is_symlink()
    (published / "LICENSE.txt").unlink()
    os.mkfifo(published / "LICENSE.txt")
    with pytest.raises(ValueError, match="is a pipe, and a regular file is expected"):
        hw.save(hw.load(published).model, tmp_path / "other")


def test_a_model_that_is_trained_keeps_template_settings_and_licence(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "book.txt").write_text("the quick brown fox jumps over the lazy dog; " * 60)
    call = ["train", str(tmp_path / "book.txt"), "--out", str(tmp_path / "run"), "--model.start", str(published)]
    small = ["--steps", "2", "--batch", "2", "--length", "16", "--samples", "0", "--evaluate-every", "2"]
    assert main([*call, *small]) == 0
    assert "of published: carried" in capsys.readouterr().err
    place = tmp_path / "run" / "model"
    model, tokenizer, _ = hw.load(tmp_path / "run")
    assert tokenizer is not None and tokenizer.chat_template == CHATML
    assert model.generation_defaults is not None and model.generation_defaults.options["temperature"] == 0.6
    assert (place / "LICENSE.txt").read_text() == "You may."
    assert (place / "README.base.md").read_text() == CARD
    new = (place / "README.md").read_text()
    assert "license_name: tiny-licence" in new and "trained from published" in new and str(tmp_path) not in new
    assert (place / "tokenizer_config.json").read_bytes() == (published / "tokenizer_config.json").read_bytes()
    # The same for a model that is given as an object, and kept in the run as its start.
    run = hw.train(
        hw.load(published).model, tmp_path / "book.txt", out=tmp_path / "second", steps=2, batch=2, length=16, samples=0
    )
    assert run.tokenizer is not None and run.tokenizer.chat_template == CHATML
    assert (tmp_path / "second" / "model" / "LICENSE.txt").read_text() == "You may."
    assert (tmp_path / "second" / "model" / "README.base.md").exists()


def test_a_card_that_headway_wrote_of_itself_is_written_anew(tmp_path: Path) -> None:
    text = "the quick brown fox jumps over the lazy dog; " * 60
    (tmp_path / "book.txt").write_text(text)
    hw.save(hw.build("gpt2", layers=1, width=8, heads=2, vocabulary=31, length=16), tmp_path / "plain")
    hw.save(hw.load(tmp_path / "plain").model, tmp_path / "copied")
    assert "# copied" in (tmp_path / "copied" / "README.md").read_text()
    model = hw.build("gpt2", layers=1, width=8, heads=2, vocabulary=64, length=16)
    small: dict[str, Any] = {"tokenizer": "character", "steps": 2, "batch": 2, "length": 16, "samples": 0}
    run = hw.train(model, tmp_path / "book.txt", out=tmp_path / "run", **small)
    assert run.tokenizer is not None
    assert not (tmp_path / "run" / "model" / "README.base.md").exists()


def test_float16_says_what_it_became(published: Path, tmp_path: Path) -> None:
    assert main(["convert", str(published), str(tmp_path / "half"), "--dtype", "float16"]) == 0
    receipt = hw.load(tmp_path / "half").receipt
    assert (receipt.dtype, receipt.stored) == ("float32", "float16")
    assert "parameters in float32 (stored as float16); tensors" in str(receipt)
    assert hw.load(tmp_path / "half", dtype="bfloat16").receipt.stored == "float16"
    assert hw.load(published).receipt.stored == ""
    saved: dict[str, Any] = json.loads((tmp_path / "half" / "config.json").read_text())
    assert saved["dtype"] == "float16"
