"""Tiny models of four kinds, what is asked of them, and examples with a rule to find out."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.base import IGNORED
from headway.config.layers import AttentionConfig, BlockConfig, FeedForwardConfig, Rotary, StackConfig
from headway.config.text import LanguageConfig
from headway.config.train import LoraConfig
from headway.data.batch import Batch
from headway.models.davit import DaViT
from headway.models.encoder import Masked
from headway.models.language import Language
from headway.models.lora import add_lora
from headway.models.seq2seq import Seq2Seq
from headway.presets.bert import bert
from headway.presets.seq2seq import t5
from headway.presets.vision import davit
from headway.training.freeze import freeze
from headway.training.objectives import LossSums, language_loss

VOCABULARY, LENGTH, HEADS = 23, 11, 4


def gpt() -> nn.Module:
    """Rotary positions, fewer key/value heads than heads, a gated feed-forward: all that can be cut."""
    attention = AttentionConfig(
        width=12, heads=HEADS, kv_heads=2, head_width=6, causal=True, bias=True, output_bias=True, rotary=Rotary()
    )
    feedforward = FeedForwardConfig(hidden=26, gated=True)
    block = BlockConfig(attention=attention, feedforward=feedforward)
    stack = StackConfig(block=block, layers=2, final_norm=True)
    return Language(LanguageConfig(vocabulary=VOCABULARY, length=LENGTH, stack=stack, positions="learned"))


def masked_words(model: Masked, inputs: dict[str, Tensor], *, smoothing: float = 0.0) -> LossSums:
    """Words that are hidden, and in the first half of all batches whether two sentences follow one another."""
    hidden = model.hidden_states(inputs["tokens"], keep=inputs["keep"])
    words = F.cross_entropy(
        model.words(hidden).flatten(0, 1), inputs["words"].flatten(), ignore_index=IGNORED, reduction="sum"
    )
    if not bool(inputs["ask"].any()):
        return LossSums({"words": words})
    asked = inputs["ask"]
    found = model.adjacent(hidden[asked], inputs["keep"][asked])
    adjacent = F.cross_entropy(found, inputs["label"][asked], reduction="sum")
    return LossSums({"words": words, "adjacent": adjacent})


class Texts:
    """Texts with a rule to find out: each token is a sum of the two before it; some are hidden, some padded."""

    sizes = None

    def __init__(self, model: str) -> None:
        self.model = model

    def __len__(self) -> int:
        return 37

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        texts = torch.tensor(np.stack([_text(int(row)) for row in rows]))
        if self.model != "bert":
            return Batch({"tokens": texts[:, :-1], "targets": texts[:, 1:]}, {"loss": texts[:, 1:].numel()})
        tokens, keep = texts[:, 1:].clone(), torch.ones(len(rows), LENGTH, dtype=torch.bool)
        hidden = torch.zeros_like(keep)
        for one, key in enumerate(keys):
            hidden[one, int(key) % 7] = hidden[one, 3 + int(key) % 5] = True
            keep[one, LENGTH - int(key) % 3 :] = False
        hidden &= keep
        words = torch.where(hidden, tokens, IGNORED)
        ask = torch.tensor(rows < 5)
        inputs = {"tokens": tokens.masked_fill(hidden, 0), "keep": keep, "words": words, "ask": ask}
        counts = {"words": int(hidden.sum()), "adjacent": int(ask.sum())}
        return Batch({**inputs, "label": torch.tensor(rows % 2)}, counts)


def _text(row: int) -> np.ndarray:
    found = [1 + row % 19, 2 + row % 5]
    while len(found) <= LENGTH:
        found.append(1 + (found[-1] + found[-2]) % (VOCABULARY - 1))
    return np.array(found, dtype=np.int64)


def make_model(kind: str) -> nn.Module:
    """The same weights each time; no dropout, which is drawn for each part of a batch."""
    torch.manual_seed(0)
    model = _made(kind)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def _made(kind: str) -> nn.Module:
    if kind in ("gpt", "lora", "frozen"):
        model = gpt()
        if kind == "lora":
            add_lora(model, LoraConfig(rank=2, on=("query", "value", "down")))
        if kind == "frozen":
            freeze(model, ("embeddings", "layers:0"))
        return model
    if kind == "bert":
        return Masked(
            bert(
                width=12, heads=HEADS, layers=2, hidden=26, vocabulary=VOCABULARY, length=LENGTH, words=True,
                adjacent=True,
            )
        )  # fmt: skip
    if kind == "t5":
        config = t5(width=12, hidden=26, layers=2, heads=HEADS, head_width=6, gated=True)
        return Seq2Seq(config.model_copy(update={"vocabulary": VOCABULARY}))
    return DaViT(davit(depths=(1, 1), widths=(8, 12), heads=(2, 4), image=16, classes=5))


def translated(model: Seq2Seq, inputs: dict[str, Tensor], *, smoothing: float = 0.0) -> LossSums:
    logits = model(inputs["tokens"].flip(1), inputs["tokens"])
    return LossSums({"loss": F.cross_entropy(logits.flatten(0, 1), inputs["targets"].flatten(), reduction="sum")})


def seen(model: DaViT, inputs: dict[str, Tensor], *, smoothing: float = 0.0) -> LossSums:
    """A picture made of tokens, and which of five remainders the first one has."""
    tokens = inputs["tokens"]
    images = torch.cos(tokens[:, None, :1, None] * torch.arange(3 * 256).view(1, 3, 16, 16) / 7)
    return LossSums({"loss": F.cross_entropy(model(images) * LENGTH, tokens[:, 0] % 5, reduction="sum") * LENGTH})


OBJECTIVES = {
    "gpt": language_loss,
    "lora": language_loss,
    "frozen": language_loss,
    "bert": masked_words,
    "t5": translated,
    "davit": seen,
}
