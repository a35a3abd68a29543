"""The masked-word model: its equations, its heads, and that padding, company and packing change nothing."""

from typing import Any

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import AttentionConfig
from headway.config.text import MaskedConfig
from headway.models import on_meta
from headway.models.encoder import Masked, first_real
from headway.ops.mask import segments
from headway.presets.bert import bert
from tests.fresh import fresh

SIZES: dict[str, Any] = dict(width=22, heads=2, layers=3, hidden=7, vocabulary=19, length=13, types=3, dropout=0.0)
EVERY_HEAD: dict[str, Any] = dict(words=True, adjacent=True, inverted=True, inference=3, classes=5)
LENGTHS = (11, 5, 2)


def random(*, std: float = 0.5, **changes: Any) -> Masked:
    """A model in which nothing is 1 or 0."""
    model = fresh(bert(**{**SIZES, **EVERY_HEAD, **changes}), dtype=torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * std)
    return model


def texts(model: Masked) -> list[tuple[Tensor, Tensor]]:
    """Tokens and types of texts of different lengths."""
    c = model.config
    return [(torch.randint(1, c.vocabulary, (n,)), torch.randint(0, c.types, (n,))) for n in LENGTHS]


def batch(rows: list[Tensor], side: str) -> tuple[Tensor, Tensor]:
    """The rows padded with 0 on one side, and which tokens are real."""
    total = max(map(len, rows)) + 1  # even the longest is padded
    pads = [(total - len(row), 0) if side == "left" else (0, total - len(row)) for row in rows]
    padded = torch.stack([F.pad(row, pad) for row, pad in zip(rows, pads, strict=True)])
    real = torch.stack([F.pad(torch.ones_like(row), pad) for row, pad in zip(rows, pads, strict=True)])
    return padded, real.bool()


def test_the_embedding_and_the_heads_are_their_equations() -> None:
    """The stack has tests of its own; here it is taken as it is."""
    model = random()
    tokens, types = torch.randint(0, 19, (2, 5)), torch.randint(0, 3, (2, 5))
    seen = {}
    model.stack.blocks[0].register_forward_hook(lambda _, given, __: seen.update(x=given[0]))
    hidden = model.hidden_states(tokens, types=types)
    w = dict(model.named_parameters())
    x = w["tokens.weight"][tokens] + w["positions.weight"][:5] + w["types.weight"][types]
    torch.testing.assert_close(seen["x"], F.layer_norm(x, (22,), w["norm.weight"], w["norm.bias"], eps=1e-12))
    pooled = torch.tanh(hidden[:, 0] @ w["pooler.weight"].T + w["pooler.bias"])
    torch.testing.assert_close(model.pooled(hidden), pooled)
    torch.testing.assert_close(model.adjacent(hidden), pooled @ w["adjacent_head.weight"].T + w["adjacent_head.bias"])
    torch.testing.assert_close(model.inverted(hidden), pooled @ w["inverted_head.weight"].T + w["inverted_head.bias"])
    inference = pooled @ w["inference_head.weight"].T + w["inference_head.bias"]
    torch.testing.assert_close(model.inference(hidden), inference)
    torch.testing.assert_close(model.classify(hidden), pooled @ w["class_head.weight"].T + w["class_head.bias"])
    y = F.gelu(hidden @ w["word_head.dense.weight"].T + w["word_head.dense.bias"])
    y = F.layer_norm(y, (22,), w["word_head.norm.weight"], w["word_head.norm.bias"], eps=1e-12)
    torch.testing.assert_close(model.words(hidden), y @ w["tokens.weight"].T + w["word_head.bias"])


@pytest.mark.parametrize(
    ("heads", "shape"),
    [
        (dict(), (2, 5, 22)),
        (dict(pooler=False), (2, 5, 22)),
        (dict(adjacent=True), (2, 2)),
        (dict(words=True), (2, 5, 19)),
        (dict(words=True, adjacent=True), (2, 5, 19)),
        (dict(words=True, adjacent=True, classes=7), (2, 7)),
        (dict(words=True, token_classes=7), (2, 5, 7)),
        (dict(words=True, answers=True), (2, 5, 2)),
        (dict(replaced=True, pooler=False), (2, 5, 1)),
        (dict(inverted=True), (2, 2)),
        (dict(inference=3), (2, 3)),
        (dict(inference=3, inverted=True), (2, 2)),
        (dict(words=True, inverted=True, inference=3), (2, 5, 19)),
    ],
)
def test_forward_gives_what_the_model_is_for(heads: dict[str, Any], shape: tuple[int, ...]) -> None:
    model = fresh(bert(**SIZES, **heads))
    assert model(torch.zeros(2, 5, dtype=torch.long)).shape == shape


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_and_company_change_nothing(side: str) -> None:
    model = random()
    given = texts(model)
    (tokens, keep), (types, _) = (batch([text[part] for text in given], side) for part in (0, 1))
    hidden = model.hidden_states(tokens, keep=keep, types=types)
    for row, (own, own_types) in enumerate(given):
        alone = model.hidden_states(own[None], types=own_types[None])
        torch.testing.assert_close(hidden[row][keep[row]], alone[0], rtol=0, atol=1e-12)
        for head in (model.pooled, model.adjacent, model.inverted, model.inference, model.classify):
            torch.testing.assert_close(head(hidden, keep)[row], head(alone)[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(model(tokens, keep=keep, types=types), model.classify(hidden, keep))


@pytest.mark.parametrize("side", ["left", "right"])
def test_nan_of_a_padding_token_reaches_neither_real_rows_nor_gradients(side: str) -> None:
    model = random()
    with torch.no_grad():
        model.tokens.weight[0] = float("nan")
    tokens, keep = batch([tokens for tokens, _ in texts(model)], side)
    hidden = model.hidden_states(tokens, keep=keep)
    assert hidden[keep].isfinite().all()
    model.classify(hidden, keep).square().sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and name != "tokens.weight":
            assert parameter.grad.isfinite().all(), name


def test_packed_texts_are_as_if_alone() -> None:
    model = random()
    given = [tokens for tokens, _ in texts(model)]
    packed = torch.cat(given)[None]
    numbers = torch.cat([torch.full_like(text, number) for number, text in enumerate(given)])
    positions = torch.cat([torch.arange(len(text)) for text in given])[None]
    hidden = model.hidden_states(packed, positions=positions, mask=segments(numbers))[0]
    for number, text in enumerate(given):
        torch.testing.assert_close(hidden[numbers == number], model.hidden_states(text[None])[0], rtol=0, atol=1e-12)


def test_the_pooler_reads_the_first_real_token() -> None:
    hidden, keep = torch.randn(2, 5, 3), torch.tensor([[False, False, True, True, False], [True] * 5])
    assert torch.equal(first_real(hidden, keep), torch.stack([hidden[0, 2], hidden[1, 0]]))
    with pytest.raises(ValueError, match="a row of nothing but padding has no first token"):
        first_real(hidden, torch.tensor([[False] * 5, [True] * 5]))


def test_types_tell_sentences_apart_and_default_to_the_first() -> None:
    model, tokens = random(), torch.randint(0, 19, (2, 5))
    zero, one = torch.zeros(1, 5, dtype=torch.long), torch.ones(1, 5, dtype=torch.long)
    assert torch.equal(model.hidden_states(tokens), model.hidden_states(tokens, types=zero))
    assert not torch.allclose(model.hidden_states(tokens), model.hidden_states(tokens, types=one))


def test_it_looks_both_ways() -> None:
    model, tokens = random(), torch.randint(0, 18, (1, 5))
    changed = tokens.clone()
    changed[0, 4] += 1
    assert (model.hidden_states(tokens)[0, 0] - model.hidden_states(changed)[0, 0]).abs().max() > 1e-6


def test_dropout_acts_in_training_alone() -> None:
    model, tokens = random(dropout=0.5), torch.randint(0, 19, (2, 5))
    assert torch.equal(model(tokens), model(tokens))
    model.train()
    assert not torch.equal(model(tokens), model(tokens))


def test_it_is_built_without_memory() -> None:
    assert all(parameter.is_meta for parameter in on_meta(bert(**SIZES, **EVERY_HEAD)).parameters())


def test_its_configuration_survives_json() -> None:
    config = bert(**SIZES, words=True, classes=2, labels=("no", "yes"), outcome="several")
    assert MaskedConfig.model_validate_json(config.model_dump_json()) == config
    assert (config.label(1), bert(**SIZES, classes=2).label(1)) == ("yes", "1")


CAUSAL = AttentionConfig(width=22, heads=2, causal=True)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (dict(pooler=False, classes=2), "need pooler=True"),
        (dict(pooler=False, adjacent=True), "need pooler=True"),
        (dict(pooler=False, inverted=True), "need pooler=True"),
        (dict(pooler=False, inference=2), "need pooler=True"),
        (dict(inference=3, inference_labels=("no", "yes")), "3 classes have 3 labels, not 2"),
        (dict(classes=3, labels=("no", "yes")), "3 classes have 3 labels, not 2"),
        (dict(labels=("no", "yes")), "0 classes have 0 labels, not 2"),
        (dict(width=23), "width 23 is not divisible by heads 2"),
        (dict(classes=-1), "classes=-1"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        bert(**{**SIZES, **changes})


def test_causal_and_cross_attention_are_refused() -> None:
    good = bert(**SIZES)
    for block, sentence in (
        (good.stack.block.model_copy(update=dict(attention=CAUSAL)), "needs causal=False"),
        (good.stack.block.model_copy(update=dict(cross=good.stack.block.attention)), "reads no source"),
    ):
        stack = good.stack.model_copy(update=dict(block=block))
        with pytest.raises(ValueError, match=sentence):
            MaskedConfig(vocabulary=19, length=13, stack=stack)


def test_what_it_cannot_read_is_refused() -> None:
    model, tokens = fresh(bert(**SIZES, pooler=False)), torch.zeros(2, 5, dtype=torch.long)
    for call, sentence in (
        (lambda: model(torch.full((1, 2), 19)), "token 19 is outside of the vocabulary of 19"),
        (lambda: model(torch.zeros(1, 14, dtype=torch.long)), "position 13 is past the table of 13"),
        (lambda: model(tokens, types=tokens + 3), "types are numbers of sentences from 0 to 2, not 3 to 3"),
        (lambda: model(tokens, types=tokens - 1), "from 0 to 2, not -1 to -1"),
        (lambda: model.pooled(torch.zeros(2, 5, 22)), "no pooler: its configuration would need pooler=True"),
        (lambda: model.words(torch.zeros(2, 5, 22)), "no masked-word head"),
        (lambda: model.adjacent(torch.zeros(2, 5, 22)), "no next-sentence head"),
        (lambda: model.inverted(torch.zeros(2, 5, 22)), "no inversion head: its configuration would need inverted=Tr"),
        (lambda: model.inference(torch.zeros(2, 5, 22)), "no inference head"),
        (lambda: model.classify(torch.zeros(2, 5, 22)), "no classifier"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()


def test_types_of_another_shape_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as a user calls it, without the tests' checks
    model, tokens = fresh(bert(**SIZES)), torch.zeros(2, 5, dtype=torch.long)
    for types in (tokens[:, :3], tokens[0], tokens[:1].expand(3, -1)):
        with pytest.raises(ValueError, match=r"types of shape .* do not fit tokens of shape \(2, 5\)"):
            model(tokens, types=types)


def test_the_heads_of_tokens_are_their_equations() -> None:
    model = random(token_classes=7, answers=True, replaced=True)
    hidden = model.hidden_states(torch.randint(0, 19, (2, 5)))
    w = dict(model.named_parameters())
    for found, name in ((model.classify_tokens(hidden), "token_head"), (model.answers(hidden), "answer_head")):
        torch.testing.assert_close(found, hidden @ w[f"{name}.weight"].T + w[f"{name}.bias"])
    y = F.gelu(hidden @ w["replaced_head.dense.weight"].T + w["replaced_head.dense.bias"])
    expected = y @ w["replaced_head.out.weight"].T + w["replaced_head.out.bias"]
    torch.testing.assert_close(model.replaced(hidden), expected)


def test_heads_of_tokens_may_read_the_poolers_map() -> None:
    options = dict(pooler_over="mean", pooler_norm=True, pooler_tokens=True, pooler_activation="relu")
    model = random(token_classes=7, **options)
    tokens, keep = batch([tokens for tokens, _ in texts(model)], "left")
    hidden = model.hidden_states(tokens, keep=keep)
    w = dict(model.named_parameters())

    def mapped(x: Tensor) -> Tensor:
        y = F.relu(x @ w["pooler.weight"].T + w["pooler.bias"])
        return F.layer_norm(y, (22,), w["pooler_norm.weight"], w["pooler_norm.bias"], eps=1e-12)

    means = torch.stack([row[real].mean(0) for row, real in zip(hidden, keep, strict=True)])
    torch.testing.assert_close(model.pooled(hidden, keep), mapped(means))
    expected = mapped(hidden) @ w["token_head.weight"].T + w["token_head.bias"]
    torch.testing.assert_close(model.classify_tokens(hidden), expected)
    with pytest.raises(ValueError, match="nothing but padding has no mean"):
        model.pooled(hidden, torch.zeros_like(keep))


def test_embeddings_may_be_narrower_and_positions_have_rows_before_them() -> None:
    model = random(embedding_width=5, offset=4, types=0)
    assert (model.tokens.weight.shape, model.positions.weight.shape) == ((19, 5), (17, 5))
    seen, tokens = {}, torch.randint(0, 19, (2, 5))
    model.stack.blocks[0].register_forward_hook(lambda _, given, __: seen.update(x=given[0]))
    model.hidden_states(tokens)
    w = dict(model.named_parameters())
    x = F.layer_norm(
        w["tokens.weight"][tokens] + w["positions.weight"][4:9], (5,), w["norm.weight"], w["norm.bias"], 1e-12
    )
    torch.testing.assert_close(seen["x"], x @ w["project.weight"].T + w["project.bias"])
    with pytest.raises(ValueError, match="no table of sentences"):
        model.hidden_states(tokens, types=torch.zeros_like(tokens))
    assert model.told_apart(tokens) is None


def test_the_loss_of_tokens_and_of_spans() -> None:
    model = random(token_classes=7, answers=True)
    tokens, keep = batch([tokens for tokens, _ in texts(model)], "right")
    hidden = model.hidden_states(tokens, keep=keep)
    right = torch.randint(0, 7, tokens.shape).masked_fill(~keep, -100)
    expected = F.cross_entropy(model.classify_tokens(hidden)[keep], right[keep])
    torch.testing.assert_close(model.loss(tokens, token_labels=right, keep=keep), expected)
    spans = torch.tensor([[3, 7], [0, 2], [1, 1]])
    parts = [
        F.cross_entropy(model.answers(hidden)[row, keep[row], side][None], spans[row, side][None])
        for row in range(3)
        for side in range(2)
    ]
    torch.testing.assert_close(model.loss(tokens, spans=spans, keep=keep), torch.stack(parts).mean())
