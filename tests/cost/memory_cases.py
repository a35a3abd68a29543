"""Real training steps of every kind of model, at sizes small enough to measure: what test_memory_real compares with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.config import (
    Additive,
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    LanguageConfig,
    Linear,
    Local,
    Rotary,
    Spatial,
    StackConfig,
)  # fmt: skip
from headway.config.base import sides
from headway.config.layers import VectorsConfig
from headway.config.text import RecurrentConfig, SentenceConfig
from headway.config.vision import DaViTConfig, VisionConfig
from headway.cost.setting import Setting
from headway.presets.bert import bert
from headway.presets.encoders import albert
from headway.presets.seeds import bare_block, ttic_layer, udl_channels
from headway.presets.seq2seq import bart, marian, t5
from headway.presets.vision import vit
from headway.training.objectives import (
    LossSums,
    classification_loss,
    contrastive_loss,
    image_loss,
    language_loss,
    masked_loss,
    seq2seq_loss,
)


@dataclass(frozen=True)
class Case:
    """A model, what it is asked in training, and the same size as a setting."""

    config: Any
    objective: Callable[..., LossSums]
    inputs: dict[str, Tensor]
    read: tuple[str, ...]  # the inputs of a plain forward pass
    setting: Setting


def ints(*shape: int, below: int) -> Tensor:
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(sum(shape)))


def gpt(*, attention: dict[str, Any] | None = None, feedforward: dict[str, Any] | None = None, **rest: Any) -> Any:
    own: dict[str, Any] = {"width": 35, "heads": 5, "causal": True, "bias": True, "output_bias": True} | (
        attention or {}
    )
    block = {key: rest.pop(key) for key in ("norm", "order", "dropout") if key in rest}
    hidden: dict[str, Any] = {"hidden": 83, "activation": "gelu_tanh"} | (feedforward or {})
    blocks = BlockConfig(attention=AttentionConfig(**own), feedforward=FeedForwardConfig(**hidden), **block)
    stack = StackConfig(block=blocks, layers=rest.pop("layers", 1), final_norm=True)
    return LanguageConfig(stack=stack, **{"vocabulary": 97, "length": 512, "positions": "learned"} | rest)


def llama(*, attention: dict[str, Any] | None = None, feedforward: dict[str, Any] | None = None, **rest: Any) -> Any:
    own: dict[str, Any] = {"width": 42, "heads": 6, "kv_heads": 3, "head_width": 10, "bias": False}
    own |= {"output_bias": False, "rotary": Rotary()} | (attention or {})
    hidden: dict[str, Any] = {"activation": "silu", "gated": True, "bias": False} | (feedforward or {})
    given = {"positions": "none", "tied": False, "norm": "rms"} | rest
    return gpt(attention=own, feedforward=hidden, **given)


def of_language(config: Any, batch: int = 3, length: int = 37) -> Case:
    inputs = {name: ints(batch, length, below=config.vocabulary) for name in ("tokens", "targets")}
    return Case(config, language_loss, inputs, ("tokens",), Setting(batch=batch, length=length))


def of_masked(config: Any, batch: int = 3, length: int = 37, asked: int = 11) -> Case:
    inputs = {
        "tokens": ints(batch, length, below=config.vocabulary), "types": ints(batch, length, below=2),
        "keep": torch.ones(batch, length, dtype=torch.bool),
    }  # fmt: skip
    if config.classes:
        inputs["label"] = ints(batch, below=config.classes)
        return Case(config, classification_loss, inputs, ("tokens",), Setting(batch=batch, length=length))
    words = ints(batch, length, below=config.vocabulary)
    words[:, asked:] = -100
    setting = Setting(batch=batch, length=length, logits=asked)
    return Case(config, masked_loss, {**inputs, "words": words}, ("tokens",), setting)


def of_source(config: Any, batch: int = 3, source: int = 41, length: int = 37) -> Case:
    read, outputs = (config.source_vocabulary, config.vocabulary) if isinstance(config, RecurrentConfig) else (
        config.vocabulary, config.outputs)  # fmt: skip
    inputs = {
        "source": ints(batch, source, below=read), "target": ints(batch, length, below=outputs),
        "targets": ints(batch, length, below=outputs), "source_keep": torch.ones(batch, source, dtype=torch.bool),
        "target_keep": torch.ones(batch, length, dtype=torch.bool),
    }  # fmt: skip
    return Case(config, seq2seq_loss, inputs, ("source", "target"), Setting(batch=batch, length=length, source=source))


def of_images(config: Any, batch: int = 3) -> Case:
    shape = (batch, config.channels, *sides(config.image))
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    inputs = {"images": drawn, "label": ints(batch, below=config.classes)}
    return Case(config, image_loss, inputs, ("images",), Setting(batch=batch, length=1))


def of_sentences(config: Any, batch: int = 5, length: int = 23) -> Case:
    """So many pairs: twice as many texts."""
    row = {f"tokens_{side}": ints(1, batch * length, below=config.encoder.vocabulary) for side in "ab"}
    inputs = {
        **row, "lengths_a": torch.full((batch,), length), "lengths_b": torch.full((batch,), length),
        "same": torch.zeros(batch, batch, dtype=torch.bool),
        "plain": ints(2 * batch, length, below=config.encoder.vocabulary),
    }  # fmt: skip
    return Case(config, contrastive_loss, inputs, ("plain",), Setting(batch=2 * batch, length=length))


def of_vectors(config: Any, batch: int = 3, length: int = 37) -> Case:
    drawn = torch.randn(batch, length, config.width, generator=torch.Generator().manual_seed(1))
    return Case(config, _summed, {"x": drawn}, ("x",), Setting(batch=batch, length=length))


def _summed(model: Any, inputs: dict[str, Tensor], *, smoothing: float = 0.0) -> LossSums:
    return LossSums({"loss": model(inputs["x"]).sum()}, {})


def stacked(attention: dict[str, Any], **rest: Any) -> VectorsConfig:
    block = BlockConfig(
        attention=AttentionConfig(**(dict[str, Any](width=35, heads=5) | attention)),
        feedforward=FeedForwardConfig(hidden=83, activation="relu"), **rest,
    )  # fmt: skip
    return VectorsConfig(stack=StackConfig(block=block, layers=1), length=37)


def smaller(config: Any, **changed: Any) -> Any:
    return config.replace(**changed)


def _windows(window: int) -> VisionConfig:
    attention = AttentionConfig(width=35, heads=5, mechanism=Spatial(grid=(7, 7), window=window))
    block = BlockConfig(attention=attention, feedforward=FeedForwardConfig(hidden=83))
    stack = StackConfig(block=block, layers=1, final_norm=True)
    return VisionConfig(image=35, patch=5, class_token=False, pooling="mean", classes=11, stack=stack)


def _bert(**heads: Any) -> Any:
    return bert(width=35, heads=5, layers=2, hidden=83, vocabulary=97, length=256, **heads)


T5: dict[str, Any] = {"width": 35, "hidden": 83, "layers": 1, "heads": 5, "head_width": 11}
RECURRENT: dict[str, Any] = {"source_vocabulary": 97, "vocabulary": 101, "width": 23, "hidden": 34}
VIT: dict[str, Any] = {"width": 35, "heads": 5, "layers": 1, "hidden": 83, "image": 35, "patch": 5, "classes": 11}
CASES: dict[str, Callable[[], Case]] = {
    "gpt": lambda: of_language(gpt(layers=3)),
    "gpt dropout": lambda: of_language(gpt(dropout=0.1, tied=False, layers=2)),
    "gpt post": lambda: of_language(gpt(order="post", positions="sinusoidal", feedforward={"activation": "gelu"})),
    "gpt batch norm": lambda: of_language(gpt(norm="batch", feedforward={"activation": "relu_squared"})),
    "gpt many words": lambda: of_language(gpt(vocabulary=8009, layers=1), 2, 151),
    "gpt medium": lambda: of_language(gpt(attention={"width": 130}, feedforward={"hidden": 521}), 3, 251),
    "llama": lambda: of_language(llama(layers=2)),
    "llama neighbours": lambda: of_language(llama(attention={"rotary": Rotary(interleaved=True)})),
    "llama part": lambda: of_language(llama(attention={"rotary": Rotary(width=4)})),
    "llama widths": lambda: of_language(llama(attention={"value_width": 13})),
    "llama medium": lambda: of_language(llama(attention={"width": 126}, feedforward={"hidden": 307}), 3, 251),
    "softcap": lambda: of_language(llama(attention={"softcap": 30.0})),
    "softcap one text": lambda: of_language(llama(attention={"softcap": 30.0}), 1),
    "softcap long": lambda: of_language(gpt(attention={"softcap": 30.0}), 1, 397),
    "large softcap": lambda: of_language(gpt(attention={"softcap": 100.0})),
    "local": lambda: of_language(gpt(attention={"mechanism": Local(window=11)}), 2, 307),
    "local dilated": lambda: of_language(llama(attention={"mechanism": Local(window=5, dilation=3)}), 2, 307),
    "linear": lambda: of_language(gpt(attention={"mechanism": Linear()}), 2, 307),
    "linear groups": lambda: of_language(llama(attention={"mechanism": Linear(feature="exp", chunk=31)}), 2, 101),
    "words": lambda: of_masked(_bert(words=True)),
    "words medium": lambda: of_masked(
        bert(width=110, heads=5, layers=2, hidden=431, vocabulary=1009, length=256, words=True), 3, 211, 31
    ),
    "classes": lambda: of_masked(_bert(classes=3, words=True)),
    "albert": lambda: of_masked(
        albert(width=35, heads=5, layers=3, hidden=83, vocabulary=97, length=256, embedding_width=23, words=True)
    ),
    "gpt shared": lambda: of_language(gpt(dropout=0.1, layers=5).replace("stack", shared=True)),
    "vectors shared": lambda: of_vectors(stacked({}).replace("stack", shared=True, layers=3)),
    "sentence": lambda: of_sentences(SentenceConfig(encoder=_bert(), limit=64)),
    "marian": lambda: of_source(smaller(marian(width=35, layers=2, heads=5, vocabulary=97), head_bias=True)),
    "bart": lambda: of_source(smaller(bart(width=35, layers=1, heads=5), vocabulary=97, target_vocabulary=101)),
    "t5": lambda: of_source(smaller(t5(**T5), vocabulary=97)),
    "t5 gated": lambda: of_source(smaller(t5(**T5, gated=True), vocabulary=97)),
    "t5 one text": lambda: of_source(smaller(t5(**T5), vocabulary=97), 1),
    "t5 long": lambda: of_source(smaller(t5(**T5), vocabulary=97), 1, 397, 401),
    "recurrent": lambda: of_source(
        RecurrentConfig(source_vocabulary=97, vocabulary=101, width=23, hidden=34), 5, 11, 7
    ),
    "one way": lambda: of_source(RecurrentConfig(**RECURRENT, bidirectional=False), 5, 11, 7),
    "vit": lambda: of_images(vit(width=35, heads=5, layers=2, hidden=83, image=35, patch=5, classes=11)),
    "deit": lambda: of_images(vit(**VIT, distilled=True, teacher=True, dropout=0.1)),
    "vit windows": lambda: of_images(_windows(7)),
    "vit padded windows": lambda: of_images(_windows(3)),
    "vit near": lambda: of_images(vit(**VIT, mechanism=Local(window=3, grid=(7, 7), global_tokens=True)), 5),
    "davit": lambda: of_images(
        DaViTConfig(depths=(1, 1), widths=(15, 35), heads=(3, 5), image=(60, 44), window=7, classes=11)
    ),
    "davit one picture": lambda: of_images(
        DaViTConfig(depths=(1, 2), widths=(21, 35), heads=(3, 5), image=(112, 56), window=7, classes=11), 1
    ),
    "davit kernel": lambda: of_images(
        DaViTConfig(depths=(1, 1), widths=(15, 35), heads=(3, 5), image=52, window=5, classes=11, kernel=3, dropout=0.1)
    ),
    "bare block": lambda: of_vectors(bare_block(width=37, hidden=83)),
    "ttic layer": lambda: of_vectors(ttic_layer(width=35, heads=5, key_width=11)),
    "channels": lambda: of_vectors(udl_channels(width=35, groups=5)),
    "linear both ways": lambda: of_vectors(stacked({"mechanism": Linear()})),
    "additive": lambda: of_vectors(stacked({"mechanism": Additive()})),
    "local both ways": lambda: of_vectors(stacked({"mechanism": Local(window=7)}), 2, 307),
}
