"""What cannot be traced: what ran is counted, and a sentence says where it stopped; mistakes are refused."""

import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway.cost.trace import inputs_for, trace


def shape(*sizes: int) -> Tensor:
    return torch.empty(sizes, device="meta")


class Chooses(nn.Module):
    """Goes one way or the other, by what the numbers are."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum().item() > 0 else -x


class Picks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[x > 0]


def between(module: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(7, 11), module, nn.Linear(11, 5))


@pytest.mark.parametrize(
    ("module", "operation", "rest"), [(Chooses(), "_local_scalar_dense", 110), (Picks(), "aten.index.Tensor", 0)]
)
def test_what_depends_on_data_is_told_in_a_sentence(module: nn.Module, operation: str, rest: int) -> None:
    """A number is guessed, and the rest is priced; a shape that depends on data stops the trace."""
    found = trace(between(module), shape(2, 7), memory=False)
    assert not found.complete
    assert found.forward.dense == 2 * 7 * 11 + rest  # the first map ran
    assert found.depth["sums"] >= 3
    assert operation in found.notes[0] and " in 1: " in found.notes[0] and "device='cpu'" in found.notes[0]


def test_real_numbers_go_on_where_shapes_stop() -> None:
    found = trace(between(Chooses()), torch.randn(2, 7), device="cpu", backward=True)
    assert found.complete and found.forward.dense == 2 * 7 * 11 + 2 * 11 * 5
    assert found.memory is not None and found.memory.saved is not None


def test_a_constant_that_is_read_back_does_not_stop_it() -> None:
    class Reads(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.tensor(2.0).item()

    found = trace(between(Reads()), shape(2, 7), memory=False)
    assert found.complete and found.device == "fake"
    assert "fake tensors" in found.notes[0]


def test_inputs_that_do_not_fit_are_the_users_mistake() -> None:
    with pytest.raises(ValueError, match=r"Sequential does not run on inputs of shapes \(2, 3\)"):
        trace(between(nn.Identity()), shape(2, 3))
    with pytest.raises(ValueError, match="no output has a gradient"):
        trace(nn.Identity(), shape(2, 3), backward=True)
    with pytest.raises(ValueError, match="meta, fake, cpu, not on 'tpu'"):
        trace(nn.Identity(), shape(2, 3), device="tpu")
    with pytest.raises(ValueError, match="needs real parameters"):
        trace(nn.Linear(3, 5, device="meta"), shape(2, 3), device="cpu")
    with pytest.raises(ValueError, match="has no shape yet"):
        trace(nn.LazyLinear(5), shape(2, 3))


def test_an_operation_without_a_rule_is_noted() -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.special.i0e(x)

    found = trace(Odd(), shape(2, 7), memory=False)
    assert found.complete and found.forward.other == 14
    assert any("special_i0e" in note and "no rule" in note for note in found.notes)


def test_a_module_that_cannot_be_copied_lends_itself() -> None:
    module = between(nn.GELU())
    module.lock = threading.Lock()  # type: ignore[assignment]
    before = {name: id(parameter) for name, parameter in module.named_parameters()}
    found = trace(module, shape(2, 7), backward=True)
    assert found.complete and found.forward.dense == 2 * 7 * 11 + 2 * 11 * 5
    assert found.lines[0].path == "0.addmm"
    assert before == {name: id(parameter) for name, parameter in module.named_parameters()}
    assert all(parameter.grad is None and not parameter.is_meta for parameter in module.parameters())


class Told(nn.Module):
    """Like a model of another library: a configuration, and the name of what it reads."""

    main_input_name = "input_ids"

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.config = type("Config", (), config)()


def sizes(module: nn.Module, shape: str | None = None) -> Any:
    inputs, keywords = inputs_for(module, 2, 5, 7, shape=shape)
    return [tuple(one.shape) for one in inputs] or {name: tuple(one.shape) for name, one in keywords.items()}


def test_inputs_are_guessed_from_what_a_module_is_made_of() -> None:
    assert sizes(nn.Sequential(nn.Linear(3, 11), nn.Embedding(13, 3))) == [(2, 5)]
    assert sizes(nn.Sequential(nn.Conv2d(4, 3, 3))) == [(2, 4, 224, 224)]
    assert sizes(nn.Sequential(nn.ReLU(), nn.Linear(11, 3))) == [(2, 5, 11)]
    assert sizes(nn.GRU(11, 3)) == [(5, 2, 11)] and sizes(nn.GRU(11, 3, batch_first=True)) == [(2, 5, 11)]
    assert sizes(Told(is_encoder_decoder=False)) == {"input_ids": (2, 5)}
    assert sizes(Told(is_encoder_decoder=True)) == {"input_ids": (2, 7), "decoder_input_ids": (2, 5)}


def test_inputs_can_be_said_in_words() -> None:
    module = nn.Identity()
    assert sizes(module, "tokens") == [(2, 5)] and sizes(module, "tokens:3,11") == [(3, 11)]
    assert sizes(module, "vectors:3,5,7") == [(3, 5, 7)] and sizes(module, "images:1,3,8,9") == [(1, 3, 8, 9)]
    for wrong in ("vectors", "vectors:3,5", "images:a,b,c,d", "sounds:3", "tokens:0,3"):
        with pytest.raises(ValueError, match="is no shape; there are tokens"):
            inputs_for(module, 2, 5, shape=wrong)
    with pytest.raises(ValueError, match=r"cannot tell what Identity reads: .*no embedding.*say it: tokens"):
        inputs_for(module, 2, 5)
    with pytest.raises(ValueError, match="a batch of 0 with length 5"):
        inputs_for(module, 0, 5)
