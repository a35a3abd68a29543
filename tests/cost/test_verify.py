"""Predicted beside measured, on small models of several kinds."""

import pytest
import torch
from torch import nn

import headway
from headway.cost.verify import Check, verify
from tests.cost.tiny import MODELS, TOWERS, language
from tests.fresh import fresh
from tests.thorough import THOROUGH

EXACT = {"parameters", "FLOPs", "positions"}
KINDS = [
    "gpt2", "local", "linear", "gemma", "neox", "olmo", "granite", "opt", "t5", "recurrent", "vit", "dinov2",
    "bert-words", "bare", "classifier",
]  # fmt: skip
DAILY = ("gpt2", "linear", "gemma", "t5", "recurrent", "vit", "bert-words")


@pytest.mark.parametrize("name", [name for name in KINDS if THOROUGH or name in DAILY])
def test_counts_are_those_of_the_real_model(name: str) -> None:
    size = (
        {"length": 9, "source": 7}
        if name in ("t5", "recurrent")
        else {}
        if name in ("vit", "dinov2")
        else {"length": 9}
    )
    checks = {one.name: one for one in verify(headway.price(MODELS[name], batch=2, **size))}
    wrong = [one for one in checks.values() if one.unit in EXACT and one.difference]
    assert not wrong
    assert {"parameters", "dense forward", "dense backward", "executed forward", "executed backward"} <= checks.keys()
    if name in ("gpt2", "local", "linear", "gemma", "neox", "olmo", "granite", "opt", "t5"):
        assert checks["cache"].difference == 0
        assert abs(checks["saved activations"].ratio - 1) < 0.01
        assert any(one.startswith("reach") for one in checks)


@pytest.mark.parametrize("name", TOWERS)
def test_counts_of_two_towers(name: str) -> None:
    checks = {one.name: one for one in verify(headway.price(TOWERS[name], batch=2, length=9))}
    assert not [one for one in checks.values() if one.unit in EXACT and one.difference]
    assert {"parameters", "dense forward", "dense backward", "executed forward", "executed backward"} <= checks.keys()


def test_a_trace_has_no_second_count() -> None:
    with pytest.raises(ValueError, match="priced by a trace of itself"):
        list(verify(headway.price(nn.Sequential(nn.Linear(3, 5)), length=7)))


def test_a_model_that_differs_from_its_price_is_found() -> None:
    """The proof can fail: another width, and parameters and products differ."""
    sheet = headway.price(language(), length=9)
    other = fresh(language(head_width=8))
    found = {one.name: one for one in verify(sheet, other)}
    assert found["parameters"].difference > 0 and found["dense forward"].difference > 0


def test_a_check_in_numbers() -> None:
    one = Check("forward", 3.0, 2.0, "seconds")
    assert (one.difference, one.ratio, one.as_json()["difference"]) == (-1.0, 1.5, -1.0)
    assert Check("nothing", 0, 0, "bytes").ratio == 1.0
    assert torch.isinf(torch.tensor(Check("something", 1, 0, "bytes").ratio))
