"""Small models of every kind, mechanism and shape, with sizes that are different primes wherever they are free."""

from typing import Any

from headway.config import (
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    Frozen,
    LanguageConfig,
    Linear,
    Local,
    Relative,
    Rotary,
    Softmax,
    Spatial,
    Special,
    StackConfig,
)
from headway.config.clip import ClipConfig
from headway.config.layers import QKNorm, VectorsConfig
from headway.config.text import ClassifierConfig, DenseConfig, RecurrentConfig, SentenceConfig, Seq2SeqConfig
from headway.config.vision import DaViTConfig
from headway.presets.bert import bert
from headway.presets.encoders import albert, distilbert, electra, modernbert, mpnet
from headway.presets.gpt2 import gpt2
from headway.presets.vision import vit
from tests.thorough import THOROUGH

VOCABULARY = 13


def language(mechanism: Frozen | None = None, **attention: Any) -> LanguageConfig:
    """A small decoder with rotary positions, grouped heads of uneven widths and a gated feed-forward."""
    own = {"heads": 6, "kv_heads": 3, "head_width": 4, "value_width": 5, "rotary": Rotary()} | attention
    block = BlockConfig(
        attention=AttentionConfig(width=14, causal=True, mechanism=mechanism or Softmax(), **own),
        feedforward=FeedForwardConfig(hidden=17, activation="silu", gated=True, bias=False),
        norm="rms",
    )
    stack = StackConfig(block=block, layers=2, final_norm=True)
    return LanguageConfig(vocabulary=VOCABULARY, length=64, stack=stack, tied=False)


def gemma_tiny() -> LanguageConfig:
    """Norms before and after each branch and of queries and keys, windows and whole layers in turn, every scale."""
    plain = language(softcap=20.0, qk_norm=QKNorm(norm="rms_zero_centered"), scale=0.3)
    near = plain.stack.block.replace(order="sandwich", norm="rms_zero_centered")
    far = near.replace("attention", mechanism=Softmax(), rotary=Rotary(base=300.0, width=2))
    stack = plain.stack.replace(block=near.replace("attention", mechanism=Local(window=3)), alternates=(far,), layers=3)
    return plain.replace(stack=stack, embedding_scale=14**0.5, logit_softcap=2.0)


def _stack(*, cross: bool = False, norm: str = "layer", bias: Relative | None = None) -> StackConfig:
    def attention(**more: Any) -> AttentionConfig:
        return AttentionConfig(width=10, heads=2, bias=norm == "layer", output_bias=norm == "layer", **more)

    block = BlockConfig(
        attention=attention(causal=cross),
        cross=attention() if cross else None,
        feedforward=FeedForwardConfig(hidden=19, activation="relu", bias=norm == "layer"),
        norm=norm,
        dropout=0.1,
    )
    return StackConfig(block=block, layers=2 + cross, final_norm=True, bias=bias)


def bert_tiny(**heads: Any) -> Frozen:
    return bert(width=15, heads=3, layers=2, hidden=22, vocabulary=VOCABULARY, length=31, **heads)


def vit_tiny(mechanism: Frozen | None = None, **more: Any) -> Frozen:
    return vit(width=15, heads=3, layers=2, hidden=22, image=(15, 20), patch=5, classes=7, mechanism=mechanism, **more)


ENCODER: dict[str, Any] = dict(width=18, heads=3, layers=4, hidden=22, vocabulary=VOCABULARY, length=31)

MODELS: dict[str, Frozen] = {
    "gpt2": gpt2(width=15, layers=2, heads=3, hidden=22, vocabulary=VOCABULARY, length=31),
    "llama": language(),
    "capped": language(softcap=20.0, rotary=None),
    "gemma": gemma_tiny(),
    "neox": language(rotary=Rotary(width=2)).replace("stack.block", parallel=True, norm="layer"),
    "olmo": language(qk_norm="all").replace("stack.block", order="res_post"),
    "granite": language().replace(embedding_scale=3.0, head_scale=0.25).replace("stack.block", residual_scale=0.5),
    "opt": gpt2(width=15, layers=2, heads=3, hidden=22, vocabulary=VOCABULARY, length=31).replace(
        offset=2, embedding_width=11
    ),
    "linear": language(Linear(chunk=3), rotary=None),
    "local": language(Local(window=3)),
    "dilated": language(Local(window=2, dilation=3)),
    "selected": language(Local(window=2, selected=(0, 4))),
    "bert-words": bert_tiny(words=True, adjacent=True),
    "bert-classes": bert_tiny(classes=3),
    "bert-bare": bert_tiny(pooler=False),
    "sentence": SentenceConfig(encoder=bert_tiny(), limit=31, dense=DenseConfig(width=7)),
    "seq2seq": Seq2SeqConfig(
        vocabulary=VOCABULARY, encoder=_stack(), decoder=_stack(cross=True), positions="sinusoidal",
        embedding_scale=3.0, embedding_norm=True, head_bias=True,
    ),
    "t5": Seq2SeqConfig(
        vocabulary=VOCABULARY, target_vocabulary=11, encoder=_stack(norm="rms", bias=Relative()),
        decoder=_stack(cross=True, norm="rms", bias=Relative()), tied=False, head_scale=0.5,
    ),
    "recurrent": RecurrentConfig(source_vocabulary=11, vocabulary=VOCABULARY, width=6, hidden=10),
    "one-way": RecurrentConfig(source_vocabulary=11, vocabulary=VOCABULARY, width=6, hidden=10, bidirectional=False),
    "vit": vit_tiny(),
    "vit-distilled": vit_tiny(distilled=True, teacher=True),
    "vit-mean": vit_tiny(Spatial(grid=(3, 4), window=2), class_token=False),
    "vit-local": vit_tiny(Local(window=2, grid=(3, 4), global_tokens=True)),
    "davit": DaViTConfig(depths=(1, 2), widths=(6, 10), heads=(2, 5), image=(26, 18), window=3, classes=7),
    "davit-kernel": DaViTConfig(
        depths=(1, 1), widths=(4, 8), heads=(2, 2), image=(9, 11), window=3, kernel=3, stem=3, stride=1, classes=0
    ),
    "bare": VectorsConfig(
        stack=StackConfig(
            block=BlockConfig(
                attention=AttentionConfig(width=7, scale=1.0, project=False),
                feedforward=FeedForwardConfig(hidden=11, activation="relu"),
                order="none",
                residual=False,
            ),
            layers=1,
        )
    ),
    # As DINOv2: learned scales, positions of a larger image, a classifier that reads a mean beside the class token.
    "dinov2": vit_tiny(table_image=25).replace(pooling="class_mean").replace("stack.block", layer_scale=0.1),
    "electra": electra(**ENCODER, embedding_width=11, replaced=True),
    "mpnet-tokens": mpnet(**ENCODER, token_classes=5),
    "modernbert": modernbert(**ENCODER, windows=(None, 3, None, 3), classes=5, pooler_over="mean"),
    "distilbert-answers": distilbert(**ENCODER, answers=True),
    "classifier": ClassifierConfig.on(language(), classes=5),
    "albert": albert(**ENCODER, embedding_width=11, words=True, adjacent=True),
    "shared": language().replace("stack", shared=True),
}  # fmt: skip


def _towers(**more: Any) -> ClipConfig:
    clip = more.get("image_projection", True)
    stack = _stack().replace("block.attention", causal=clip, bias=True)
    vision = vit_tiny().replace(
        classes=0, patch_bias=not clip, embedding_norm=clip, class_token=clip, pooling="class" if clip else "attention"
    )
    return ClipConfig(
        vision=vision, vocabulary=VOCABULARY, length=31, stack=stack, width=15, special=Special(end=(3,), pad=0), **more
    )


# Two towers: as CLIP, and as SigLIP.
TOWERS = {
    "clip": _towers(),
    "siglip": _towers(image_projection=False, text_bias=True, objective="sigmoid", pooling="last"),
}

# `make test-thorough` takes them all; daily every third one serves where others look at all of them.
SOME = [name for place, name in enumerate(MODELS) if THOROUGH or place % 3 == 0]
