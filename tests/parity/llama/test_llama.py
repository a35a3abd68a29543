"""Llama, Mistral and Qwen2 beside transformers: logits, hidden states, padding, caches, windows, and the way back."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import headway
from headway.hub.families.rotary import read_rotary
from headway.hub.parts import parts_of
from headway.nn.cache import WindowCache
from headway.ops.rotary import rotary_amplitude, rotary_frequencies
from tests.parity.compare import close, outputs_of, ragged, shake
from tests.parity.decoders import DecoderParity

V = 53
LLAMA3 = dict(
    rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64
)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, rope_theta=500.0)
SHAPES = {
    "plain": dict(model_type="llama"),
    "tied": dict(model_type="llama", tie_word_embeddings=True, rope_theta=500000.0, num_key_value_heads=1),
    "biases": dict(model_type="llama", attention_bias=True, mlp_bias=True, num_key_value_heads=6),
    "narrow heads": dict(model_type="llama", head_dim=10, hidden_act="gelu_pytorch_tanh"),
    "linear": dict(model_type="llama", rope_scaling=dict(type="linear", factor=3.0)),
    "llama3": dict(model_type="llama", rope_theta=100.0, rope_scaling=LLAMA3),
    "yarn": dict(model_type="llama", rope_parameters=YARN),
    "yarn by hand": dict(
        model_type="qwen2",
        rope_parameters=YARN | dict(attention_factor=0.7, beta_fast=4.0, beta_slow=0.5, truncate=False),
    ),
    "yarn twice": dict(model_type="mistral", rope_parameters=YARN | dict(mscale=0.7, mscale_all_dim=1.3)),
    "mistral": dict(model_type="mistral", sliding_window=5),
    "mistral without": dict(model_type="mistral", sliding_window=None, head_dim=8),
    "qwen2": dict(model_type="qwen2", tie_word_embeddings=True),
    "qwen2 window": dict(model_type="qwen2", use_sliding_window=True, sliding_window=3, max_window_layers=0),
}
SIZES = dict(
    vocab_size=V, hidden_size=42, intermediate_size=29, num_hidden_layers=2, num_attention_heads=6,
    num_key_value_heads=2, head_dim=14, max_position_embeddings=64, rms_norm_eps=1e-4,
)  # fmt: skip


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    place = tmp_path_factory.mktemp("theirs")
    torch.manual_seed(1)
    other = AutoModelForCausalLM.from_config(AutoConfig.for_model(**SIZES | SHAPES[request.param])).eval()
    shake(other)
    other.save_pretrained(place)
    return other, headway.load(place).model


@torch.no_grad()
def test_logits_and_hidden_states(pair) -> None:
    other, model = pair
    for text in ragged(V, [2, 31], side="left")[0]:
        expected = other(text[None], output_hidden_states=True)
        assert close(model(text[None]), expected.logits)
        found = outputs_of(model.stack.blocks, lambda text=text: model(text[None]))
        for ours, hidden in zip(found[:-1], expected.hidden_states[1:-1], strict=True):
            assert close(ours, hidden)
        assert close(model.hidden_states(text[None]), expected.hidden_states[-1])


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(pair, side: str) -> None:
    other, model = pair
    texts, tokens, keep = ragged(V, [5, 13, 2], side=side)
    found = model(tokens, keep=keep)
    for row, text in enumerate(texts):
        assert close(found[row][keep[row]], other(text[None]).logits[0])


@torch.no_grad()
@pytest.mark.parametrize(("side", "cache"), [("left", True), ("right", True), ("left", False)])
def test_a_cache_changes_nothing(pair, side: str, cache: bool) -> None:
    """Ragged prompts, then three tokens at once, then one by one: past the window, where there is one."""
    other, model = pair
    texts, tokens, keep = ragged(V, [7, 3, 11], side=side)
    more = torch.randint(0, V, (3, 6), generator=torch.Generator().manual_seed(2))
    session = model.session(cache=cache)
    found = [session.read(tokens, keep), session.read(more[:, :3])]
    found += [session.read(more[:, i : i + 1]) for i in range(3, 6)]
    for row, text in enumerate(texts):
        expected = other(torch.cat([text, more[row]])[None]).logits[0]
        for ours, after in zip(found, (0, 3, 4, 5, 6), strict=True):
            assert close(ours[row], expected[len(text) + after - 1])


@torch.no_grad()
def test_what_is_saved_loads_there(pair, tmp_path: Path) -> None:
    other, model = pair
    headway.save(model, tmp_path / "ours")
    again, report = AutoModelForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    tokens = torch.randint(0, V, (2, 13))
    assert type(again) is type(other)
    assert close(again(tokens).logits, other(tokens).logits, tolerance=1e-6)
    assert headway.load(tmp_path / "ours").model.config == model.config


@torch.no_grad()
def test_the_comparison_can_fail(pair) -> None:
    other, model = pair
    text = torch.arange(11)[None]
    expected = other(text).logits
    for name in ("attention.key", "attention.out", "feedforward.gate", "feedforward_norm"):
        weight = parts_of(model)[f"stack.blocks.1.{name}.weight"]
        before = weight.clone()
        weight.view(-1)[5] += 0.1
        assert not close(model(text), expected), name
        weight.copy_(before)
    assert close(model(text), expected)


@torch.no_grad()
@pytest.mark.parametrize("window", [1, 5])
def test_decoding_far_past_the_window(window: int, tmp_path: Path) -> None:
    """37 tokens through a cache of `window`: theirs whole, theirs with its own cache, ours piece by piece."""
    torch.manual_seed(3)
    other = AutoModelForCausalLM.from_config(
        AutoConfig.for_model("mistral", **SIZES | dict(sliding_window=window))
    ).eval()
    shake(other)
    other.save_pretrained(tmp_path)
    model = headway.load(tmp_path).model
    text = torch.randint(0, V, (2, 37))
    whole = other(text).logits
    assert close(model(text), whole)
    session, place, past = model.session(), 0, None
    for count in (11, 1, 7, 2, *[1] * 16):
        piece = text[:, place : place + count]
        place += count
        assert close(session.read(piece), whole[:, place - 1])
        if window > 1:  # theirs fails with a cache of one token
            step = other(piece, past_key_values=past, use_cache=True)
            past = step.past_key_values
            assert close(step.logits[:, -1], whole[:, place - 1])
    states = [block.own for block in session.caches]
    assert all(isinstance(state, WindowCache) and state.columns == window for state in states)
    assert session.room is None


@torch.no_grad()
def test_rows_that_come_and_go_past_the_window(tmp_path: Path) -> None:
    """A text of 17 tokens, one of 3 that joins it, and both again in the other order: each as if it were alone."""
    torch.manual_seed(6)
    other = AutoModelForCausalLM.from_config(AutoConfig.for_model("mistral", **SIZES | dict(sliding_window=5))).eval()
    shake(other)
    other.save_pretrained(tmp_path)
    model = headway.load(tmp_path).model
    long, short = torch.randint(0, V, (1, 17)), torch.randint(0, V, (1, 3))
    session, late = model.session(), model.session()
    for piece in long.split(1, dim=1):
        session.read(piece)
    late.read(short)
    session.join(late)
    session.select(torch.tensor([1, 0, 1]))
    more = torch.randint(0, V, (3, 7))
    found = [session.read(more[:, :2]), *(session.read(more[:, i : i + 1]) for i in range(2, 7))]
    for row, text in enumerate((short, long, short)):
        expected = other(torch.cat([text, more[row : row + 1]], dim=1)).logits[0, -6:]
        assert close(torch.stack([logits[row] for logits in found]), expected)


@torch.no_grad()
def test_the_window_is_not_one_longer_or_shorter(tmp_path: Path) -> None:
    torch.manual_seed(4)
    other = AutoModelForCausalLM.from_config(AutoConfig.for_model("mistral", **SIZES | dict(sliding_window=5))).eval()
    shake(other)
    other.save_pretrained(tmp_path)
    text = torch.randint(0, V, (1, 17))
    stated = json.loads((tmp_path / "config.json").read_text())
    for window in (4, 5, 6):
        (tmp_path / "config.json").write_text(json.dumps(stated | {"sliding_window": window}))
        assert close(headway.load(tmp_path).model(text), other(text).logits) == (window == 5)


@pytest.mark.parametrize(
    "stated",
    [
        dict(rope_type="linear", factor=2.5, rope_theta=1e4),
        LLAMA3 | dict(rope_theta=5e5, original_max_position_embeddings=8192),
        LLAMA3 | dict(rope_theta=1e4, factor=32.0, low_freq_factor=0.5, high_freq_factor=9.0),
        YARN | dict(rope_theta=1e6, original_max_position_embeddings=32768),
        YARN | dict(rope_theta=1e4, original_max_position_embeddings=2048, beta_fast=64.0, beta_slow=2.0, factor=16.0),
        YARN | dict(rope_theta=1e5, original_max_position_embeddings=5, truncate=False),
        YARN | dict(rope_theta=20.0, original_max_position_embeddings=3000, mscale=1.0, mscale_all_dim=0.5),
    ],
)
@pytest.mark.parametrize("width", [64, 128])
def test_frequencies_of_every_pair(stated: dict, width: int) -> None:
    config = AutoConfig.for_model("llama", hidden_size=2 * width, num_attention_heads=2, rope_parameters=dict(stated))
    expected, amplitude = ROPE_INIT_FUNCTIONS[stated["rope_type"]](config)
    ours = read_rotary({"rope_parameters": stated})
    found = rotary_frequencies(width, base=ours.base, scaling=ours.scaling)
    torch.testing.assert_close(found, expected.double(), rtol=1e-6, atol=0)
    assert rotary_amplitude(ours.scaling) == pytest.approx(amplitude, rel=1e-12)


LONG = dict(
    rope_type="longrope", short_factor=[1.0, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0],
    long_factor=[1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0], original_max_position_embeddings=12,
)  # fmt: skip


class TestLengthMatters(DecoderParity):
    """Texts on both sides of the length from which all of their tokens are turned otherwise."""

    model_type = "llama"
    sizes = SIZES
    shapes = {  # noqa: RUF012
        "dynamic": dict(max_position_embeddings=12, rope_scaling=dict(rope_type="dynamic", factor=4.0)),
        "longrope": dict(rope_scaling=LONG),
        "longrope by hand": dict(rope_scaling=LONG | dict(factor=3.0, attention_factor=1.2), rope_theta=500.0),
    }

    def call(self, other: Any, text: torch.Tensor, **more: Any) -> Any:
        """Theirs remembers the longest text that it has seen, and turns shorter ones as that: it is made to forget."""
        turned = other.model.rotary_emb
        turned.inv_freq, turned.max_seq_len_cached = turned.original_inv_freq.clone(), turned.original_max_seq_len
        return super().call(other, text, **more)

    @torch.no_grad()
    def test_rows_of_both_lengths_in_one_batch(self, pair: Any) -> None:
        """Each as if it were alone; theirs turns all by the longest."""
        other, model = pair
        texts, tokens, keep = ragged(V, [11, 31, 12, 13], side="right")
        session = model.session()
        session.read(tokens, keep)
        more = torch.randint(0, V, (4, 2))
        found = [session.read(more[:, i : i + 1]) for i in range(2)]
        session.select(torch.tensor([2, 0]))
        found.append(session.read(more[[2, 0], :1]))
        for row, text in enumerate(texts):
            whole = torch.cat([text, more[row], more[row, :1]])
            for ours, end in ((found[0][row], 1), (found[1][row], 2)):
                assert close(ours, self.call(other, whole[None, : len(text) + end]).logits[0, -1])
        for row, place in ((2, 0), (0, 1)):
            whole = torch.cat([texts[row], more[row], more[row, :1]])
            assert close(found[2][place], self.call(other, whole[None]).logits[0, -1])

    def test_the_two_sides_differ(self, pair: Any) -> None:
        _, model = pair
        text = torch.arange(30)[None]
        assert not close(model(text)[:, :12], model(text[:, :12]), tolerance=1e-3)
        assert close(model(text[:, :12])[:, :7], model(text[:, :7]))


@torch.no_grad()
def test_a_bare_model_without_prefix(tmp_path: Path) -> None:
    config = AutoConfig.for_model("llama", **SIZES | dict(tie_word_embeddings=True))
    other = AutoModelForCausalLM.from_config(config).eval()
    shake(other)
    other.model.save_pretrained(tmp_path)
    text = torch.arange(7)[None]
    assert close(headway.load(tmp_path).model(text), other(text).logits)


@torch.no_grad()
def test_long_texts_agree_as_far_as_float32_angles_do(tmp_path: Path) -> None:
    """Theirs are products in float32, ours are rounded once: at position 400 they differ by some 1e-5."""
    torch.manual_seed(5)
    other = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **SIZES | dict(max_position_embeddings=512)))
    shake(other)
    other.save_pretrained(tmp_path)
    text = torch.randint(0, V, (1, 401))
    assert close(headway.load(tmp_path).model(text), other.eval()(text).logits, tolerance=1e-4)
