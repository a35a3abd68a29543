"""Choosing tokens: against a plain reading of the definitions, row by row, and honest about how close it was."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from headway.ops.sampling import choose as sample
from headway.ops.sampling.choose import choose, draw, greedy
from headway.ops.sampling.cut import TIE, Rules
from headway.ops.sampling.logits import log_total, penalise, steer
from headway.ops.sampling.uniform import mix, uniform
from tests.thorough import examples


def kept_by_hand(logits: list[float], heat: float, k: int, p: float, min_p: float) -> set[int]:
    """The definitions as loops: the k largest; the fewest largest that reach p; those near the largest."""
    order = sorted(range(len(logits)), key=lambda i: -logits[i])
    weight = [math.exp((value - max(logits)) / heat) for value in logits]
    kept = order if k == 0 else [i for i in order if logits[i] >= logits[order[min(k, len(order)) - 1]]]
    total, reached, nucleus = sum(weight[i] for i in kept), 0.0, []
    for i in kept:
        if reached < p * total:
            nucleus.append(i)
        reached += weight[i]
    lowest = min(logits[i] for i in nucleus)
    return {i for i in kept if logits[i] >= lowest and weight[i] >= min_p}


def drawn_by_hand(logits: list[float], heat: float, kept: set[int], u: float) -> int:
    weight = [math.exp((value - max(logits)) / heat) if i in kept else 0.0 for i, value in enumerate(logits)]
    reached = 0.0
    for i, one in enumerate(weight):
        reached += one
        if reached > u * sum(weight):
            return i
    return max(kept)


VOCABULARY = 13
row_rules = st.tuples(
    st.floats(0.2, 3.0), st.integers(0, 17), st.sampled_from([0.1, 0.35, 0.8, 0.95, 1.0]), st.floats(0.0, 0.7)
)
rows_of = st.lists(
    st.tuples(
        st.lists(st.integers(-40, 40).map(lambda x: x / 10 + x**3 / 1e5), min_size=VOCABULARY, max_size=VOCABULARY),
        row_rules,
        st.floats(0, 1, exclude_max=True),
    ),
    min_size=1,
    max_size=5,
)


def columns(rules: list[tuple[float, int, float, float]]) -> Rules:
    return Rules(*(list(column) for column in zip(*rules, strict=True)))


@given(rows=rows_of)
@examples(100, 1000)
@example(rows=[([math.log(x) for x in (*[0.05] * 10, 0.25, 0.15, 0.1)], (1.0, 17, 0.5, 0.0), 0.9)])
def test_every_row_is_drawn_by_its_own_rules(rows: list) -> None:
    """A batch of rows with rules of their own gives what the loops above give for each alone."""
    logits = torch.tensor([row for row, _, _ in rows], dtype=torch.float64)
    found = draw(logits, columns([rule for _, rule, _ in rows]), [u for _, _, u in rows])
    for token, margin, (values, rule, u) in zip(found.tokens.tolist(), found.margins.tolist(), rows, strict=True):
        kept = kept_by_hand(values, *rule)
        assert token in kept or margin < 1e-9
        assert token == drawn_by_hand(values, rule[0], kept, u) or margin < 1e-9


@given(
    base=st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.00001, 0.99999, 1.7, 1.700003]), min_size=7, max_size=7),
    rule=st.tuples(
        st.sampled_from([0.0, 0.5, 1.0, 2.0]),
        st.integers(0, 5),
        st.sampled_from([0.25, 0.5, 0.75, 0.9, 1.0]),
        st.sampled_from([0.0, 0.5, math.exp(-0.5), math.exp(-0.7)]),
    ),
    u=st.sampled_from([0.0, 0.2, 0.25, 1 / 3, 0.5, 0.6, 0.75, 0.9]),
    seed=st.integers(0, 99),
)
@examples(150, 1000)
def test_a_choice_that_noise_can_change_is_reported(base: list[float], rule: tuple, u: float, seed: int) -> None:
    """Logits with many near ties, thresholds that fall on them, and noise as float32 has it."""
    logits = torch.tensor([base], dtype=torch.float64)
    noise = torch.from_numpy(np.random.default_rng(seed).uniform(-2e-6, 2e-6, logits.shape))
    rules = columns([rule])
    one, two = choose(logits, rules, [u]), choose(logits + noise, rules, [u])
    assert one.tokens.equal(two.tokens) or min(float(one.margins), float(two.margins)) < TIE


def test_a_clear_choice_is_not_called_a_tie() -> None:
    """A top-k line between two almost equal tokens of 1 in 10⁴ each is no tie for a draw in the middle of another."""
    logits = torch.log(torch.tensor([[0.5, 0.4998, 1e-4, 1.0000001e-4]], dtype=torch.float64))
    found = draw(logits, Rules([1.0], [3], [1.0], [0.0]), [0.25])
    assert found.tokens.tolist() == [0]
    assert found.margins.item() == pytest.approx(0.25, abs=1e-3)
    near = draw(logits, Rules([1.0], [3], [1.0], [0.0]), [0.99999])
    assert near.margins.item() < TIE


def test_the_likeliest_alone_is_no_tie() -> None:
    """Every way to leave one token, which leads by 1: nothing else was possible."""
    logits = torch.tensor([[2.0, 0.5, 1.0]], dtype=torch.float64)
    for rule in ((1, 1.0, 0.0), (0, 0.1, 0.0), (0, 1.0, 1.0)):
        found = draw(logits, columns([(1.0, *rule)]), [0.99])
        assert (found.tokens.tolist(), found.margins.tolist()) == ([0], [math.inf])


def test_a_probability_that_is_reached_exactly_is_a_tie() -> None:
    """One half and top-p 0.5: a little more, and the second is let in."""
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64))
    for p in (0.5 - 1e-6, 0.5 + 1e-6):
        assert float(draw(logits, columns([(1.0, 0, p, 0.0)]), [0.9]).margins) < TIE
    for p in (0.49, 0.51):
        assert float(draw(logits, columns([(1.0, 0, p, 0.0)]), [0.9]).margins) > TIE


def test_draws_follow_the_probabilities() -> None:
    """Evenly spread numbers: each token as often as its probability says, to one draw at each end of its slice."""
    logits = torch.tensor([[0.3, -1.0, 2.0, 0.0, 1.1]])
    heat, count = 0.7, 1000
    wanted = torch.softmax(logits.double()[0] / heat, 0)
    uniforms = [(i + 0.5) / count for i in range(count)]
    rules = Rules([heat] * count, [0] * count, [1.0] * count, [0.0] * count)
    seen = torch.bincount(choose(logits.expand(count, -1), rules, uniforms).tokens, minlength=5)
    assert ((seen - wanted * count).abs() <= 1).all()
    assert (
        seen.tolist()
        != torch.bincount(
            choose(
                logits.expand(count, -1), Rules([1.0] * count, *[[0] * count, [1.0] * count, [0.0] * count]), uniforms
            ).tokens
        ).tolist()
    )


def test_rows_are_the_same_in_any_company(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(11, 17, dtype=torch.float64)
    rules = columns([(0.0 if i % 3 == 0 else 0.5 + i / 7, i % 4, 1 - i / 23, i / 37) for i in range(11)])
    uniforms = [uniform(5, i) for i in range(11)]
    together = choose(logits, rules, uniforms)
    alone = [choose(logits[i : i + 1], rules.of([i]), [uniforms[i]]) for i in range(11)]
    assert together.tokens.tolist() == [int(one.tokens) for one in alone]
    assert together.margins.tolist() == pytest.approx([float(one.margins) for one in alone])
    assert together.tokens[::3].tolist() == logits[::3].argmax(-1).tolist()
    monkeypatch.setattr(sample, "CHUNK", 37)  # two rows at once
    assert choose(logits, rules, uniforms).tokens.equal(together.tokens)


@pytest.mark.parametrize("k", [0, 3, 5, 7])
def test_forbidden_tokens_take_no_part(k: int) -> None:
    """Of seven tokens two are forbidden: top-p looks at the five others, whatever k is."""
    logits = torch.log(torch.tensor([[0.1, 0.0, 0.4, 0.2, 0.0, 0.25, 0.05]], dtype=torch.float64))
    found = [int(draw(logits, Rules([1.0], [k], [0.8], [0.0]), [u]).tokens) for u in (0.0, 0.3, 0.6, 0.9)]
    assert found == [2, 2, 3, 5]


def test_greedy_takes_the_first_of_equals() -> None:
    logits = torch.zeros(3, 1009)
    logits[0, [700, 31, 999]] = 5.0
    logits[1, 1008] = 1e-5
    found = greedy(logits)
    assert found.tokens.tolist() == [31, 1008, 0]
    assert found.margins.tolist() == pytest.approx([0.0, 1e-5, 0.0], rel=1e-3)
    alone = greedy(torch.tensor([[2.0]]))
    assert (alone.tokens.tolist(), alone.margins.tolist()) == ([0], [math.inf])


def test_a_large_vocabulary_needs_more_than_the_first_look() -> None:
    """A flat distribution over 3,001 tokens: top-p 0.9 keeps the upper 2,701, found by looking again, deeper."""
    logits = torch.linspace(0, 1e-3, 3001, dtype=torch.float64)[None]
    lowest = draw(logits, Rules([1.0], [0], [0.9], [0.0]), [0.0])
    assert 295 <= int(lowest.tokens) <= 305
    assert int(draw(logits, Rules([1.0], [0], [1.0], [0.0]), [0.0]).tokens) == 0


def test_more_equals_than_asked_for_all_stay() -> None:
    """Of 500 equal logits and top-k 5 all can be drawn, and it is said to be a tie."""
    logits = torch.zeros(1, 701, dtype=torch.float64)
    logits[0, 100:600] = 1.0
    found = [draw(logits, Rules([1.0], [5], [1.0], [0.0]), [u]) for u in (0.0, 0.5, 0.999)]
    assert [int(one.tokens) for one in found] == [100, 350, 599]
    assert all(float(one.margins) == 0 for one in found)


@pytest.mark.parametrize(
    "choice", [greedy, lambda x: draw(x, Rules([1.0] * 2, [0] * 2, [1.0] * 2, [0.0] * 2), [0.5] * 2)]
)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_broken_logits_are_refused(choice: Callable[[Tensor], object], bad: float) -> None:
    logits = torch.zeros(2, 5)
    logits[1, 3] = bad
    with pytest.raises(ValueError, match=f"largest logit in row 1 is {bad}"):
        choice(logits)
    with pytest.raises(ValueError, match="largest logit in row 0 is -inf"):
        choice(torch.full((2, 5), -math.inf))


def test_splitmix_gives_its_published_numbers() -> None:
    """The first outputs of SplitMix64 from the state 1234567."""
    golden = 0x9E3779B97F4A7C15
    assert [mix(1234567 + i * golden) for i in range(3)] == [
        6457827717110365317, 3203168211198807973, 9817491932198370423,
    ]  # fmt: skip


def test_numbers_are_even_and_unrelated() -> None:
    """Over seeds, over positions, and from neighbour to neighbour; χ² with 99 degrees of freedom, p > 10⁻⁶."""
    table = np.array([[uniform(seed, position) for position in range(100)] for seed in range(100)])
    assert table.min() >= 0 and table.max() < 1
    counts = np.bincount((table * 100).astype(int).ravel(), minlength=100)
    assert ((counts - 100) ** 2 / 100).sum() < 180
    for pairs in (np.stack([table[1:], table[:-1]]), np.stack([table[:, 1:], table[:, :-1]])):
        cells = (pairs * 10).astype(int)
        counts = np.bincount((cells[0] * 10 + cells[1]).ravel(), minlength=100)
        assert ((counts - 99) ** 2 / 99).sum() < 180
    assert len(np.unique(table)) == table.size


def test_the_penalty_lowers_both_signs_once_and_only_what_was_seen() -> None:
    logits = torch.tensor([[2.0, -3.0, 5.0], [2.0, -3.0, 5.0]], dtype=torch.float64)
    found = penalise(logits, torch.tensor([[0, 1, 0], [2, 2, 2]]), torch.tensor([2.0, 1.0]))
    assert found.tolist() == [[1.0, -6.0, 5.0], [2.0, -3.0, 5.0]]


@given(
    values=st.lists(st.sampled_from([0.0, 1.0, 2.0, 2.0 + 1e-9, 5.0]), min_size=7, max_size=7),
    places=st.lists(st.integers(0, 4999), min_size=7, max_size=7, unique=True),
)
def test_greedy_over_a_large_vocabulary_is_a_plain_maximum(values: list[float], places: list[int]) -> None:
    """5,000 tokens are looked at in columns, with some left over: the first two may be in the same one, or be equal."""
    logits = torch.full((2, 5000), -1.0, dtype=torch.float64)
    logits[0, places], logits[1, 4999] = torch.tensor(values, dtype=torch.float64), 1.0
    found, largest = greedy(logits), sorted(values)
    assert found.tokens.tolist() == [int(logits[0].argmax()), 4999]
    assert found.margins.tolist() == [largest[-1] - largest[-2], 2.0]


def test_log_probabilities_and_steering() -> None:
    logits = torch.randn(5, 7, dtype=torch.float64)
    torch.testing.assert_close(logits - log_total(logits)[:, None], logits.log_softmax(-1))
    steered = steer(logits, [2, 3], [None, 2, None, None, 0])
    assert steered[1].isfinite().tolist() == [i == 2 for i in range(7)]
    assert steered[4].exp().tolist() == [1.0] + [0.0] * 6
    assert steered[0].isfinite().tolist() == [i not in (2, 3) for i in range(7)]
    assert steer(logits, [], [None] * 5) is logits
