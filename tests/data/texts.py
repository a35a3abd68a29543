"""A small made-up text and a tokenizer of whole words for it."""

import numpy as np
from tokenizers import Tokenizer as Engine
from tokenizers import models, normalizers, pre_tokenizers, processors

from headway.data.tokenizer import Tokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROLES = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
NOUNS = (
    "river",
    "mountain",
    "farmer",
    "engine",
    "window",
    "garden",
    "letter",
    "winter",
    "market",
    "bridge",
    "candle",
    "doctor",
)
VERBS = ("follows", "touches", "remembers", "paints", "carries", "watches", "answers", "repairs", "opens", "counts")
SMALL = ("the", "a", "when", "and", ",", ".", "of", "on")


def tokenizer() -> Tokenizer:
    words = {word: number for number, word in enumerate([*SPECIAL, *SMALL, *NOUNS, *VERBS])}
    engine = Engine(models.WordLevel(words, unk_token="[UNK]"))
    engine.add_special_tokens(list(SPECIAL))
    engine.normalizer = normalizers.Lowercase()
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return Tokenizer(engine, ROLES)


def sentence(rng: np.random.Generator) -> str:
    a, b, c, d = rng.choice(NOUNS, 4, replace=False)
    v, w = rng.choice(VERBS, 2, replace=False)
    return f"When the {a} {v} the {b}, a {c} {w} the {d}."


def documents(count: int, *, sentences: int = 11, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(sentence(rng) for _ in range(sentences)) for _ in range(count)]
