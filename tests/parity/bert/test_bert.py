"""BERT and its heads beside transformers: logits, hidden states, padding, and the way back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import BertConfig

import headway
from headway.hub.parts import parts_of
from headway.models.encoder import Masked
from tests.parity.compare import close, outputs_of, ragged, shake

VOCABULARY = 53
SHAPES = {
    "plain": dict(hidden_size=22, num_attention_heads=2, num_hidden_layers=3, intermediate_size=31, type_vocab_size=2),
    "tanh": dict(hidden_size=21, num_attention_heads=3, num_hidden_layers=2, intermediate_size=17, type_vocab_size=3,
                 hidden_act="gelu_new", layer_norm_eps=1e-3),
    "relu": dict(hidden_size=20, num_attention_heads=5, num_hidden_layers=2, intermediate_size=23, type_vocab_size=2,
                 hidden_act="relu", pad_token_id=None),
}  # fmt: skip
Read = Callable[[Masked, Tensor, Tensor | None], Tensor]
# Their class -> their outputs, and how ours are made from hidden states and padding.
HEADS: dict[str, dict[str, Read]] = {
    "BertModel": {
        "last_hidden_state": lambda model, hidden, keep: hidden,
        "pooler_output": lambda model, hidden, keep: model.pooled(hidden, keep),
    },
    "BertForMaskedLM": {"logits": lambda model, hidden, keep: model.words(hidden)},
    "BertForPreTraining": {
        "prediction_logits": lambda model, hidden, keep: model.words(hidden),
        "seq_relationship_logits": lambda model, hidden, keep: model.adjacent(hidden, keep),
    },
    "BertForNextSentencePrediction": {"logits": lambda model, hidden, keep: model.adjacent(hidden, keep)},
    "BertForSequenceClassification": {"logits": lambda model, hidden, keep: model.classify(hidden, keep)},
}
# With every head the first shape, with every shape the two classes that hold all parts between them.
CASES = [(kind, "plain") for kind in HEADS]
CASES += [
    (kind, shape) for shape in ("tanh", "relu") for kind in ("BertForPreTraining", "BertForSequenceClassification")
]


def theirs(kind: str, shape: str, path: Path) -> Any:
    torch.manual_seed(1)
    config = BertConfig(vocab_size=VOCABULARY, max_position_embeddings=19, num_labels=5, **SHAPES[shape])
    model = getattr(transformers, kind)(config).eval()
    shake(model)
    model.save_pretrained(path)
    return model


@pytest.fixture(params=CASES, ids=lambda case: "-".join(case))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Any, Masked]:
    other = theirs(*request.param, tmp_path / "theirs")
    return request.param[0], other, headway.load(tmp_path / "theirs").model


def types_of(model: Masked, tokens: Tensor) -> Tensor:
    return torch.randint(0, model.config.types, tokens.shape)


def same(kind: str, model: Masked, hidden: Tensor, expected: Any, keep: Tensor | None = None, row: int = 0) -> None:
    """All heads agree with theirs, which read this row alone."""
    for name, read in HEADS[kind].items():
        found = read(model, hidden, keep)[row]
        if keep is not None and found.ndim == 2:
            found = found[keep[row]]
        assert close(found, expected[name][0]), name


@torch.no_grad()
def test_logits_and_hidden_states(pair: tuple[str, Any, Masked]) -> None:
    kind, other, model = pair
    for text in ragged(VOCABULARY, [1, 7, 19], side="left")[0]:
        types = types_of(model, text[None])
        expected = other(text[None], token_type_ids=types, output_hidden_states=True)
        layers = [model.dropout, *model.stack.blocks]  # the embedding ends in its dropout
        found = outputs_of(layers, lambda: model.hidden_states(text[None], types=types))  # noqa: B023 (called at once)
        assert len(found) == len(expected.hidden_states)
        for ours, hidden in zip(found, expected.hidden_states, strict=True):
            assert close(ours, hidden)
        same(kind, model, found[-1], expected)


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(pair: tuple[str, Any, Masked], side: str) -> None:
    kind, other, model = pair
    texts, tokens, keep = ragged(VOCABULARY, [5, 11, 2], side=side)
    types = types_of(model, tokens)
    layers = outputs_of(model.stack.blocks, lambda: model.hidden_states(tokens, keep=keep, types=types))
    for row, text in enumerate(texts):
        own = types[row][keep[row]][None]
        expected = other(text[None], token_type_ids=own, output_hidden_states=True)
        for ours, hidden in zip(layers, expected.hidden_states[1:], strict=True):
            assert close(ours[row][keep[row]], hidden[0])
        same(kind, model, layers[-1], expected, keep, row)


@torch.no_grad()
def test_their_own_padding_gives_the_same(pair: tuple[str, Any, Masked]) -> None:
    """On the right theirs is right too, so the whole batch can be compared."""
    _, other, model = pair
    _, tokens, keep = ragged(VOCABULARY, [5, 11, 2], side="right")
    expected = other(tokens, attention_mask=keep.long(), output_hidden_states=True).hidden_states[-1]
    assert close(model.hidden_states(tokens, keep=keep)[keep], expected[keep])


@torch.no_grad()
def test_what_is_saved_loads_there(pair: tuple[str, Any, Masked], tmp_path: Path) -> None:
    kind, other, model = pair
    headway.save(model, tmp_path / "ours")
    assert headway.load(tmp_path / "ours").model.config == model.config
    again, report = getattr(transformers, kind).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    assert again.config.architectures == [kind]
    tokens = torch.randint(0, VOCABULARY, (2, 13))
    for name in HEADS[kind]:
        assert torch.equal(again(tokens)[name], other(tokens)[name])
    keys = ["pad_token_id", "layer_norm_eps", "hidden_dropout_prob", "type_vocab_size", "hidden_act"]
    for key in [*keys, "id2label"] if model.config.classes else keys:
        assert getattr(again.config, key) == getattr(other.config, key), key


AUTO = {
    "BertModel": "AutoModel",
    "BertForMaskedLM": "AutoModelForMaskedLM",
    "BertForPreTraining": "AutoModelForPreTraining",
    "BertForNextSentencePrediction": "AutoModelForNextSentencePrediction",
    "BertForSequenceClassification": "AutoModelForSequenceClassification",
}


@pytest.mark.parametrize("kind", AUTO)
def test_the_auto_classes_find_it(kind: str, tmp_path: Path) -> None:
    theirs(kind, "plain", tmp_path / "theirs")
    headway.save(headway.load(tmp_path / "theirs").model, tmp_path / "ours")
    auto = getattr(transformers, AUTO[kind])
    again, report = auto.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert type(again).__name__ == kind
    assert not any(report[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys"))


@torch.no_grad()
@pytest.mark.parametrize(
    "name",
    [
        "tokens.weight", "positions.weight", "types.weight", "norm.bias", "stack.blocks.1.attention.value.weight",
        "stack.blocks.0.attention_norm.weight", "stack.blocks.2.feedforward.up.bias", "pooler.weight",
        "word_head.dense.weight", "word_head.norm.bias", "word_head.bias", "adjacent_head.weight",
    ],
)  # fmt: skip
def test_the_comparison_can_fail(name: str, tmp_path: Path) -> None:
    other = theirs("BertForPreTraining", "plain", tmp_path)
    model = headway.load(tmp_path).model
    tokens = torch.zeros(1, 7, dtype=torch.long)
    expected = other(tokens)
    same("BertForPreTraining", model, model.hidden_states(tokens), expected)
    parts_of(model)[name].view(-1)[0] += 0.1
    with pytest.raises(AssertionError, match="logits"):
        same("BertForPreTraining", model, model.hidden_states(tokens), expected)
