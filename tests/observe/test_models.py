"""Every kind of model of ours: bit for bit the same, and every attention of it is seen."""

import pytest
import torch

from headway.cost.setting import Setting
from headway.cost.verify import real_inputs
from headway.models import make
from headway.nn.attention import Core
from headway.nn.block import Stack
from headway.observe.attention import captured
from headway.observe.weights import CapturedAttention
from tests.cost.tiny import MODELS, SOME


@pytest.mark.parametrize("name", SOME)
def test_nothing_changes_and_all_is_seen(name: str) -> None:
    model = make(MODELS[name]).eval()
    inputs = real_inputs(MODELS[name], Setting(batch=2, length=12, source=9))
    found: list[list[CapturedAttention]] = []
    for learning in (False, True):
        with torch.set_grad_enabled(learning):
            off = model(*inputs)
            with captured(model) as seen:
                on = model(*inputs)
        assert torch.equal(on, off)
        found.append(seen)
    cores = [key.removesuffix(".core") for key, part in model.named_modules() if isinstance(part, Core)]
    shared = [part.config.layers for part in model.modules() if isinstance(part, Stack) and part.config.shared]
    cores *= shared[0] if shared else 1  # one block runs as all layers
    assert sorted(one.name for one in found[0]) == sorted(cores) and cores
    for one, other in zip(*found, strict=True):
        assert one.weights().shape == one.shape == other.shape
        torch.testing.assert_close(one.weights(), other.weights(), rtol=0, atol=1e-6)
        assert (one.weights().sum(-1) - 1).abs().max() < 1e-5
