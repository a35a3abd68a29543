"""Beam search against counting out every text there is, and its rules on tables made for them."""

import itertools
import math
from collections.abc import Iterator

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.config import Special
from headway.decoding import Generation, Request, beam, generate
from headway.decoding.beam import Beams
from tests.decoding.markov import Markov
from tests.decoding.tiny import model

V, END, MOST = 4, 3, 3


@pytest.fixture(autouse=True, scope="module")
def unchecked() -> Iterator[None]:
    """Hundreds of steps: without checking annotations they take a third of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def every_text(table: np.ndarray, start: int, alpha: float) -> list[tuple[float, tuple[int, ...]]]:
    """All texts that end with END or after MOST tokens, best score first."""
    log_p = table - np.log(np.exp(table).sum(-1, keepdims=True))
    found = []
    for length in range(1, MOST + 1):
        for text in itertools.product(range(V), repeat=length):
            if END not in text[:-1] and (length == MOST or text[-1] == END):
                path = (start, *text)
                total = sum(log_p[a, b] for a, b in itertools.pairwise(path))
                found.append((total / length**alpha, text))
    return sorted(found, reverse=True)


def texts(results: list[Generation]) -> list[tuple[int, ...]]:
    return [result.tokens for result in results]


@given(
    seed=st.integers(0, 999),
    alpha=st.sampled_from([-0.5, 0.0, 1.0, 2.0]),
    until=st.sampled_from(["full", "likely", "certain"]),
)
def test_with_beams_for_all_texts_it_finds_them_all(seed: int, alpha: float, until: str) -> None:
    table = np.random.default_rng(seed).normal(size=(V, V)) * 2
    [found] = beam(
        Markov(table, special=Special(end=(END,))),
        [Request(prompt=(0, 1), max_new_tokens=MOST)],
        beams=50, alpha=alpha, until=until,
    )  # fmt: skip
    right = every_text(table, 1, alpha)
    assert [result.score for result in found] == pytest.approx([score for score, _ in right])
    # Two texts that take the same steps in another order have one score, so their order is nobody's.
    assert {result.tokens: result.score for result in found} == pytest.approx({text: score for score, text in right})
    assert all(result.finish == ("end" if END in result.tokens else "max_new_tokens") for result in found)


@given(seed=st.integers(0, 999), beams=st.integers(1, 6))
def test_every_answer_is_a_text_with_its_own_score(seed: int, beams: int) -> None:
    table = np.random.default_rng(seed).normal(size=(V, V)) * 2
    request = Request(prompt=(2,), max_new_tokens=MOST)
    [found] = beam(Markov(table, special=Special(end=(END,))), [request], beams=beams, until="certain")
    right = {text: score for score, text in every_text(table, 2, 1.0)}
    assert len(found) == beams == len(set(texts(found)))
    assert [result.score for result in found] == pytest.approx([right[result.tokens] for result in found])
    assert [result.score for result in found] == sorted((result.score for result in found), reverse=True)


def test_more_beams_find_what_greedy_misses() -> None:
    """Token 1 is likelier at first, and leads to a coin toss; token 0 leads to a certain end."""
    p = np.array([[0.01, 0.01, 0.01, 0.97], [0.4, 0.3, 0.2, 0.1], [0.4, 0.5, 0.05, 0.05], [0.25] * 4])
    coin, request = Markov(np.log(p), special=Special(end=(END,))), Request(prompt=(2,), max_new_tokens=2)
    assert generate(coin, [request])[0].tokens == (1, 0)
    assert texts(beam(coin, [request], beams=1, alpha=0.0)[0]) == [(1, 0)]
    [best, *_] = beam(coin, [request], beams=2, alpha=0.0)[0]
    assert (best.tokens, best.finish) == ((0, END), "end")
    assert best.score == pytest.approx(math.log(0.4 * 0.97))


def until_table() -> Markov:
    """From 0 a text ends at once or goes through 1, 2, 1, … with 0.95 a step, where it can end with 0.05."""
    p = np.full((V, V), 1e-9)
    p[0, [1, END]] = 0.49, 0.51
    p[1, [2, END]] = 0.95, 0.05
    p[2, [1, END]] = 0.95, 0.05
    return Markov(np.log(p / p.sum(-1, keepdims=True)), special=Special(end=(END,)))


@pytest.mark.parametrize(
    ("until", "alpha", "best", "steps"),
    [
        ("full", 1.0, [(END,), (1, END)], 2),  # two texts are finished, and that is enough
        ("likely", 1.0, [(1, 2, 1, 2, 1, 2), (1, 2, 1, 2, 1, END)], 6),  # the longer, the better: not even (END,) stays
        ("certain", 1.0, [(1, 2, 1, 2, 1, 2), (1, 2, 1, 2, 1, END)], 6),
        ("likely", 0.0, [(END,), (1, 2, 1, 2, 1, 2)], 6),  # now only the second place can be won
        ("certain", 0.0, [(END,), (1, 2, 1, 2, 1, 2)], 6),
        ("likely", -3.0, [(END,), (1, END)], 4),  # length costs: the fourth token is one too many
        ("certain", -3.0, [(END,), (1, END)], 4),
    ],
)
def test_when_it_stops(until: str, alpha: float, best: list[tuple[int, ...]], steps: int) -> None:
    chain = until_table()
    [found] = beam(chain, [Request(prompt=(0,), max_new_tokens=6)], beams=2, alpha=alpha, until=until)
    assert texts(found) == best
    assert sum(line.startswith("read") for line in chain.log) == steps


def test_likely_may_miss_what_certain_finds() -> None:
    """A step of 0.1 and then certainty: at its present length the text is worse, in the end it is better."""
    p = np.full((V, V), 1e-12)
    p[0, [1, END]] = 0.1, 0.9
    p[1, 1] = 1.0
    slow = Markov(np.log(p / p.sum(-1, keepdims=True)), special=Special(end=(END,)))
    request = Request(prompt=(0,), max_new_tokens=30)
    assert texts(beam(slow, [request], beams=1, until="likely")[0]) == [(END,)]
    assert texts(beam(slow, [request], beams=1, until="certain")[0]) == [(1,) * 30]
    assert slow.log.count("read 1") > 30


def test_one_beam_that_stops_when_full_is_greedy() -> None:
    request = Request(prompt=(7, 8, 9), max_new_tokens=8)
    for name in ("gpt2", "t5", "recurrent"):
        [[one]] = beam(model(name), [request], beams=1, until="full")
        assert one.tokens == generate(model(name), [request])[0].tokens


@pytest.mark.parametrize("name", ["gpt2", "window", "linear", "t5", "recurrent"])
def test_a_search_is_the_same_in_any_company(name: str) -> None:
    """Batched, padded and cached against alone and read again for each token; requests end at different times."""
    asked = [Request(prompt=prompt, max_new_tokens=most) for prompt, most in (((1, 2, 3), 5), ((4,), 2), ((6, 7), 7))]
    right = [beam(model(name), [one], beams=3, cache=name == "recurrent")[0] for one in asked]
    for pad in ("left", "right", "none"):
        found = beam(model(name), asked, beams=3, pad=pad)
        assert [texts(one) for one in found] == [texts(one) for one in right]
        for one, other in zip(found, right, strict=True):
            assert [result.score for result in one] == pytest.approx([result.score for result in other], abs=1e-9)


def test_a_score_is_the_probability_of_its_own_tokens() -> None:
    """Read again in one pass, without a session: a beam that went on from another one's past would not fit."""
    prompt, gpt2 = (1, 2, 3), model("gpt2")
    [found] = beam(gpt2, [Request(prompt=prompt, max_new_tokens=6)], beams=5, alpha=0.0)
    for result in found:
        with torch.no_grad():
            log_p = gpt2(torch.tensor([prompt + result.tokens]))[0].log_softmax(-1)
        places = range(len(prompt) - 1, len(prompt) + len(result.tokens) - 1)
        total = sum(float(log_p[place, token]) for place, token in zip(places, result.tokens, strict=True))
        assert result.score == pytest.approx(total, abs=1e-9)


REFUSALS = {
    "leave temperature of the request at its default": dict(temperature=1.0),
    "leave stop of the request at its default": dict(stop="x"),
    "leave logprobs of the request at its default": dict(logprobs=2),
}


@pytest.mark.parametrize("sentence", REFUSALS)
def test_what_a_search_does_not_know_is_refused(sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        beam(until_table(), [Request(prompt=(0,), **REFUSALS[sentence])])


def test_stop_tokens_end_too_and_broken_weights_are_said() -> None:
    [found] = beam(until_table(), [Request(prompt=(0,), max_new_tokens=4, stop_tokens=(2,))], beams=2, alpha=0.0)
    assert [(result.tokens, result.finish) for result in found] == [((END,), "end"), ((1, 2), "stop")]
    with pytest.raises(ValueError, match="largest logit for request 0 is nan"):
        beam(Markov(np.full((V, V), np.nan)), [Request(prompt=(0,))])


def test_a_search_has_beams_and_fits() -> None:
    with pytest.raises(ValueError, match="keeps at least one text, not 0"):
        Beams(beams=0)
    with pytest.raises(ValueError, match="do not fit into the model's 41 positions"):
        beam(model("gpt2"), [Request(prompt=(1,), max_new_tokens=50)])
    assert beam(model("gpt2"), []) == []
