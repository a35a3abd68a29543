"""Classifiers on decoders: the tensors of a language model without its head, and `score`, a map of the last vector."""

from collections.abc import Mapping
from typing import Any

from headway.config import LanguageConfig
from headway.config.text import ClassifierConfig, DecoderConfig
from headway.hub.families.common import architecture_of
from headway.hub.families.encoder_heads import IDENTITY, TEXT, read_classes, write_classes
from headway.hub.family import Entry, Table

# Families whose layout has a classifier, and the class that other libraries read it with.
_STEMS = {
    "gpt2": "GPT2", "llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "smollm3": "SmolLM3",
}  # fmt: skip
CLASSES = {family: stem + TEXT for family, stem in _STEMS.items()}
SCORE = Entry("score.weight", "class_head.weight")


def classifier_on(decoder: DecoderConfig, **head: Any) -> ClassifierConfig:
    """A classifier on a decoder's layers, saved in its family's layout, or in headway's own where that has none."""
    return ClassifierConfig.on(decoder, family=decoder.family if decoder.family in CLASSES else "headway", **head)


def head_rows(config: LanguageConfig | ClassifierConfig, heads: Mapping[bool, Any]) -> Table:
    """The tensors of the head: of a language model by whether it is tied, or the classifier's."""
    return [heads[config.tied]] if isinstance(config, LanguageConfig) else [SCORE]


def with_classes(
    language: LanguageConfig, config: Mapping[str, Any], names: frozenset[str]
) -> LanguageConfig | ClassifierConfig:
    """The language model, or the classifier with its layers, where a directory holds one."""
    if not architecture_of(config).endswith(TEXT) and SCORE.theirs not in names:
        return language
    if language.family not in CLASSES:
        raise ValueError(f"headway reads no classifier on a {language.family} (only on {', '.join(CLASSES)})")
    return ClassifierConfig.on(language, **read_classes(config, alone=IDENTITY))


def write_classifier(config: ClassifierConfig, said: dict[str, Any]) -> dict[str, Any]:
    """What config.json says of a classifier, from what it would say of the language model."""
    return {**said, "architectures": [CLASSES[config.family]], **write_classes(config)}
