"""Classifiers on decoders beside transformers: the class of a text is read from its last token."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

import headway
from headway.decoding.reader import padded
from tests.parity.compare import close, far, outputs_of, ragged, shake
from tests.parity.decoders import EXACT, Double, V

ROTARY: dict[str, Any] = dict(
    vocab_size=V, hidden_size=60, intermediate_size=29, num_hidden_layers=2, num_attention_heads=6,
    num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-4, bos_token_id=1, eos_token_id=2,
    pad_token_id=0,
)  # fmt: skip
NAMES = dict(id2label={0: "bad", 1: "so so", 2: "good"}, label2id={"bad": 0, "so so": 1, "good": 2})
GPT2: dict[str, Any] = dict(
    vocab_size=V, n_embd=21, n_layer=2, n_head=3, n_positions=31, bos_token_id=1, eos_token_id=1, pad_token_id=0
)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", GPT2 | NAMES),
    "llama": ("llama", ROTARY | dict(num_labels=5)),
    "one number": ("llama", ROTARY | dict(num_labels=1, tie_word_embeddings=True)),
    "several": ("mistral", ROTARY | NAMES | dict(sliding_window=5, problem_type="multi_label_classification")),
    "qwen2": ("qwen2", ROTARY | NAMES | dict(pad_token_id=2)),
    "qwen3": ("qwen3", ROTARY | NAMES | dict(head_dim=14)),
    "smollm3": ("smollm3", ROTARY | NAMES | dict(no_rope_layer_interval=2)),
}


@pytest.fixture(scope="module", params=list(CASES))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Both in float64."""
    kind, sizes = CASES[request.param]
    place = tmp_path_factory.mktemp("theirs")
    torch.manual_seed(1)
    with Double():
        other = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(kind, **sizes)).eval().double()
        shake(other)
    other.save_pretrained(place)
    return other, headway.load(place)


@torch.no_grad()
def test_logits_and_hidden_states(pair: Any) -> None:
    other, (model, _, receipt) = pair
    assert receipt.expected == receipt.found and not receipt.unused
    for text in ragged(V, [2, 23], side="left")[0]:
        with Double():
            expected = other(text[None], output_hidden_states=True)
        assert far(model(text[None]), expected.logits) <= EXACT
        found = outputs_of(model.stack.blocks, lambda text=text: model(text[None]))
        for ours, hidden in zip(found[:-1], expected.hidden_states[1:-1], strict=True):
            assert far(ours, hidden) <= EXACT
        assert far(model.hidden_states(text[None]), expected.hidden_states[-1]) <= EXACT


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(pair: Any, side: str) -> None:
    other, (model, _, _) = pair
    texts, tokens, keep = ragged(V, [5, 13, 2], side=side)
    with Double():
        expected = torch.cat([other(text[None]).logits for text in texts])
    assert far(model(tokens, keep=keep), expected) <= EXACT


@torch.no_grad()
def test_a_batch_that_is_padded_there_too(pair: Any) -> None:
    """On the right: on the left, transformers counts GPT-2's positions from the padding on."""
    other, (model, _, _) = pair
    pad = other.config.pad_token_id
    _, tokens, keep = ragged(V, [5, 13, 2], side="right")
    tokens = tokens.where(tokens != pad, 7).where(keep, pad)
    with Double():
        expected = other(tokens, attention_mask=keep.long()).logits
    assert far(model(tokens, keep=keep), expected) <= EXACT


@torch.no_grad()
@pytest.mark.parametrize("left", [False, True])
def test_a_text_that_ends_in_the_pad_token(pair: Any, left: bool) -> None:
    """Read at the last token that is not one, though all are seen; a text of nothing else at its first."""
    other, (model, _, _) = pair
    pad = other.config.pad_token_id
    texts = [torch.tensor(ids) for ids in ([5, 9, pad], [pad, 5, pad, 8, 6, pad, pad], [pad, pad])]
    with Double():
        expected = torch.cat([other(text[None]).logits for text in texts])
        elsewhere = torch.cat([other(text[None, :-1]).logits for text in texts[:2]])
    assert far(expected[:2], elsewhere) <= EXACT  # it is the pad token that is passed over
    for text, logits in zip(texts, expected, strict=True):
        assert far(model(text[None])[0], logits) <= EXACT
    tokens, keep = padded([tuple(text.tolist()) for text in texts], left=left)
    assert far(model(tokens, keep=keep), expected) <= EXACT


@torch.no_grad()
def test_without_a_pad_token_the_last_is_read(tmp_path: Path) -> None:
    """transformers then reads one text at a time."""
    config = AutoConfig.for_model("gpt2", **GPT2 | dict(pad_token_id=None))
    torch.manual_seed(3)
    other = AutoModelForSequenceClassification.from_config(config).eval()
    shake(other)
    other.save_pretrained(tmp_path)
    model = headway.load(tmp_path).model
    texts, tokens, keep = ragged(V, [5, 13, 2], side="right")
    assert model.config.special.pad is None
    assert close(model(tokens, keep=keep), torch.cat([other(text[None]).logits for text in texts]))


@pytest.mark.parametrize(
    ("kind", "said"),
    [("phi3", "lacks 'lm_head.weight'"), ("granite", "no classifier on a granite .only on gpt2, llama")],
)
def test_other_families_are_refused(kind: str, said: str, tmp_path: Path) -> None:
    sizes = ROTARY | dict(num_labels=3)
    layout = "llama" if kind == "granite" else kind  # transformers has no class for granite
    AutoModelForSequenceClassification.from_config(AutoConfig.for_model(layout, **sizes)).save_pretrained(tmp_path)
    words = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(words | {"model_type": kind}))
    with pytest.raises(ValueError, match=said):
        headway.load(tmp_path)


@torch.no_grad()
def test_what_is_saved_loads_there(pair: Any, tmp_path: Path) -> None:
    other, (model, _, _) = pair
    headway.save(model, tmp_path / "ours")
    again, report = AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    tokens = torch.randint(3, V, (2, 13))
    assert type(again) is type(other) and again.config.id2label == other.config.id2label
    assert again.config.problem_type in (other.config.problem_type, "single_label_classification", "regression")
    assert close(again(tokens).logits, other(tokens).logits, tolerance=1e-6)
    assert headway.load(tmp_path / "ours").model.config == model.config


@torch.no_grad()
def test_the_comparison_can_fail(pair: Any) -> None:
    other, (model, _, _) = pair
    text = torch.arange(3, 14)[None]
    before = model.class_head.weight.clone()
    model.class_head.weight[0, 5] += 0.3
    assert not close(model(text), other(text).logits)
    model.class_head.weight.copy_(before)
    assert close(model(text), other(text).logits)


def test_what_the_classes_are(pair: Any) -> None:
    other, (model, _, _) = pair
    c = model.config
    assert [c.label(number) for number in range(c.classes)] == list(other.config.id2label.values())
    outcome = {"multi_label_classification": "several"}.get(
        other.config.problem_type, "value" if c.classes == 1 else "one"
    )
    assert c.outcome == outcome
