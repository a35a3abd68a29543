"""GPT-2 beside transformers: logits, hidden states, padding, caches, and the way back."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

import headway
from headway.hub.parts import parts_of
from tests.parity.compare import close, outputs_of, ragged, shake

VOCABULARY = 53
SHAPES = [
    dict(n_embd=21, n_head=3, n_layer=2, n_positions=23, n_inner=37),
    dict(n_embd=22, n_head=2, n_layer=3, n_positions=19, activation_function="relu"),
    dict(n_embd=20, n_head=5, n_layer=2, n_positions=17, tie_word_embeddings=False),
]


def theirs(shape: dict, path: Path) -> GPT2LMHeadModel:
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, **shape)).eval()
    shake(model)
    model.save_pretrained(path)
    return model


@pytest.fixture(params=range(len(SHAPES)), ids=["plain", "relu", "untied"])
def pair(request: pytest.FixtureRequest, tmp_path: Path):
    other = theirs(SHAPES[request.param], tmp_path / "theirs")
    return other, headway.load(tmp_path / "theirs").model


@torch.no_grad()
def test_logits_and_hidden_states(pair) -> None:
    other, model = pair
    for text in ragged(VOCABULARY, [5, 7, 13], side="left")[0]:
        expected = other(text[None], output_hidden_states=True)
        assert close(model(text[None]), expected.logits)
        found = outputs_of(model.stack.blocks, lambda text=text: model(text[None]))
        # Theirs: the embedding, each block but the last, and the last after the final norm.
        for ours, hidden in zip(found[:-1], expected.hidden_states[1:-1], strict=True):
            assert close(ours, hidden)
        assert close(model.hidden_states(text[None]), expected.hidden_states[-1])


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(pair, side: str) -> None:
    other, model = pair
    texts, tokens, keep = ragged(VOCABULARY, [5, 11, 2], side=side)
    found = model(tokens, keep=keep)
    for row, text in enumerate(texts):
        assert close(found[row][keep[row]], other(text[None]).logits[0])


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_cache_changes_nothing(pair, side: str) -> None:
    other, model = pair
    texts, tokens, keep = ragged(VOCABULARY, [5, 3, 2], side=side)
    session = model.session(capacity=16)
    more = torch.randint(0, VOCABULARY, (3, 4))
    found = [session.read(tokens, keep), session.read(more[:, :3]), session.read(more[:, 3:])]
    for row, text in enumerate(texts):
        whole = torch.cat([text, more[row]])
        expected = other(whole[None]).logits[0]
        for ours, place in zip(found, (len(text) - 1, len(text) + 2, len(text) + 3), strict=True):
            assert close(ours[row], expected[place])


@torch.no_grad()
def test_what_is_saved_loads_there(pair, tmp_path: Path) -> None:
    other, model = pair
    headway.save(model, tmp_path / "ours")
    again, report = AutoModelForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    tokens = torch.randint(0, VOCABULARY, (2, 13))
    assert torch.equal(again(tokens).logits, other(tokens).logits)
    assert (again.config.n_inner or 4 * again.config.n_embd) == model.config.stack.block.feedforward.hidden
    assert headway.load(tmp_path / "ours").model.config == model.config


@torch.no_grad()
def test_the_comparison_can_fail(pair) -> None:
    other, model = pair
    tokens = torch.randint(0, VOCABULARY, (1, 7))
    parts_of(model)["stack.blocks.1.attention.value.weight"][2, 3] += 0.1
    assert not close(model(tokens), other(tokens).logits)
