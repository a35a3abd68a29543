"""Tokenizers as published: directories without tokenizer.json, and files that leave the special tokens unsaid."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Engine
from transformers import BartTokenizer, BertTokenizer, GPT2Tokenizer

from headway.data.tokenizer import Tokenizer

TEXTS = [
    "Hello, world!", "the  theme thing's café", "Ünïcödé 你好 naïve", " spaces before\nand lines", "don't stop 123",
    "a [MASK] here", "an <mask> here", "end<|endoftext|>begin", "</s> inside", "",
]  # fmt: skip
CORPUS = ["the theme of a thing, hello world", "don't stop; naïve café", "Hello there 123 世界"] * 3


def byte_pairs(place: Path, special: list[str]) -> Path:
    """vocab.json and merges.txt, as GPT-2 and BART have them."""
    engine = Engine(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet)
    engine.train_from_iterator(CORPUS, trainer)
    engine.model.save(str(place))
    return place


def word_pieces(place: Path) -> Path:
    letters = "abcdefghijklmnopqrstuvwxyz0123456789',.!;[]<>|/é你好üïHÜ"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##me", "hello", "thing", "cafe", "café", "mask"]
    everything = list(dict.fromkeys([*words, *letters, *(f"##{letter}" for letter in letters)]))
    (place / "vocab.txt").write_text("\n".join(everything) + "\n", encoding="utf-8")
    return place


def same(place: Path, theirs: Any) -> None:
    ours = Tokenizer.read(place)
    assert ours is not None
    for text in TEXTS:
        ids = theirs(text)["input_ids"]
        assert ours.encode(text) == ids, text
        assert ours.encode(text, special=False) == theirs(text, add_special_tokens=False)["input_ids"], text
        decoded = theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        assert ours.decode(ids) == decoded, text
    pair = theirs("the theme", "hello")
    assert ours.encode("the theme", "hello") == pair["input_ids"]
    for name, number in (("mask", theirs.mask_token_id), ("pad", theirs.pad_token_id)):
        assert getattr(ours, name) == number, name
    assert ours.end in (theirs.eos_token_id, theirs.sep_token_id)
    assert ours.begin in (theirs.bos_token_id, theirs.cls_token_id)


def settings(place: Path, **said: object) -> None:
    (place / "tokenizer_config.json").write_text(json.dumps(said))


@pytest.mark.parametrize("stated", [{}, {"model_max_length": 1024}, {"tokenizer_class": "GPT2Tokenizer"}], ids=repr)
def test_gpt2_without_tokenizer_json(tmp_path: Path, stated: dict) -> None:
    byte_pairs(tmp_path, ["<|endoftext|>"])
    settings(tmp_path, **stated)
    same(tmp_path, GPT2Tokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")))


@pytest.mark.parametrize("stated", [{}, {"tokenizer_class": "BartTokenizer"}, {"add_prefix_space": True}], ids=repr)
def test_bart_without_tokenizer_json(tmp_path: Path, stated: dict) -> None:
    byte_pairs(tmp_path, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    settings(tmp_path, **stated)
    prefix = bool(stated.get("add_prefix_space"))
    files = (str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    mask: Any = AddedToken("<mask>", lstrip=True)  # so says the tokenizer.json of facebook/bart-base
    same(tmp_path, BartTokenizer(*files, add_prefix_space=prefix, mask_token=mask))


@pytest.mark.parametrize(
    "stated",
    [
        {},
        {"do_lower_case": True, "model_max_length": 512},
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": False},
    ],
    ids=repr,
)
def test_bert_without_tokenizer_json(tmp_path: Path, stated: dict) -> None:
    word_pieces(tmp_path)
    settings(tmp_path, **stated)
    same(tmp_path, BertTokenizer.from_pretrained(tmp_path))


def test_a_vocabulary_that_is_cut_in_another_way_is_not_taken_for_gpt2s(tmp_path: Path) -> None:
    byte_pairs(tmp_path, ["<|endoftext|>"])
    settings(tmp_path, tokenizer_class="Qwen2Tokenizer", eos_token="<|endoftext|>")
    assert Tokenizer.read(tmp_path) is None
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "vocab.txt").write_text("<s>\n<pad>\n</s>\n[UNK]\na\n")  # MPNet's
    assert Tokenizer.read(tmp_path / "words") is None


def test_special_tokens_that_no_file_names_are_the_usual_ones(tmp_path: Path) -> None:
    """bert-base-uncased: tokenizer.json, and a tokenizer_config.json of two words."""
    word_pieces(tmp_path)
    BertTokenizer.from_pretrained(tmp_path).backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    settings(tmp_path, do_lower_case=True, model_max_length=512)
    found = Tokenizer.read(tmp_path)
    assert found is not None and (found.pad, found.begin, found.end, found.mask) == (0, 2, 3, 4)


def test_a_special_token_that_a_file_leaves_out_is_left_out(tmp_path: Path) -> None:
    """Llama-2: words for begin and end, switches whose names end alike, and no padding."""
    engine = Engine(models.BPE({"<unk>": 0, "<s>": 1, "</s>": 2, "▁a": 3, "<pad>": 4}, []))
    engine.add_special_tokens(["<unk>", "<s>", "</s>", "<pad>"])
    engine.decoder = decoders.Metaspace()
    engine.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    engine.save(str(tmp_path / "tokenizer.json"))
    content = {"__type": "AddedToken", "content": "<s>", "lstrip": False, "normalized": False, "rstrip": False}
    settings(
        tmp_path, add_bos_token=True, add_eos_token=False, bos_token=content, eos_token=content | {"content": "</s>"},
        clean_up_tokenization_spaces=False, legacy=False, model_max_length=10**30, pad_token=None, padding_side="right",
        sp_model_kwargs={}, tokenizer_class="LlamaTokenizer", unk_token=content | {"content": "<unk>"},
    )  # fmt: skip
    found = Tokenizer.read(tmp_path)
    assert found is not None and (found.pad, found.begin, found.end, found.mask) == (None, 1, 2, None)
    assert set(found.special) == {"bos_token", "eos_token", "unk_token"}


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize(
    "stated", [{"do_lower_case": True}, {"do_lower_case": False}, {"strip_accents": False}], ids=repr
)
def test_what_tokenizer_config_says_of_letters_comes_before_tokenizer_json(
    tmp_path: Path, stated: dict, written: bool
) -> None:
    word_pieces(tmp_path)
    BertTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=written).backend_tokenizer.save(
        str(tmp_path / "tokenizer.json")
    )
    stated = {"tokenizer_class": "BertTokenizer", "do_lower_case": written} | stated
    settings(tmp_path, **stated)
    same(tmp_path, BertTokenizer.from_pretrained(tmp_path))
