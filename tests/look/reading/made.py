"""Tiny models of every kind with a tokenizer learnt on the spot, and the same of transformers."""

from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, pre_tokenizers, processors, trainers
from torch import nn

from headway.config.text import RecurrentConfig
from headway.config.train import TokenizerConfig
from headway.config.vision import DaViTConfig
from headway.data.text_pairs import seq2seq_special_tokens
from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_training import train_tokenizer
from headway.presets.bert import bert
from headway.presets.gpt2 import gpt2
from headway.presets.seq2seq import t5
from headway.presets.vision import vit
from tests.fresh import fresh

TEXTS = ["the cat sat on the mat.", "the dog didn't sleep", "naïve cats sleep 🙂", "a dog sat"]


@cache
def tokenizer(kind: Any, task: Any = "language") -> Tokenizer:
    return train_tokenizer(TEXTS, TokenizerConfig(kind=kind, vocabulary=313), task=task)


def language(**more: Any) -> tuple[Any, Tokenizer]:
    words = tokenizer("bpe")
    sizes: dict[str, Any] = {
        "width": 15,
        "layers": 2,
        "heads": 3,
        "hidden": 22,
        "vocabulary": words.size,
        "length": 31,
    } | more
    return fresh(gpt2(**sizes), std=0.3), words


def masked(**more: Any) -> tuple[Any, Tokenizer]:
    words = tokenizer("wordpiece", "masked")
    sizes = {"width": 15, "heads": 3, "layers": 2, "hidden": 22, "vocabulary": words.size, "length": 31}
    options: dict[str, Any] = sizes | {"words": True} | more
    return fresh(bert(**options), std=0.3), words


def seq2seq() -> tuple[Any, Tokenizer]:
    """A T5 whose targets begin with <|start|> and end with <|end|>."""
    words = tokenizer("bpe", "seq2seq")
    config = t5(width=14, layers=2, heads=2, hidden=13, head_width=5)
    return fresh(
        config.model_copy(update={"special": seq2seq_special_tokens(words), "vocabulary": words.size}), std=0.3
    ), words


def recurrent() -> tuple[Any, Tokenizer]:
    words = tokenizer("bpe", "seq2seq")
    config = RecurrentConfig(
        source_vocabulary=words.size, vocabulary=words.size, width=5, hidden=7, special=seq2seq_special_tokens(words)
    )
    return fresh(config, std=0.3), words


def vision() -> Any:
    return fresh(vit(width=15, heads=3, layers=2, hidden=22, image=(15, 20), patch=5, classes=7), std=0.3)


def davit() -> Any:
    return fresh(DaViTConfig(depths=(1, 1), widths=(6, 10), heads=(2, 2), image=(26, 18), window=3, classes=7), std=0.3)


def pieces(kind: str) -> Any:
    """A tokenizer of transformers'."""
    from transformers import PreTrainedTokenizerFast

    engine, roles = {"gpt2": _pairs, "bert": _words, "t5": _unigram}[kind]()
    return PreTrainedTokenizerFast(tokenizer_object=engine, **roles)


def _pairs() -> tuple[Engine, dict[str, str]]:
    end, level = "<|endoftext|>", pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine = Engine(models.BPE())
    engine.pre_tokenizer, engine.decoder = level, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=293, special_tokens=[end], initial_alphabet=level.alphabet())
    engine.train_from_iterator(TEXTS, trainer)
    return engine, {"bos_token": end, "eos_token": end, "unk_token": end}


def _words() -> tuple[Engine, dict[str, str]]:
    special = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
    engine = Engine(models.WordPiece(unk_token="[UNK]"))
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    engine.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=71, special_tokens=list(special.values())))
    engine.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return engine, special


def _unigram() -> tuple[Engine, dict[str, str]]:
    engine = Engine(models.Unigram())
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    words = ["<pad>", "</s>", "<unk>"]
    engine.train_from_iterator(TEXTS, trainers.UnigramTrainer(vocab_size=53, special_tokens=words, unk_token="<unk>"))
    engine.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return engine, {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}


def theirs(kind: str, attention: str = "sdpa") -> nn.Module:
    """A tiny random model of transformers'."""
    import transformers

    torch.manual_seed(3)
    how: dict[str, Any] = {"attn_implementation": attention}
    if kind == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=293, n_embd=12, n_layer=2, n_head=3, n_positions=29, initializer_range=0.3,
            bos_token_id=0, eos_token_id=0, **how,
        )  # fmt: skip
        return transformers.GPT2LMHeadModel(config)
    if kind == "bert":
        sizes: dict[str, Any] = {"vocab_size": 71, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
        return transformers.BertForMaskedLM(transformers.BertConfig(**sizes, intermediate_size=13, **how))
    if kind == "t5":
        config = transformers.T5Config(vocab_size=53, d_model=12, d_kv=4, d_ff=13, num_layers=2, num_heads=3)
        return transformers.T5ForConditionalGeneration(config)
    sizes = {"image_size": 15, "patch_size": 5, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
    return transformers.ViTForImageClassification(transformers.ViTConfig(**sizes, intermediate_size=13, **how))
