"""Dense FLOPs and parameters of every kind of model: the formula against torch's own counter on the reference path, and
executed FLOPs against a count on the fast path."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headway.cost.compose import price_tree
from headway.cost.op_tree import backward, forward, parameters
from headway.cost.reference_path import counter, reference_path
from headway.cost.setting import Setting
from headway.cost.verify import real_inputs
from headway.models import parameters as counted
from tests.cost.tiny import MODELS
from tests.fresh import fresh
from tests.thorough import THOROUGH

# `make test-thorough` takes every model at both sizes, else each has one of them.
SETTINGS = {"short": Setting(batch=2, length=5, source=7), "long": Setting(batch=3, length=11, source=4)}

SIZED = [
    (name, size)
    for place, name in enumerate(MODELS)
    for parity, size in enumerate(SETTINGS)
    if THOROUGH or parity == place % 2
]


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_of_the_module(name: str) -> None:
    assert parameters(price_tree(MODELS[name], SETTINGS["short"])) == counted(fresh(MODELS[name]))


@pytest.mark.parametrize(("name", "size"), SIZED)
def test_dense_flops_are_those_that_torch_counts_on_the_plain_path(name: str, size: str) -> None:
    config, setting = MODELS[name], SETTINGS[size]
    tree, model = price_tree(config, setting), fresh(config)
    with reference_path(model), torch.enable_grad():
        with FlopCounterMode(display=False) as counter:
            out = model(*real_inputs(config, setting))
        assert 2 * forward(tree).dense == counter.get_total_flops()
        with FlopCounterMode(display=False) as counter:
            out.sum().backward()
        assert 2 * backward(tree).dense == counter.get_total_flops()


@pytest.mark.parametrize(("name", "size"), SIZED)
def test_executed_flops_are_those_of_the_fast_path(name: str, size: str) -> None:
    config, setting = MODELS[name], replace(SETTINGS[size], training=True)
    tree, model = price_tree(config, setting), fresh(config)
    given = real_inputs(config, setting)
    model(*given)  # the canary of the fused kernel sings here, uncounted
    with counter() as found:
        out = model(*given)
    executed = forward(tree).executed
    assert executed is not None and 2 * executed == found.get_total_flops()
    with counter() as found:
        out.sum().backward()
    executed = backward(tree).executed
    assert executed is not None and 2 * executed == found.get_total_flops()
