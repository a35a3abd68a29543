"""Encoder-decoders by themselves: padding, sessions, gradients, in float64; tests/parity asks other libraries."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import headway
from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Special, StackConfig
from headway.config.text import Forced, Seq2SeqConfig
from headway.models import count, make
from headway.models.seq2seq import HalvedPositions, Seq2Seq
from headway.ops.bias import Relative
from headway.ops.mask.pairs import Pairs
from tests.fresh import fresh

SOURCE, TARGET = 53, 47
LENGTHS, TARGETS = [7, 11, 2], [5, 3, 13]


def config(**changes: Any) -> Seq2SeqConfig:
    """Encoder and decoder differ in every size: width 14 and 22, heads 2 and 11, layers 2 and 3."""
    encoder = BlockConfig(
        attention=AttentionConfig(width=14, heads=2, bias=True),
        feedforward=FeedForwardConfig(hidden=19),
        order=changes.pop("order", "pre"),
    )
    bias = changes.pop("bias", None)
    decoder = BlockConfig(
        attention=AttentionConfig(width=22, heads=11, causal=True),
        cross=AttentionConfig(width=22, heads=2, source_width=14, output_bias=True),
        feedforward=FeedForwardConfig(hidden=23, gated=True),
        norm="rms",
    )
    made = {
        "vocabulary": SOURCE,
        "target_vocabulary": TARGET,
        "length": 17,
        "encoder": StackConfig(block=encoder, layers=2, final_norm=True, bias=bias),
        "decoder": StackConfig(block=decoder, layers=3, final_norm=True, bias=bias),
        "special": Special(end=(1,), pad=0, start=2),
    }
    return Seq2SeqConfig(**{**made, **changes})


KINDS = {
    "learned": dict(positions="learned", offset=3, embedding_norm=True, order="post"),
    "halves": dict(positions="halves", embedding_scale=3.7, tied=False, head_bias=True, head_scale=0.3),
    "sinusoidal": dict(positions="sinusoidal"),
    "timing": dict(positions="timing", offset=2),
    "relative": dict(bias={"kind": "relative", "buckets": 6, "max_distance": 5}, length=None),
}


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    return of(request.param)


@pytest.fixture(params=["learned", "relative"])
def either(request: pytest.FixtureRequest) -> Seq2Seq:
    """Positions in the embedding, or in a bias: what sessions have to carry on."""
    return of(request.param)


def of(kind: str) -> Seq2Seq:
    return fresh(config(**KINDS[kind]), std=0.3, dtype=torch.float64)


def texts(vocabulary: int, lengths: list[int]) -> list[Tensor]:
    # Token 0 is left to padding.
    return [torch.randint(1, vocabulary, (length,)) for length in lengths]


def padded(rows: list[Tensor], side: str) -> tuple[Tensor, Tensor]:
    total = max(map(len, rows)) + 1  # one column of nothing but padding
    tokens = torch.zeros(len(rows), total, dtype=torch.long)
    for row, text in enumerate(rows):
        tokens[row, slice(total - len(text), total) if side == "left" else slice(0, len(text))] = text
    return tokens, tokens != 0


def poison(model: Seq2Seq, *, target: bool = True) -> None:
    """Whoever looks at padding gets NaN."""
    with torch.no_grad():
        model.tokens.weight[0] = float("nan")
        if target and model.target_tokens is not None:
            model.target_tokens.weight[0] = float("nan")


@pytest.mark.parametrize("sides", [("left", "right"), ("right", "left")])
def test_a_batch_is_its_texts(model: Seq2Seq, sides: tuple[str, str]) -> None:
    sources, targets = texts(SOURCE, LENGTHS), texts(TARGET, TARGETS)
    (source, source_keep), (target, target_keep) = padded(sources, sides[0]), padded(targets, sides[1])
    expected = [model(s[None], t[None])[0] for s, t in zip(sources, targets, strict=True)]
    poison(model)
    found = model(source, target, source_keep=source_keep, target_keep=target_keep)
    for row, logits in enumerate(expected):
        # A tied head has a column of NaN for the padding itself.
        assert torch.allclose(found[row][target_keep[row]][:, 1:], logits[:, 1:], rtol=0, atol=1e-11)


def test_gradients_of_a_batch_are_those_of_its_texts(model: Seq2Seq) -> None:
    sources, targets = texts(SOURCE, LENGTHS), texts(TARGET, TARGETS)
    (source, source_keep), (target, target_keep) = padded(sources, "left"), padded(targets, "right")
    sum(model(s[None], t[None])[..., 1:].sin().sum() for s, t in zip(sources, targets, strict=True)).backward()
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    poison(model, target=not model.config.tied)  # a tied head multiplies every hidden row with it
    found = model(source, target, source_keep=source_keep, target_keep=target_keep)[target_keep]
    found[:, 1:].sin().sum().backward()
    for name, parameter in model.named_parameters():
        assert expected[name] is not None and bool((expected[name] != 0).any()), name
        assert torch.allclose(parameter.grad, expected[name], rtol=0, atol=1e-9), name


def test_a_target_never_sees_what_follows(either: Seq2Seq) -> None:
    (source,), (target,) = texts(SOURCE, [7]), texts(TARGET, [13])
    whole = either(source[None], target[None])
    for end in (1, 5):
        assert torch.allclose(either(source[None], target[None, :end]), whole[:, :end], rtol=0, atol=1e-11)
    other = (source + 1) % SOURCE
    assert not torch.allclose(either(other[None], target[None]), whole, atol=1e-3)


@pytest.mark.parametrize(("side", "cache"), [("left", True), ("right", True), ("left", False)])
def test_a_session_reads_what_forward_reads(either: Seq2Seq, side: str, cache: bool) -> None:
    sources, targets = texts(SOURCE, LENGTHS), texts(TARGET, [4, 1, 3])
    (source, keep), (target, target_keep) = padded(sources, side), padded(targets, side)
    session = either.session(source, keep=keep, cache=cache)
    assert (session.rows, session.lengths.tolist()) == (3, [0, 0, 0])
    found = [session.read(target, target_keep)]
    more = torch.randint(1, TARGET, (3, 6))
    found += [session.read(piece) for piece in more.split([1, 1, 4], dim=1)]
    assert session.lengths.tolist() == [10, 7, 9]
    assert session.room == (None if either.config.length is None else 7)
    for row, (s, t) in enumerate(zip(sources, targets, strict=True)):
        expected = either(s[None], torch.cat([t, more[row]])[None])[0]
        for logits, place in zip(found, (0, 1, 2, 6), strict=True):
            assert torch.allclose(logits[row], expected[len(t) - 1 + place], rtol=0, atol=1e-11)


@pytest.mark.parametrize("cache", [True, False])
def test_rows_leave_repeat_and_join(either: Seq2Seq, cache: bool) -> None:
    sources, start = texts(SOURCE, [5, 11, 3]), torch.full((2, 1), 2)
    source, keep = padded(sources[:2], "left")
    session, late = either.session(source, keep=keep, cache=cache), either.session(sources[2][None], cache=cache)
    session.read(start)
    session.read(torch.tensor([[7], [9]]))
    late.read(start[:1])
    session.select(torch.tensor([1, 0, 1]))
    session.join(late)
    session.select(torch.tensor([3, 0, 2]))
    found = session.read(torch.tensor([[5], [6], [4]]))
    assert session.rows == 3 and session.lengths.tolist() == [2, 3, 3]
    rows = [(sources[2], [2, 5]), (sources[1], [2, 9, 6]), (sources[1], [2, 9, 4])]
    for logits, (text, target) in zip(found, rows, strict=True):
        assert torch.allclose(logits, either(text[None], torch.tensor([target]))[0, -1], rtol=0, atol=1e-11)


def test_rows_may_be_chosen_before_anything_is_read(either: Seq2Seq) -> None:
    sources = texts(SOURCE, [5, 11])
    source, keep = padded(sources, "left")
    for cache in (True, False):
        session = either.session(source, keep=keep, cache=cache)
        session.select(torch.tensor([1, 1, 0]))
        found = session.read(torch.full((3, 1), 2))
        for logits, text in zip(found, (sources[1], sources[1], sources[0]), strict=True):
            assert torch.allclose(logits, either(text[None], torch.tensor([[2]]))[0, 0], rtol=0, atol=1e-11)


def test_an_empty_session_takes_others_in(either: Seq2Seq) -> None:
    (source,) = texts(SOURCE, [5])
    expected = either(source[None], torch.tensor([[2, 3]]))[0, 1]
    for cache in (True, False):
        session, other = either.session(source[None][:0], cache=cache), either.session(source[None], cache=cache)
        other.read(torch.tensor([[2]]))
        session.join(other)
        assert torch.allclose(session.read(torch.tensor([[3]]))[0], expected, rtol=0, atol=1e-11)


def test_the_source_is_projected_once() -> None:
    """Opening a session makes the source's keys; a step makes those of one token in self-attention alone."""
    model = of("learned")
    rows: list[int] = []
    for block in model.decoder.blocks:
        block.cross.key_value.register_forward_hook(lambda module, inputs, output: rows.append(output.shape[1]))
    (source,) = texts(SOURCE, [11])
    session = model.session(source[None])
    assert rows == [11, 11, 11]
    for _ in range(3):
        session.read(torch.tensor([[2]]))
    assert rows == [11, 11, 11]


def test_a_session_refuses() -> None:
    model = of("learned")
    source, _ = padded(texts(SOURCE, [5, 3]), "left")
    session = model.session(source)
    with pytest.raises(ValueError, match="2 sources, and there are tokens for 3 targets"):
        session.read(torch.full((3, 1), 2))
    session.read(torch.full((2, 1), 2))
    with pytest.raises(ValueError, match="read something"):
        session.join(model.session(source))
    with pytest.raises(ValueError, match="attends to a source"):
        model.hidden_states(torch.tensor([[2]]))


def test_tokens_outside_of_their_vocabulary_are_refused() -> None:
    model = of("learned")
    inside, source, target = torch.tensor([[3]]), torch.tensor([[SOURCE]]), torch.tensor([[TARGET]])
    with pytest.raises(ValueError, match="token 53 is outside of the vocabulary of 53"):
        model(source, inside)
    with pytest.raises(ValueError, match="token 47 is outside of the vocabulary of 47"):
        model(inside, target)
    model(target, inside)


def test_the_head_is_its_equation(model: Seq2Seq) -> None:
    """logits = scale · h Wᵀ + bias, W the target's embedding where tied."""
    c, hidden = model.config, torch.randn(3, 5, 22).double()
    weight = model.target_tokens.weight if c.tied else model.head.weight
    expected = c.head_scale * hidden @ weight.T + (0 if model.head_bias is None else model.head_bias[0])
    assert torch.allclose(model.logits(hidden), expected, rtol=0, atol=1e-11)
    assert torch.allclose(model.logits(hidden[0, 0]), expected[0, 0], rtol=0, atol=1e-11)


@torch.no_grad()
def test_the_entrance_is_its_equation(model: Seq2Seq) -> None:
    c, x, places = model.config, torch.randn(1, 5, 14).double(), np.arange(5)
    angles = places[:, None] / 10000 ** (np.arange(0, 14, 2) / 14)
    sines, cosines = np.sin(angles), np.cos(angles)
    timing = (places[:, None] + 2) / 10000 ** (np.arange(7) / 6)
    position = {
        "none": np.zeros((5, 14)),
        "halves": np.concatenate([sines, cosines], axis=1),
        "sinusoidal": np.stack([sines, cosines], axis=2).reshape(5, 14),
        "timing": np.concatenate([np.sin(timing), np.cos(timing)], axis=1),
        "learned": model.source_entrance.positions.weight[3:8].numpy() if c.positions == "learned" else None,
    }[c.positions]
    expected = c.embedding_scale * x + torch.from_numpy(position)
    expected = model.source_entrance.norm(expected)
    assert c.embedding_norm == bool(list(model.source_entrance.norm.parameters()))
    found = model.source_entrance(x, torch.arange(5)[None])
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("width", [5, 8])
def test_sines_first(width: int) -> None:
    found = HalvedPositions(width)(torch.zeros(1, 3, width).double(), torch.tensor([0, 2, 9]))[0].numpy()
    half = (width + 1) // 2
    for row, place in zip(found, (0, 2, 9), strict=True):
        rates = 10000.0 ** (-2 * np.arange(half) / width)
        assert np.allclose(row[:half], np.sin(place * rates), atol=1e-12)
        assert np.allclose(row[half:], np.cos(place * rates[: width - half]), atol=1e-12)


def test_one_embedding_serves_both() -> None:
    same = config(target_vocabulary=None, encoder=_wide(), decoder=_decoder()).model_dump()
    model = make(Seq2SeqConfig(**same))
    assert model.target_tokens is None and model.logits(torch.zeros(1, 22)).shape == (1, SOURCE)
    assert count(model.config) == sum(parameter.numel() for parameter in model.parameters())


def _wide() -> StackConfig:
    return StackConfig(block=BlockConfig(attention=AttentionConfig(width=22, heads=2)), layers=1)


def _decoder() -> StackConfig:
    own = AttentionConfig(width=22, heads=2)
    return StackConfig(block=BlockConfig(attention=own.model_copy(update={"causal": True}), cross=own), layers=1)


# The bias that layers share


class Counted(Relative):
    """A rule that counts how often it makes a table."""

    made = 0

    def table(self, parameters: tuple[Tensor, ...], pairs: Pairs) -> Tensor:
        Counted.made += 1
        return super().table(parameters, pairs)


def test_a_pass_makes_one_table_of_its_bias_for_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both stacks, and a step with a cache."""
    model = fresh(config(**KINDS["relative"]), std=0.3)
    for stack in (model.encoder, model.decoder):
        rule = stack.bias()
        counted = Counted(rule.weight, rule.bidirectional, rule.max_distance)
        monkeypatch.setattr(stack.bias, "forward", lambda counted=counted: counted)
    source, target = torch.randint(1, SOURCE, (2, 7)), torch.randint(1, TARGET, (2, 5))
    Counted.made = 0
    with torch.no_grad():
        model(source, target)
        assert Counted.made == 2
        session = model.session(source)
        session.read(target)
        Counted.made = 0
        session.read(target[:, :1])
    assert Counted.made == 1


# Configurations


@pytest.mark.parametrize("kind", KINDS)
def test_its_own_layout_says_everything(kind: str, tmp_path: Path) -> None:
    made = config(**KINDS[kind], forced=Forced(first=3, last=1, never=(0, 5)))
    model = fresh(made, std=0.3)
    headway.save(model, tmp_path / "model")
    again = headway.load(tmp_path / "model").model
    assert again.config == made and Seq2SeqConfig(**made.model_dump(mode="json")) == made
    source, target = torch.randint(0, SOURCE, (2, 7)), torch.randint(0, TARGET, (2, 5))
    assert torch.equal(again(source, target), model(source, target))


def test_a_length_is_a_limit() -> None:
    for kind, length in (("learned", 17), ("halves", 17), ("relative", None)):
        model, text = fresh(config(**KINDS[kind])), torch.ones(1, 18, dtype=torch.long)
        if length is None:
            assert model.encode(text).shape == (1, 18, 14)
            continue
        assert model.encode(text[:, 1:]).shape == (1, 17, 14)
        with pytest.raises(ValueError, match="this model has 17 positions, and the text has a token at position 17"):
            model.encode(text)
        # Padding takes no positions.
        assert model.encode(text, keep=torch.arange(18)[None] > 0).shape == (1, 18, 14)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"encoder": _decoder()}, "an encoder sees its whole source"),
        ({"decoder": _wide()}, "a decoder predicts what follows"),
        ({"encoder": _wide()}, "a source of width 14, and the encoder gives 22"),
        ({"target_vocabulary": None}, "one embedding serves stacks of one width, not 14 and 22"),
        ({"positions": "learned", "length": None}, "learned positions has a length"),
        ({"offset": 2}, "an offset of 2 is for learned positions"),
        ({"positions": "rotary"}, "cannot take positions='rotary'"),
        ({"head_bais": True}, "did you mean head_bias"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        config(**changes)


def test_masks_by_the_names_of_other_libraries() -> None:
    """1 and 0, as a tokenizer there gives them."""
    keep = torch.tensor([[1, 1, 0], [1, 1, 1]])
    tokens = torch.tensor([[5, 7, 0], [2, 3, 4]])
    sizes: dict[str, Any] = {"layers": 1, "width": 12, "heads": 3, "vocabulary": 17, "length": 7}
    for preset in ("gpt2", "bert-base"):
        model = headway.build(preset, **sizes).eval()
        assert torch.equal(model(tokens, attention_mask=keep), model(tokens, keep=keep.bool())), preset
        with pytest.raises(ValueError, match="another name of the mask of real tokens"):
            model(tokens, attention_mask=keep, keep=keep)
    pair = headway.build("t5-small", width=12, heads=3, hidden=17, vocabulary=17).eval()
    ours = pair(tokens, tokens, source_keep=keep.bool(), target_keep=keep.bool())
    assert torch.equal(pair(tokens, tokens, attention_mask=keep, decoder_attention_mask=keep), ours)
