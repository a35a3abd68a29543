"""Our own models: whatever an adapter says that a call takes is taken, and claims are those of the mechanism."""

from typing import Any

import pytest
import torch

from headway.adapt import own
from headway.adapt.own import own_adapter
from headway.adapt.trial import inference, trial_run
from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, StackConfig
from headway.config.kinds import CONFIGS
from headway.config.layers import VectorsConfig
from headway.config.spec import Spatial
from tests.cost.tiny import MODELS, SOME
from tests.fresh import fresh

SEGMENTS = torch.tensor([[0, 0, 0, 1, 1], [0, 1, 1, 1, 1]])
WITHIN = torch.tensor([[0, 1, 2, 0, 1], [0, 0, 1, 2, 3]])
GIVEN: dict[str, dict[str, Any]] = {
    "keep": {"keep": torch.tensor([[False, True, True, True, True], [True] * 5])},
    "positions": {"positions": torch.arange(5).repeat(2, 1) + 3},
    "segments": {"segments": SEGMENTS, "positions": WITHIN},
    "source": {},
}


@pytest.mark.parametrize("name", SOME)
def test_what_is_taken_goes_through_and_matters(name: str) -> None:
    model: Any = fresh(MODELS[name], std=0.3)
    adapter = own_adapter(model)
    assert adapter is not None
    with inference(model):
        plain = trial_run(model, adapter)
        for word in sorted(adapter.takes):
            assert trial_run(model, adapter, **GIVEN[word]).shape == plain.shape
        for word in {"keep", "segments"} & adapter.takes:
            assert not torch.equal(trial_run(model, adapter, **GIVEN[word]), plain)


def test_claims() -> None:
    claims = {
        name: own_adapter(fresh(MODELS[name])) for name in ("gpt2", "llama", "selected", "bare", "recurrent", "one-way")
    }
    said = {name: (one.shifts, one.equivariant, one.encodes_both_ways) for name, one in claims.items() if one}
    assert said == {
        "gpt2": (False, None, True), "llama": (True, None, True), "selected": (False, None, True),
        "bare": (True, True, True), "recurrent": (None, None, True), "one-way": (None, None, False),
    }  # fmt: skip


def test_linear_attention_keeps_no_texts_apart() -> None:
    linear, local = own_adapter(fresh(MODELS["linear"])), own_adapter(fresh(MODELS["local"]))
    assert linear is not None and "segments" not in linear.takes
    assert local is not None and "segments" in local.takes


def test_a_grid_is_read_whole() -> None:
    attention = AttentionConfig(width=8, heads=2, mechanism=Spatial(grid=(3, 4)))
    block = BlockConfig(attention=attention, feedforward=FeedForwardConfig(hidden=11, activation="relu"))
    model: Any = fresh(VectorsConfig(stack=StackConfig(block=block, layers=1), length=12))
    adapter = own_adapter(model)
    assert adapter is not None
    with inference(model):
        assert trial_run(model, adapter).shape == (2, 12, 8)


def test_every_kind_of_model_has_an_adapter_and_an_unknown_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(own.MAKERS) == set(CONFIGS)
    monkeypatch.delitem(own.MAKERS, "language")
    with pytest.raises(ValueError, match="how a model of the kind 'language' is called"):
        own_adapter(fresh(MODELS["gpt2"]))
