"""`headway train --model.attention … --model.positions …`: for every architecture, or refused by name."""

from typing import Any

import pytest
import torch

import headway as hw
from headway.config import Special
from headway.config.text import ClassifierConfig
from headway.config.train import ModelChoice
from headway.presets.sized import sized_classifier, sized_language, sized_masked, sized_seq2seq, small_davit, small_vit

SIZES: dict[str, Any] = {"layers": 2, "width": 32, "heads": 4}
CHOICES: dict[str, dict[str, Any]] = {
    "linear": {"attention": "linear", "feature": "relu"},
    "local": {"attention": "local", "window": 3},
    "dilated": {"attention": "local", "window": 3, "dilation": 2},
    "groups": {"kv_heads": 2},
    "head width": {"head_width": 10},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "relative": {"positions": "relative"},
    "clipped": {"positions": "clipped"},
    "none": {"positions": "none"},
    "rms": {"norm": "rms"},
    "softcap": {"softcap": 20.0},
    "qk norm": {"qk_norm": "head"},
    "sandwich": {"order": "sandwich"},
    "parallel": {"parallel": True},
    "relu": {"activation": "relu"},
}


def made(architecture: str, choice: ModelChoice) -> Any:
    if architecture == "vit":
        return small_vit(choice, image=8, channels=1, classes=5)
    if architecture == "bert":
        return sized_masked(choice, vocabulary=31, length=17, words=True)
    if architecture == "transformer":
        return sized_seq2seq(choice, vocabulary=31, length=17, special=Special(start=1, pad=0))
    return sized_language(choice, vocabulary=31, length=17)


def read(architecture: str, model: Any) -> torch.Tensor:
    torch.manual_seed(0)
    tokens = torch.randint(1, 31, (2, 9))
    if architecture == "vit":
        return model(torch.randn(2, 1, 8, 8)).square().mean()
    if architecture == "bert":
        return model.hidden_states(tokens).square().mean()
    return model.loss(tokens, tokens) if architecture == "transformer" else model.loss(tokens)


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("architecture", ["gpt", "llama", "bert", "transformer", "vit"])
def test_every_choice_changes_the_model(architecture: str, name: str) -> None:
    given = {} if architecture == "vit" else {"architecture": architecture}
    if name == "parallel" and architecture in ("bert", "transformer"):  # post-norm, and cross-attention
        with pytest.raises(ValueError, match="parallel"):
            made(architecture, ModelChoice(**SIZES, **given, **CHOICES[name]))
        return
    plain = made(architecture, ModelChoice(**SIZES, **given))
    config = made(architecture, ModelChoice(**SIZES, **given, **CHOICES[name]))
    usual = {("llama", "rotary"), ("llama", "rms"), ("transformer", "relu")}
    if config == plain and (architecture, name) in usual:
        return
    assert config.model_dump() != plain.model_dump() or (architecture, name) in usual
    model = hw.build(config)
    loss = read(architecture, model)
    loss.backward()
    assert loss.isfinite()


@pytest.mark.parametrize("name", [name for name in CHOICES if name not in ("local", "dilated")])
def test_a_davit_refuses_what_it_has_not(name: str) -> None:
    with pytest.raises(ValueError, match="a DaViT has no"):
        small_davit(ModelChoice(**CHOICES[name]), image=8, channels=1, classes=5)


def test_a_configuration_of_ones_own_may_be_of_a_classifier_on_a_decoder():
    own = ClassifierConfig.on(sized_language(ModelChoice(**SIZES), vocabulary=31, length=17), classes=2)
    sizes: dict[str, Any] = {"vocabulary": 29, "length": 17, "classes": 3, "labels": ("a", "b", "c")}
    found = sized_classifier(ModelChoice(config=own.model_dump_json()), **sizes)
    assert found == own.replace(classes=3, labels=("a", "b", "c"))
    assert sized_classifier(ModelChoice(**SIZES), **sizes).kind == "masked"
    with pytest.raises(ValueError, match="is a classifier model, which this task does not train"):
        sized_masked(ModelChoice(config=own.model_dump_json()), vocabulary=29, length=17, words=True)
