"""BERT's layout: old names, bare models, heads by the tensors present, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import headway
from headway.config import Rotary
from headway.config.text import MaskedConfig
from headway.hub.checks import check_written
from headway.hub.families.bert import FAMILY, canonical, read, write
from headway.models.encoder import Masked
from headway.presets.bert import bert
from tests.fresh import fresh

SIZES: dict[str, Any] = dict(width=22, heads=2, layers=2, hidden=7, vocabulary=19, length=13, types=3)
EVERY_HEAD: dict[str, Any] = dict(words=True, adjacent=True)


def saved(path: Path, *, seed: int = 0, **changes: Any) -> Masked:
    model = fresh(bert(**{**SIZES, **changes}), seed=seed)
    headway.save(model, path)
    return model


def rewrite(path: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]], **config: Any) -> None:
    """The same directory with other tensors and other words in its config.json."""
    file = path / "model.safetensors"
    save_file(change(load_file(file)), file, metadata={"format": "pt"})
    said = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**said, **config}))
    (path / "hashes.json").unlink(missing_ok=True)


def same(first: Masked, second: Masked) -> bool:
    tokens = torch.arange(10).reshape(2, 5)
    return first.config == second.config and torch.equal(first(tokens), second(tokens))


def old_name(name: str) -> str:
    for new, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
        name = name.replace(new, old)
    return name


def test_a_bare_model_has_no_prefix_and_a_head_brings_it(tmp_path: Path) -> None:
    saved(tmp_path / "bare")
    saved(tmp_path / "words", words=True)
    bare, words = (set(load_file(tmp_path / name / "model.safetensors")) for name in ("bare", "words"))
    assert {name.partition(".")[0] for name in bare} == {"embeddings", "encoder", "pooler"}
    assert {name.partition(".")[0] for name in words} == {"bert", "cls"}


@pytest.mark.parametrize("prefix", [True, False])
def test_a_bare_model_may_have_the_prefix(prefix: bool, tmp_path: Path) -> None:
    model = saved(tmp_path)
    rewrite(tmp_path, lambda tensors: {f"{'bert.' * prefix}{name}": value for name, value in tensors.items()})
    assert same(headway.load(tmp_path).model, model)


def test_gamma_beta_and_position_ids_of_old_files(tmp_path: Path) -> None:
    model = saved(tmp_path, **EVERY_HEAD)
    ids = {"bert.embeddings.position_ids": torch.arange(13)[None]}
    rewrite(tmp_path, lambda tensors: {**{old_name(name): value for name, value in tensors.items()}, **ids})
    assert "cls.predictions.transform.LayerNorm.gamma" in load_file(tmp_path / "model.safetensors")
    loaded = headway.load(tmp_path)
    assert same(loaded.model, model)
    assert loaded.receipt.unused == ("bert.embeddings.position_ids",)


def test_only_a_norm_has_a_gamma() -> None:
    assert canonical("encoder.layer.3.output.LayerNorm.beta") == "bert.encoder.layer.3.output.LayerNorm.bias"
    assert canonical("bert.encoder.gamma") == "bert.encoder.gamma"


def test_the_tied_names_may_be_there_and_must_be_equal(tmp_path: Path) -> None:
    model = saved(tmp_path, words=True)

    def with_decoder(tensors: dict[str, Tensor], scale: float) -> dict[str, Tensor]:
        table, bias = tensors["bert.embeddings.word_embeddings.weight"], tensors["cls.predictions.bias"]
        more = {"cls.predictions.decoder.weight": scale * table, "cls.predictions.decoder.bias": bias.clone()}
        return {**tensors, **more}

    rewrite(tmp_path, lambda tensors: with_decoder(tensors, 1.0))
    assert same(headway.load(tmp_path).model, model)
    rewrite(tmp_path, lambda tensors: with_decoder(tensors, 2.0))
    with pytest.raises(ValueError, match=r"'cls.predictions.decoder.weight' to .* two different tensors"):
        headway.load(tmp_path)


@pytest.mark.parametrize(
    ("architecture", "heads"),
    [
        ("BertModel", dict()),
        ("BertModel", dict(pooler=False)),
        ("BertForMaskedLM", dict(words=True, pooler=False)),
        ("BertForPreTraining", EVERY_HEAD),
        ("BertForNextSentencePrediction", dict(adjacent=True)),
        ("BertForSequenceClassification", dict(classes=3, labels=("no", "yes", "both"))),
        ("BertForSequenceClassification", dict(classes=3, outcome="several")),
        ("BertForTokenClassification", dict(token_classes=3, token_labels=("O", "B-A", "I-A"), pooler=False)),
        ("BertForTokenClassification", dict(token_classes=5)),
        ("BertForQuestionAnswering", dict(answers=True, pooler=False)),
        ("BertForSequenceClassification", dict(classes=1, labels=("score",), outcome="value")),
    ],
)
def test_heads_survive_the_round_trip(architecture: str, heads: dict[str, Any], tmp_path: Path) -> None:
    model = saved(tmp_path, **heads)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [architecture]
    assert same(headway.load(tmp_path).model, model)


def test_the_tensors_say_which_heads_there_are(tmp_path: Path) -> None:
    """As in the first released BERT, whose config.json speaks of one head and whose file has two and a pooler."""
    model = saved(tmp_path, **EVERY_HEAD)
    rewrite(tmp_path, lambda tensors: tensors, architectures=["BertForMaskedLM"])
    assert same(headway.load(tmp_path).model, model)
    rewrite(tmp_path, lambda tensors: tensors, architectures=None)
    assert same(headway.load(tmp_path).model, model)


@pytest.mark.parametrize("lost", ["cls.predictions.", "cls.seq_relationship.", "bert.pooler.", "cls.predictions.bias"])
def test_a_head_that_is_promised_and_not_there_is_missing(lost: str, tmp_path: Path) -> None:
    saved(tmp_path, **EVERY_HEAD)
    rewrite(tmp_path, lambda tensors: {name: value for name, value in tensors.items() if not name.startswith(lost)})
    with pytest.raises(ValueError, match=f"lacks '{lost}"):
        headway.load(tmp_path)


def test_classes_without_names_are_numbered(tmp_path: Path) -> None:
    saved(tmp_path, classes=3)
    assert headway.load(tmp_path).model.config.label(2) == "2"
    two = read({"hidden_size": 22, "num_attention_heads": 2}, frozenset({"classifier.weight"}))
    assert (two.classes, two.outcome) == (2, "one")


def test_one_number_without_a_word_on_it_is_a_probability_of_its_own() -> None:
    """As in rerankers: a softmax over a single class would always say 1."""
    one = read({"id2label": {"0": "relevant"}}, frozenset({"classifier.weight"}))
    assert (one.classes, one.labels, one.outcome) == (1, ("relevant",), "several")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (dict(position_embedding_type="relative_key"), "position_embedding_type='relative_key' .only with 'absolute'."),
        (dict(is_decoder=True), "is_decoder=True"),
        (dict(add_cross_attention=True), "add_cross_attention=True"),
        (dict(pruned_heads={"0": [1]}), "pruned_heads="),
        (dict(tie_word_embeddings=False), "tie_word_embeddings=False"),
        (dict(hidden_act="mish"), "no activation 'mish'"),
        (dict(num_attention_heads=3), "width 22 is not divisible by heads 3"),
        (dict(num_hidden_layers=3), "lacks 'bert.encoder.layer.2.attention"),
        (dict(num_hidden_layers=1), "holds 'bert.encoder.layer.1.attention"),
        (dict(vocab_size=23), r"word_embeddings.weight' has shape \(19, 22\), and config.json makes it \(23, 22\)"),
        (dict(id2label={"0": "a", "2": "b"}), r"id2label names classes \[0, 2\]"),
        (dict(id2label={"0": "a", "1": "b"}), r"classifier.weight' has shape \(3, 22\)"),
        (dict(problem_type="ranking"), "problem_type='ranking'"),
        (dict(architectures=["BertForMultipleChoice"]), "classifier of a BertForMultipleChoice"),
        (dict(model_type="deberta"), "no architecture 'deberta'"),
        (dict(model_type="squeezebert"), "no architecture 'squeezebert'"),
    ],
)
def test_what_cannot_be_honoured_is_refused(said: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    saved(tmp_path, classes=3, **EVERY_HEAD)
    assert headway.load(tmp_path).model.config.classes == 3
    rewrite(tmp_path, lambda tensors: tensors, **said)
    with pytest.raises(ValueError, match=sentence):
        headway.load(tmp_path)


def test_a_bare_model_does_not_care_whether_a_head_would_be_tied(tmp_path: Path) -> None:
    saved(tmp_path)
    rewrite(tmp_path, lambda tensors: tensors, tie_word_embeddings=False)
    headway.load(tmp_path)


def written(config: MaskedConfig) -> None:
    check_written(FAMILY, config.family, config, write(config))


def test_a_model_that_the_layout_cannot_hold_is_not_written() -> None:
    good = bert(**SIZES)
    block, attention = good.stack.block, good.stack.block.attention
    for changed in (
        block.model_copy(update=dict(order="pre")),
        block.model_copy(update=dict(eps=1e-5)),
        block.model_copy(update=dict(feedforward=None)),
        block.model_copy(update=dict(attention=attention.model_copy(update=dict(rotary=Rotary())))),
        block.model_copy(update=dict(attention=attention.model_copy(update=dict(scale=1.0)))),
    ):
        stack = good.stack.model_copy(update=dict(block=changed))
        with pytest.raises(ValueError, match="save it with layout='headway'"):
            written(good.model_copy(update=dict(stack=stack)))


@pytest.mark.parametrize("heads", [dict(inverted=True), dict(inference=3, inference_labels=("yes", "no", "perhaps"))])
def test_heads_that_berts_layout_does_not_know_are_kept_in_our_own(heads: dict[str, Any], tmp_path: Path) -> None:
    model = saved(tmp_path, **EVERY_HEAD, **heads)
    assert model.config.family == "headway"
    found = headway.load(tmp_path).model
    assert found.config == model.config and found.state_dict().keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        assert torch.equal(value, found.state_dict()[name])
    with pytest.raises(ValueError, match=r"the layout of bert has no word for (inverted=True|inference=3)"):
        written(model.config.model_copy(update=dict(family="bert")))


def test_in_our_own_layout_every_head_survives(tmp_path: Path) -> None:
    config = bert(**SIZES, **EVERY_HEAD, classes=2, labels=("no", "yes"))
    model = fresh(config.model_copy(update=dict(family="headway")))
    headway.save(model, tmp_path)
    assert same(headway.load(tmp_path).model, model)
