"""The decoding loop on models whose answers are known by hand: who gets what, when it ends, what is refused."""

import jaxtyping
import numpy as np
import pytest
import torch

from headway.config import Special
from headway.config.text import Forced
from headway.decoding import DecodingBatch, Generation, NonFiniteLogits, Request, TokenEvent, beam, generate, stream
from headway.ops.sampling.uniform import uniform
from tests.decoding.markov import Markov, counting
from tests.decoding.tiny import CONFIGS
from tests.fresh import fresh

V = 11


def tokens(results: list[Generation]) -> list[tuple[int, ...]]:
    return [result.tokens for result in results]


def test_each_request_counts_on_from_its_own_prompt() -> None:
    found = generate(counting(V), [Request(prompt=(3,), max_new_tokens=5), Request(prompt=(9, 9, 7), max_new_tokens=2)])
    assert tokens(found) == [(4, 5, 6, 7, 8), (8, 9)]
    assert [result.finish for result in found] == ["max_new_tokens", "max_new_tokens"]
    assert generate(counting(V), []) == []


def test_the_margin_and_the_log_probability_are_those_of_the_table() -> None:
    [result] = generate(counting(V), [Request(prompt=(3,), max_new_tokens=2, logprobs=3)])
    total = np.log(np.exp(3.0) + V - 1)
    assert result.logprobs == pytest.approx((3 - total, 3 - total))
    assert [token for token, _ in result.likeliest[0]][:1] == [4]
    assert [value for _, value in result.likeliest[0]] == pytest.approx([3 - total, -total, -total])
    [event, *_] = stream(counting(V), [Request(prompt=(3,), max_new_tokens=2)])
    assert event == TokenEvent(request=0, token=4, text="", margin=3.0)


def test_a_log_probability_is_the_models_own() -> None:
    """Whatever cuts, heats and penalises the choice, and for those alone who ask."""
    asked = Request(prompt=(3,), max_new_tokens=3, temperature=0.1, top_k=1, repetition_penalty=9.0, logprobs=0)
    [one, other] = generate(counting(V), [asked, Request(prompt=(3,), max_new_tokens=1)])
    assert one.logprobs == pytest.approx([3 - np.log(np.exp(3.0) + V - 1)] * 3)
    assert (one.likeliest, other.logprobs) == ((), None)


def test_rows_leave_and_others_join_while_they_run() -> None:
    model = counting(V)
    batch = DecodingBatch(model)
    assert batch.join([Request(prompt=(0,), max_new_tokens=4), Request(prompt=(5,), max_new_tokens=1)]) == [0, 1]
    assert [(event.request, event.token, event.finish) for event in batch.step()] == [
        (0, 1, None),
        (1, 6, "max_new_tokens"),
    ]
    assert batch.join([Request(prompt=(7, 7), max_new_tokens=2)]) == [2]
    assert [(event.request, event.token) for event in batch.step()] == [(0, 2), (2, 8)]
    assert batch.running == 2
    assert [(event.request, event.token, event.finish) for event in batch.step()] == [
        (0, 3, None),
        (2, 9, "max_new_tokens"),
    ]
    assert [(event.request, event.token) for event in batch.step()] == [(0, 4)]
    assert batch.running == 0 and batch.step() == []
    assert model.log == ["read 2", "select 1", "read 1", "read 1", "join 1", "read 2", "select 1", "read 1"]


def test_a_batch_that_is_empty_again_begins_anew() -> None:
    batch = DecodingBatch(counting(V))
    for start in (2, 5):
        batch.join([Request(prompt=(start,), max_new_tokens=1)])
        assert [event.token for event in batch.step()] == [start + 1]
    assert batch.step() == []


def test_those_beyond_the_rows_wait_for_their_turn() -> None:
    model = counting(V)
    requests = [
        Request(prompt=(start,), max_new_tokens=count) for start, count in ((0, 3), (2, 1), (4, 2), (6, 2), (8, 1))
    ]
    assert tokens(generate(model, requests, rows=2)) == [(1, 2, 3), (3,), (5, 6), (7, 8), (9,)]
    assert max(int(line.split()[1]) for line in model.log if line.startswith("read")) == 2
    with pytest.raises(ValueError, match="at least one row, not 0"):
        DecodingBatch(model, rows=0)


def test_a_request_that_is_given_up_produces_nothing_more() -> None:
    batch = DecodingBatch(counting(V), rows=2)
    batch.join([Request(prompt=(start,), max_new_tokens=5) for start in (0, 3, 6)])
    batch.step()
    batch.leave(0)
    batch.leave(2)
    assert [(event.request, event.token) for event in batch.step()] == [(1, 5)]
    assert batch.running == 1


@pytest.mark.parametrize("pad", ["left", "right", "none"])
def test_padding_is_never_read(pad: str) -> None:
    table = np.full((V, V), -5.0)
    table[0, 0] = 9.0  # a model that has read a padding token would say 0 for ever
    table[np.arange(1, V), np.r_[np.arange(2, V), 1]] = 3.0
    model = Markov(table)
    found = generate(
        model, [Request(prompt=(3,), max_new_tokens=2), Request(prompt=(5, 6, 7), max_new_tokens=2)], pad=pad
    )
    assert tokens(found) == [(4, 5), (8, 9)]
    assert model.log.count("join 1") == (pad == "none")


def test_end_tokens_and_stop_tokens_end() -> None:
    model = counting(V, special=Special(end=(6, 9)))
    found = generate(model, [Request(prompt=(4,)), Request(prompt=(7,)), Request(prompt=(1,), stop_tokens=(3,))])
    assert [(result.tokens, result.finish) for result in found] == [((5, 6), "end"), ((8, 9), "end"), ((2, 3), "stop")]


def test_draws_are_keyed_by_seed_and_position() -> None:
    """All tokens equally likely: the i-th is the i-th slice of the number of its position."""
    model = Markov(np.zeros((V, V)))
    request = Request(prompt=(1, 2, 3), max_new_tokens=7, temperature=1.0, seed=5)
    right = tuple(int(uniform(5, position) * V) for position in range(3, 10))
    other = request.model_copy(update={"seed": 6})
    assert tokens(generate(model, [request])) == [right]
    assert tokens(generate(model, [other, request, request])) == [*tokens(generate(model, [other])), right, right]
    # Going on from the first three tokens of an answer gives the others.
    later = Request(prompt=(1, 2, 3, *right[:3]), max_new_tokens=4, temperature=1.0, seed=5)
    assert tokens(generate(model, [later])) == [right[3:]]


def test_repetition_is_penalised_by_what_was_read_and_produced() -> None:
    """After any token 4 has the logit 2 and 7 has 1.5; divided by 4 once seen, they take turns with nothing else."""
    table = np.zeros((V, V))
    table[:, 4], table[:, 7] = 2.0, 1.5
    penalised = Request(prompt=(0,), max_new_tokens=4, repetition_penalty=4.0)
    plain = Request(prompt=(0,), max_new_tokens=4)
    read = Request(prompt=(4,), max_new_tokens=2, repetition_penalty=4.0)
    found = generate(Markov(table), [penalised, plain, read])
    assert tokens(found) == [(4, 7, 4, 4), (4, 4, 4, 4), (7, 4)]
    batch = DecodingBatch(Markov(table))  # one that joins and one that leaves do not disturb what was seen
    batch.join([plain.model_copy(update={"max_new_tokens": 1}), penalised])
    first = [event.token for event in batch.step() if event.request == 1]
    batch.join([read])
    rest = [(event.request, event.token) for _ in range(3) for event in batch.step()]
    assert first + [token for request, token in rest if request == 1] == [4, 7, 4, 4]
    assert [token for request, token in rest if request == 2] == [7, 4]


def test_ties_are_reported() -> None:
    table = np.zeros((V, V))
    table[3, [5, 8]] = 2.0, 2.0 + 5e-5
    table[8, 2] = 1.0
    [result] = generate(Markov(table), [Request(prompt=(3,), max_new_tokens=2)])
    assert (result.tokens, result.ties) == ((8, 2), (0,))
    near = uniform(0, 1)  # two tokens whose bound lies just above the number that will be drawn
    table = np.log(np.array([[near + 2e-5, 1 - near - 2e-5]] * 2))
    [result] = generate(Markov(table), [Request(prompt=(0,), max_new_tokens=2, temperature=1.0)])
    assert result.tokens[0] == 0 and result.ties == (0,)


def test_past_the_models_length() -> None:
    model = counting(V, length=7)
    fits, long = Request(prompt=(1, 2, 3), max_new_tokens=4), Request(prompt=(1, 2, 3), max_new_tokens=5)
    assert tokens(generate(model, [fits])) == [(4, 5, 6, 7)]
    with pytest.raises(
        ValueError, match="3 tokens and max_new_tokens=5 more do not fit into the model's 7 positions: ask for"
    ):
        stream(model, [fits, long])  # when it is called, not at the first token
    assert model.log.count("read 2") == 0
    [one, other] = generate(model, [long, fits], past_length="stop")
    assert (one.tokens, one.finish, other.finish) == ((4, 5, 6, 7), "length", "max_new_tokens")
    for choice in ("refuse", "stop"):
        with pytest.raises(ValueError, match="a prompt of 7 tokens leaves no room in the model's 7 positions"):
            stream(model, [Request(prompt=(1,) * 7, max_new_tokens=1)], past_length=choice)
    with pytest.raises(ValueError, match="cannot slide past its length"):
        stream(model, [long], past_length="slide")
    endless = counting(V, length=7, slides=True)
    assert len(generate(endless, [Request(prompt=(1,) * 9, max_new_tokens=23)], past_length="slide")[0].tokens) == 23
    with pytest.raises(ValueError, match="do not fit into the model's 7 positions"):
        stream(endless, [long])


def test_an_empty_prompt_needs_a_token_to_begin_with() -> None:
    with pytest.raises(ValueError, match="the prompt is empty, and this model has no token to begin with"):
        generate(counting(V), [Request(prompt=())])
    model = counting(V, special=Special(begin=8))
    assert tokens(generate(model, [Request(prompt=(), max_new_tokens=2)])) == [(9, 10)]


REFUSALS = {
    "outside of the vocabulary of 11": (dict(prompt=(3, 11)), {}),
    "prompt of text needs a tokenizer": (dict(prompt="text"), {}),
    "stop string 'x' needs a tokenizer": (dict(prompt=(3,), stop="x"), {}),
    "padded left, right or none, not 'both'": (dict(prompt=(3,)), dict(pad="both")),
    "refuse, stop or slide, not 'wrap'": (dict(prompt=(3,)), dict(past_length="wrap")),
}


@pytest.mark.parametrize("sentence", REFUSALS)
def test_mistakes_are_refused_before_anything_is_read(sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request, options = REFUSALS[sentence]
    model = counting(V)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # its checks would speak before ours
    with pytest.raises(ValueError, match=sentence):
        stream(model, [Request(prompt=(3,)), Request(**request)], **options)
    assert model.log == []


def test_a_model_that_does_not_generate_is_refused() -> None:
    with pytest.raises(
        ValueError, match="a masked model does not generate text; language, seq2seq, recurrent, module models do"
    ):
        DecodingBatch(counting(V, kind="masked"))


def test_a_model_in_training_is_refused_while_it_drops() -> None:
    class Training(torch.nn.Module):
        def __init__(self, share: float) -> None:
            super().__init__()
            self.config, self.dropout = counting(V).config, torch.nn.Dropout(share)

    with pytest.raises(ValueError, match=r"in training mode, with dropout: call model.eval\(\) first"):
        DecodingBatch(Training(0.1))
    DecodingBatch(Training(0.1).eval())
    DecodingBatch(Training(0.0))


def test_broken_weights_are_not_turned_into_text() -> None:
    with pytest.raises(ValueError, match="largest logit for request 0 is nan"):
        generate(Markov(np.full((V, V), np.nan)), [Request(prompt=(3,))])


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0}, {"logprobs": 2}])
def test_a_broken_row_is_named_by_its_request(options: dict[str, float]) -> None:
    """After 8 nothing is known; by then the first request has left, so the row's place is not its number."""
    table = counting(V).table * 40
    table[8] = np.nan
    batch = DecodingBatch(Markov(table))
    batch.join([Request(prompt=(0,), max_new_tokens=1), Request(prompt=(2,)), Request(prompt=(6,), **options)])
    batch.step()
    batch.step()
    with pytest.raises(NonFiniteLogits, match="the model's largest logit for request 2 is nan") as caught:
        batch.step()
    assert caught.value.request == 2


@pytest.mark.parametrize("name", ["generate", "beam"])
def test_an_end_that_was_forced_is_no_end(name: str) -> None:
    config = CONFIGS["bart"].model_copy(update={"forced": Forced(last=5), "length": 7})
    model, asked = fresh(config, seed=7, dtype=torch.float64, std=0.4), Request(prompt=(7, 8, 9), max_new_tokens=4)
    search = {"generate": generate, "beam": lambda *given, **more: [one[0] for one in beam(*given, beams=2, **more)]}
    [short] = search[name](model, [asked])
    assert (len(short.tokens), short.tokens[-1], short.finish) == (4, 5, "max_new_tokens")
    long = asked.model_copy(update={"max_new_tokens": 50})
    [full] = search[name](model, [long], past_length="stop")
    assert (len(full.tokens), full.tokens[-1], full.finish) == (6, 5, "length")
    # One that ends by itself, where the limit is far, has ended.
    willing = fresh(config.model_copy(update={"head_bias": True}), seed=7, dtype=torch.float64, std=0.4)
    with torch.no_grad():
        willing.head_bias[..., 5] = 50.0
    assert search[name](willing, [asked])[0].finish == "end"


def test_forced_tokens_know_first_and_last() -> None:
    from headway.decoding.row import forced

    rules = Forced(first=3, last=2)
    assert [forced(rules, made, 4) for made in range(4)] == [3, None, None, 2]
    assert [forced(Forced(), made, 2) for made in range(2)] == [None, None]
