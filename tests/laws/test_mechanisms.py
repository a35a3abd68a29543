"""Every mechanism against every law: claimed laws hold, unclaimed ones are refuted, the rest cannot be posed."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Literal

import pytest
import torch
from torch import Tensor

from headway.audit.mechanisms.laws import LAWS, deviations, hold, refute, why_not
from headway.audit.mechanisms.trials import BATCH, KEY_WIDTH, VALUE_WIDTH, Trial, outcome, trials, visible
from headway.config import Linear, Spatial, Spec
from headway.ops.attention import MECHANISMS, Call, Mechanism, record_of
from headway.ops.attention.kernels.eager import average
from headway.ops.attention.mechanism import all_pairs
from headway.ops.mask.pairs import ALL
from headway.ops.mask.positions import Window
from tests.thorough import THOROUGH

COUNT = 100 if THOROUGH else 10

PAIRS = [(mechanism, law) for mechanism in MECHANISMS for law in LAWS]
IMPOSSIBLE = [(mechanism, law) for mechanism, law in PAIRS if why_not(MECHANISMS[mechanism], law)]
CLAIMED = [(mechanism, law) for mechanism, law in PAIRS if law in MECHANISMS[mechanism].laws]
UNCLAIMED = [pair for pair in PAIRS if pair not in CLAIMED and pair not in IMPOSSIBLE]


@lru_cache
def tried(mechanism: str) -> tuple[Trial, ...]:
    return tuple(trials(mechanism, COUNT))


@pytest.mark.parametrize(("mechanism", "law"), CLAIMED)
def test_a_claimed_law_holds(mechanism: str, law: str) -> None:
    found = deviations(MECHANISMS[mechanism], LAWS[law], tried(mechanism))
    assert len(found) >= 2, "too few trials could pose the law"
    worst = max(found, key=lambda pair: pair[1])
    assert worst[1] <= LAWS[law].tolerance, f"seed {worst[0].seed}"


@pytest.mark.parametrize(("mechanism", "law"), UNCLAIMED)
def test_an_unclaimed_law_is_refuted(mechanism: str, law: str) -> None:
    assert refute(MECHANISMS[mechanism], LAWS[law], tried(mechanism)) is not None


@pytest.mark.parametrize(("mechanism", "law"), IMPOSSIBLE)
def test_a_law_that_cannot_be_posed_is_listed_with_its_reason(mechanism: str, law: str) -> None:
    assert deviations(MECHANISMS[mechanism], LAWS[law], tried(mechanism)) == []
    assert len(why_not(MECHANISMS[mechanism], law) or "") > 20
    assert law not in MECHANISMS[mechanism].laws
    with pytest.raises(ValueError, match="no trial could pose"):
        hold(MECHANISMS[mechanism], LAWS[law], tried(mechanism))


def test_nothing_is_claimed_or_listed_that_does_not_exist() -> None:
    assert all(mechanism.laws <= LAWS.keys() for mechanism in MECHANISMS.values())
    assert all(law.sentence.endswith(".") for law in LAWS.values())


def test_every_law_is_claimed_by_some_and_one_by_few() -> None:
    """So the laws say something of a mechanism; two that are alike may claim the same."""
    assert set().union(*(mechanism.laws for mechanism in MECHANISMS.values())) == LAWS.keys()
    assert len({mechanism.laws for mechanism in MECHANISMS.values()}) > len(MECHANISMS) / 2


# A law that no mechanism breaks might be one that cannot be broken: each is shown a mechanism that breaks it.


def _everything_visible(call: Call) -> Tensor:
    return MECHANISMS["softmax"].attend(replace(call, mask=None))


def _by_index(call: Call) -> Tensor:
    weight = 1 + torch.arange(call.k.shape[2], dtype=call.k.dtype)[:, None] / 100
    return MECHANISMS["softmax"].attend(replace(call, v=call.v * weight))


def _heads_in_another_order(call: Call) -> Tensor:
    times = call.q.shape[1] // call.k.shape[1]
    return MECHANISMS["softmax"].attend(replace(call, k=call.k.repeat(1, times, 1, 1), v=call.v.repeat(1, times, 1, 1)))


def _through_zero_weights(call: Call) -> Tensor:
    return average(MECHANISMS["softmax"].weights(call, ALL, ALL), call.v)


def _uniform_where_empty(call: Call) -> Tensor:
    table = torch.ones(1) if call.mask is None else call.mask.at(call.pairs)
    out = MECHANISMS["softmax"].attend(call)
    return torch.where(table.any(-1, keepdim=True), out, out + call.v.mean())


def _windows_matter(call: Call) -> Tensor:
    out = MECHANISMS["softmax"].attend(call)
    parts = () if call.mask is None else call.mask.parts()
    return out * 1.001 if any(isinstance(part, Window) and part.size[1] >= 100 for part in parts) else out


def _grid_turned(call: Call) -> Tensor:
    assert isinstance(call.spec, Spatial)
    turned = call.spec.model_copy(update={"grid": call.spec.grid[::-1]})
    return MECHANISMS["spatial"].attend(replace(call, spec=turned))


def _chunks_matter(call: Call) -> Tensor:
    assert isinstance(call.spec, Linear)
    return MECHANISMS["linear"].attend(call) * (1 + call.spec.chunk / 1e6)


def _mixed(axis: int) -> Callable[[Call], Tensor]:
    def attend(call: Call) -> Tensor:
        return MECHANISMS["softmax"].attend(replace(call, q=call.q + call.q.mean(axis, keepdim=True)))

    return attend


SOFTMAX = MECHANISMS["softmax"]
BROKEN: dict[str, Mechanism] = {
    "loop": replace(SOFTMAX, attend=lambda call: SOFTMAX.attend(call) * (1 + 1e-6)),
    "rows_sum": replace(SOFTMAX, weights=lambda *asked: SOFTMAX.weights(*asked) * (1 - 1e-6)),
    "weights_are_output": replace(SOFTMAX, weights=lambda *asked: SOFTMAX.weights(*asked).flip(-1)),
    "masked_is_deleted": replace(SOFTMAX, attend=_everything_visible),
    "keys_permute": replace(SOFTMAX, attend=_by_index),
    "queries_independent": replace(SOFTMAX, attend=_mixed(2)),
    "equivariant": replace(SOFTMAX, attend=_by_index),
    "causal": replace(SOFTMAX, attend=_everything_visible),
    "window_is_full": replace(SOFTMAX, attend=_windows_matter),
    "groups": replace(SOFTMAX, attend=_heads_in_another_order),
    "batch": replace(SOFTMAX, attend=_mixed(0)),
    "padding": replace(SOFTMAX, attend=_everything_visible),
    "quarantine": replace(SOFTMAX, attend=_through_zero_weights),
    "empty_rows": replace(SOFTMAX, attend=_uniform_where_empty),
    "flattened": replace(MECHANISMS["spatial"], attend=_grid_turned),
    "three_forms": replace(MECHANISMS["linear"], attend=_chunks_matter),
    "keys_shift": replace(SOFTMAX, attend=lambda call: SOFTMAX.attend(replace(call, k=call.k.tanh()))),
    "values_linear": replace(SOFTMAX, attend=lambda call: SOFTMAX.attend(replace(call, v=call.v.abs()))),
}


@pytest.mark.parametrize("law", LAWS)
def test_every_law_can_be_broken(law: str) -> None:
    assert refute(BROKEN[law], LAWS[law], tried(BROKEN[law].name)) is not None


def test_a_nan_is_a_deviation() -> None:
    silent = replace(SOFTMAX, attend=lambda call: SOFTMAX.attend(call) * float("nan"))
    assert hold(silent, LAWS["loop"], tried("softmax")) == float("inf")


# A record of one's own is judged like the others.


class Even(Spec):
    """Every key that is seen counts the same."""

    kind: Literal["tests.laws.test_mechanisms:EVEN"] = "tests.laws.test_mechanisms:EVEN"


def _even_weights(call: Call, rows: slice, heads: slice) -> Tensor:
    seen = visible(record_of(call.spec), call).to(call.q.dtype)
    return (seen / seen.sum(-1, keepdim=True).clamp(min=1))[:, heads, rows]


def _even(call: Call) -> Tensor:
    return average(_even_weights(call, ALL, ALL), call.v) + 0 * call.q[..., :1].sum()


EVEN = Mechanism("even", Even, _even, _even, _even_weights, SOFTMAX.operation, laws=frozenset(), pattern=all_pairs)


def test_a_mechanism_of_ones_own_has_trials_and_laws() -> None:
    for law in ("rows_sum", "weights_are_output", "masked_is_deleted", "keys_permute", "keys_shift", "causal"):
        assert hold(EVEN, LAWS[law], trials(EVEN, 6)) <= LAWS[law].tolerance
    # Zero times NaN is NaN, and this one never looked.
    assert refute(EVEN, LAWS["quarantine"], trials(EVEN, 6)) is not None


# The trials themselves


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_trial_is_a_function_of_its_seed(mechanism: str) -> None:
    for one, other in zip(tried(mechanism)[:3], trials(mechanism, 3), strict=True):
        assert one.call.spec == other.call.spec
        assert str(one.call.mask) == str(other.call.mask)
        first, second = (outcome(MECHANISMS[mechanism].attend, x.call) for x in (one, other))
        assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_trials_are_various(mechanism: str) -> None:
    calls = [trial.call for trial in tried(mechanism)]
    assert all(x.dtype == torch.float64 for call in calls for x in (call.q, call.k, call.v))
    assert len({call.q.shape[1] // call.k.shape[1] for call in calls}) > 1
    assert len({str(call.mask) for call in calls}) > 1
    assert sum(call.mask is None for call in calls) < COUNT
    for call in calls:
        sizes = {BATCH, *call.q.shape[1:3], KEY_WIDTH, VALUE_WIDTH}
        assert len(sizes) == 5, "two sizes are the same, so a swapped axis could pass"
    if mechanism not in ("spatial", "channel"):
        assert any(call.positions is not None for call in calls)
        assert any(call.q.shape[2] != call.k.shape[2] for call in calls) or mechanism == "local"
    if "bias" in MECHANISMS[mechanism].modifiers:
        assert any(call.bias is not None for call in calls)
    if "softcap" in MECHANISMS[mechanism].modifiers:
        assert any(call.softcap is not None for call in calls)
