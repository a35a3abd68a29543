"""What a price does not know it refuses by name: it never takes it for something else."""

from dataclasses import replace
from typing import Any, Literal

import pytest
from torch import nn

from headway.app.step_cost import step_price
from headway.config import AttentionConfig, BlockConfig, Frozen, LanguageConfig, Spec, StackConfig
from headway.cost.compose import price_tree
from headway.cost.input_lengths import PriceRequest, default_length
from headway.cost.memory import memory_of
from headway.cost.memory.fit import largest
from headway.cost.price import check_complete, drafted, price
from headway.cost.reach import reach
from headway.cost.reach.argmax import bound_of
from headway.cost.setting import Setting
from headway.cost.verify import real_inputs
from headway.nn.block import Block
from headway.ops import activation
from headway.ops.attention import MECHANISMS
from headway.ops.norm import norm_price, norm_steps
from headway.sizes import Operation
from tests.cost.tiny import MODELS

AT = Setting(batch=2, length=7)


class Odd(Frozen):
    """A configuration of a kind that nothing here was written for."""

    kind: Literal["odd"] = "odd"


def test_an_unknown_norm_is_refused_and_the_nearest_named() -> None:
    for call in (lambda: norm_price("layr", 3, 5), lambda: norm_steps("layr", 5)):
        with pytest.raises(ValueError, match=r"norm 'layr' .*layer"):
            call()


def test_an_activation_without_a_price_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(activation.ACTIVATIONS, "cube", lambda x: x**3)
    with pytest.raises(ValueError, match="cost of activation 'cube' is not known"):
        activation.activation_price("cube", 5)


def test_an_operation_is_of_a_known_kind() -> None:
    with pytest.raises(ValueError, match="no kind of operation 'scan'"):
        Operation("scan")


def changed(config: Any, path: str, value: Any) -> Any:
    """The configuration with one field changed, whether or not it allows the value."""
    first, _, rest = path.partition(".")
    return config.unchecked(**{first: changed(getattr(config, first), rest, value) if rest else value})


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("gpt2", "stack.block.order"),
        ("gpt2", "stack.block.norm"),
        ("gpt2", "positions"),
        ("seq2seq", "positions"),
        ("vit", "positions"),
        ("vit", "pooling"),
        ("sentence", "pooling"),
    ],
)
def test_a_part_of_a_model_is_not_taken_for_another(name: str, path: str) -> None:
    config = changed(MODELS[name], path, "sideways")
    with pytest.raises(ValueError, match="'sideways' is not known"):
        price_tree(config, AT)


@pytest.mark.parametrize(
    "call",
    [
        lambda: price_tree(Odd(), AT),
        lambda: memory_of(Odd(), AT),
        lambda: reach(Odd(), 7),
        lambda: bound_of(Odd(), 7, 7),
        lambda: default_length(Odd()),
        lambda: real_inputs(Odd(), AT),
    ],
)
def test_a_kind_of_model_is_not_taken_for_another(call: Any) -> None:
    with pytest.raises(ValueError, match="odd"):
        call()


def test_a_part_of_a_block_without_a_price_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    build = Block.__init__

    def with_gate(self: Block, *given: Any, **more: Any) -> None:
        build(self, *given, **more)
        self.gate = nn.Linear(3, 3)

    monkeypatch.setattr(Block, "__init__", with_gate)
    config = LanguageConfig(
        stack=StackConfig(block=BlockConfig(attention=AttentionConfig(width=26, causal=True)), layers=2),
        vocabulary=31,
        length=29,
    )
    with pytest.raises(ValueError, match=r"nothing is known of stack\.blocks\.gate"):
        price(config, length=5)


class Unread(Spec):
    """A mechanism whose author says nothing about a cache."""

    kind: Literal["tests.cost.test_unknown:UNREAD"] = "tests.cost.test_unknown:UNREAD"


UNREAD = replace(MECHANISMS["softmax"], name="unread", spec=Unread, cache=None)


def unread() -> LanguageConfig:
    """A model whose attention cannot be read token by token."""
    attention = AttentionConfig(width=12, heads=3, causal=True, mechanism=Unread())
    return LanguageConfig(stack=StackConfig(block=BlockConfig(attention=attention), layers=2), vocabulary=31, length=29)


def test_no_decoding_is_priced_where_no_cache_serves_the_mechanism() -> None:
    sheet = drafted(unread(), PriceRequest(length=7))
    assert set(sheet.phases) == {"forward", "backward", "step"}
    found = memory_of(unread(), AT)
    assert (found.cache, found.cache_token, found.peak_generate) == (0, 0, 0)
    with pytest.raises(ValueError, match="its record has no cache"):
        price_tree(unread(), AT.decode(5))
    with pytest.raises(ValueError, match="its record has no cache"):
        drafted(unread(), PriceRequest(length=7, new=3))
    with pytest.raises(ValueError, match="its record has no cache"):
        largest(unread(), AT, 10**9, "batch", "generate")


def test_a_step_is_that_of_its_own_optimiser() -> None:
    costs = {name: step_price(MODELS["gpt2"], AT, optimiser=name).cost.other for name in ("adamw", "sgd", "none")}
    parameters = step_price(MODELS["gpt2"], AT).parameters
    assert costs["adamw"] - costs["none"] == 16 * parameters
    assert costs["sgd"] - costs["none"] == 4 * parameters
    with pytest.raises(ValueError, match="no price of optimiser 'adagrad'"):
        step_price(MODELS["gpt2"], AT, optimiser="adagrad")


@pytest.mark.parametrize("name", list(MODELS))
def test_a_known_model_is_complete(name: str) -> None:
    check_complete(MODELS[name], drafted(MODELS[name], PriceRequest(batch=2)))
