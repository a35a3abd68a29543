"""Tiny sentence encoders as sentence-transformers makes them, and their words."""

from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as models
from transformers import BertConfig, BertModel, BertTokenizerFast

from tests.parity.compare import shake

VOCABULARY = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "of", "in", "on", "rain", "stone", "river", "runs",
    "falls", "over", "under", "##s", "##ing", "##ed", "very", "old", "new", "red", "green", ".", ",", "!", "?",
]  # fmt: skip
WIDTH, LENGTH = 22, 31
TEXTS = [
    "the rain falls.",
    "",
    "A very old river runs over the red stones, under the green stone!",
    "stone",
    "the rain falls on the stone, " * 9,
    "unheard words running in the rain?",
    "old, new: very very very very very old.",
]


def encoder(path: Path, *, limit: int | None = 13, **changes: Any) -> models.Transformer:
    """A random BERT in a directory of its own, as the first step."""
    path.mkdir(parents=True)
    (path / "vocab.txt").write_text("\n".join(VOCABULARY))
    tokenizer = BertTokenizerFast(str(path / "vocab.txt"), model_max_length=29)
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=WIDTH, num_attention_heads=2, num_hidden_layers=3, intermediate_size=17,
        max_position_embeddings=LENGTH, **changes,
    )  # fmt: skip
    model = BertModel(config).eval()
    shake(model)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return models.Transformer(str(path), max_seq_length=limit)


def dense(width: int = 5, **changes: Any) -> models.Dense:
    torch.manual_seed(5)
    return models.Dense(WIDTH, width, **changes)


def made(path: Path, *steps: Any, **options: Any) -> SentenceTransformer:
    """The steps as one model, saved in `path`."""
    whole = SentenceTransformer(modules=list(steps), device="cpu", **options)
    whole.save_pretrained(str(path), create_model_card=False)
    return whole
