"""A classifier on a decoder: one result for each text, read at its last token."""

import pytest
import torch
import torch.nn.functional as F

import headway
from headway.config.text import ClassifierConfig, Special
from headway.models.classifier import DecoderClassifier
from headway.presets.llama import llama

LANGUAGE = llama(width=12, layers=2, heads=3, hidden=17, vocabulary=29, length=23, special=Special(pad=5))


@pytest.fixture(scope="module")
def model() -> DecoderClassifier:
    found = headway.build(ClassifierConfig.on(LANGUAGE, classes=3, labels=("a", "b", "c")), seed=1).double()
    assert isinstance(found, DecoderClassifier)
    return found


def test_the_loss_is_the_mean_over_texts_whatever_stands_in_the_padding(model):
    tokens, labels = torch.randint(6, 29, (2, 7), generator=torch.manual_seed(0)), torch.tensor([2, 0])
    keep = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    alone = torch.cat([model(tokens[:1]), model(tokens[1:, :4])])
    found = model.loss(tokens, labels, keep=keep)
    torch.testing.assert_close(found, F.cross_entropy(alone, labels), rtol=1e-12, atol=0)
    found.backward()
    padding, seen = set(tokens[1, 4:].tolist()), {*tokens[0].tolist(), *tokens[1, :4].tolist()}
    moved = model.tokens.weight.grad.abs().sum(-1) > 0
    assert padding - seen and all(bool(moved[token]) == (token in seen) for token in range(29))


def test_what_it_refuses(model):
    tokens = torch.ones(2, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="nothing but padding has no last token"):
        model(tokens, keep=torch.tensor([[True] * 3, [False] * 3]))
    with pytest.raises(ValueError, match="no table of sentences"):
        model(tokens, types=tokens)
    with pytest.raises(ValueError, match="3 classes have 3 labels, not 2"):
        ClassifierConfig.on(LANGUAGE, classes=3, labels=("a", "b"))


def test_its_layers_are_those_of_a_language_model(model):
    """And what only a language model has is left at its default."""
    assert model.config.language == LANGUAGE.replace(tied=True)
    ours, theirs = dict(model.named_parameters()), dict(headway.build(LANGUAGE).named_parameters())
    assert set(ours) - set(theirs) == {"class_head.weight"} and set(theirs) - set(ours) <= {"head.weight"}
