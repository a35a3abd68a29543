"""Layers that share one block: the equation, one set of parameters everywhere, and what cannot be told apart."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import headway
from headway.audit.health import diagnose
from headway.config.text import Seq2SeqConfig
from headway.config.train import LoraConfig
from headway.cost.reach.measured import measured
from headway.models import parameters
from headway.models.lora import adapters_of, add_lora
from headway.models.quantize import quantize_model
from headway.nn.block import Stack
from headway.observe.attention import captured
from headway.training.freeze import freeze
from tests.cost.tiny import MODELS, VOCABULARY, _stack, language
from tests.fresh import fresh
from tests.training.small import config, run, work

LAYERS = 5


def shared(layers: int = LAYERS):
    made = language().replace("stack", shared=True, layers=layers)
    return fresh(made, seed=3, std=0.2).double()


def tokens(*shape: int) -> Tensor:
    return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(7))


def unrolled(model):
    """The same function with a block of its own for every layer."""
    other = fresh(model.config.replace("stack", shared=False)).double()
    state = model.state_dict()
    blocks = {name: value for name, value in state.items() if name.startswith("stack.blocks.0.")}
    copies = {name.replace(".0.", f".{i}.", 1): value for name, value in blocks.items() for i in range(LAYERS)}
    other.load_state_dict(state | copies)
    return other


def test_every_layer_is_the_same_block_and_gradients_are_summed() -> None:
    model, text = shared(), tokens(3, 11)
    other = unrolled(model)
    for one in (model, other):
        one(text).square().mean().backward()
    assert torch.equal(model(text), other(text))
    own = dict(model.stack.blocks[0].named_parameters())
    for name, parameter in own.items():
        copies = [dict(block.named_parameters())[name].grad for block in other.stack.blocks]
        torch.testing.assert_close(parameter.grad, torch.stack(copies).sum(0), rtol=0, atol=1e-12)
    each = sum(one.numel() for one in own.values())
    assert parameters(model) == parameters(other) - (LAYERS - 1) * each


@torch.no_grad()
def test_every_layer_has_a_cache_of_its_own() -> None:
    model, text = shared(), tokens(2, 9)
    session = model.session()
    found = [session.read(text[:, :4]), *(session.read(text[:, i : i + 1]) for i in range(4, 9))]
    torch.testing.assert_close(torch.stack(found, 1), model(text)[:, 3:], rtol=0, atol=1e-12)
    assert len(model.stack.new_caches()) == LAYERS
    with pytest.raises(ValueError, match="5 blocks have 5 caches, not 4"):
        Stack(model.config.stack)(torch.zeros(1, 2, 14), None, model.stack.new_caches()[1:])


def test_what_cannot_be_shared_is_refused() -> None:
    gemma = MODELS["gemma"]
    with pytest.raises(ValueError, match="shared=True leaves no alternates"):
        gemma.replace("stack", shared=True)
    with pytest.raises(ValueError, match="are for a model of one stack"):
        Seq2SeqConfig(vocabulary=7, encoder=_stack().replace(shared=True), decoder=_stack(cross=True))


@torch.no_grad()
def test_a_file_holds_the_weights_once_and_its_depth_may_be_any(tmp_path: Path) -> None:
    model, text = shared(131), tokens(2, 5)
    headway.save(model, tmp_path / "whole")
    stored = load_file(tmp_path / "whole/model.safetensors")
    assert sum(one.numel() for one in stored.values()) == parameters(model)
    again = headway.load(tmp_path / "whole").model
    assert again.config == model.config and torch.equal(again(text), model(text))
    other = fresh(MODELS["gpt2"].replace("stack", shared=True))
    with pytest.raises(ValueError, match=r"gpt2 has no word for stack\.shared=True.*layout='headway'"):
        headway.save(other, tmp_path / "other")


def test_resumed_bit_for_bit(tmp_path: Path) -> None:
    def model():
        return fresh(work(config()).model.config.replace("stack", shared=True, layers=3), seed=3)

    whole = run(tmp_path / "whole", config(), model=model())
    run(tmp_path / "cut", config(), until=7, model=model())
    resumed = run(tmp_path / "cut", config(), resume=True, model=model())
    ours, theirs = (one.trainer.learner.model.state_dict() for one in (whole, resumed))
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
    kept = load_file(next((tmp_path / "whole/checkpoints").glob("step-00000011/*.safetensors")))
    assert sum(one.numel() for name, one in kept.items() if name.startswith("model/")) == parameters(model())


def test_layers_are_frozen_together() -> None:
    model = shared()
    with pytest.raises(ValueError, match=r"freeze layers:0-2: these layers share one .*freeze all: layers:0-4"):
        freeze(model, ["layers:0-2"])
    with pytest.raises(ValueError, match="the layers are 0 to 4"):
        freeze(model, ["layers:0-5"])
    freeze(model, ["layers:0-4"])
    assert not any(one.requires_grad for one in model.stack.blocks.parameters())


def test_adapters_serve_every_layer() -> None:
    model, text = shared(), tokens(2, 7)
    add_lora(model, LoraConfig(rank=2, alpha=4.0, on=("down",)), seed=5)
    model.double()
    ((name, adapter),) = adapters_of(model).items()
    assert name == "stack.blocks.0.feedforward.down"
    adapter.up.data.normal_(generator=torch.Generator().manual_seed(1))
    plain = shared()
    with torch.no_grad():
        plain.stack.blocks[0].feedforward.down.weight += 2.0 * adapter.up @ adapter.down
        torch.testing.assert_close(model(text), plain(text), rtol=0, atol=1e-12)


@torch.no_grad()
def test_quantised_weights_are_those_of_every_layer() -> None:
    text = tokens(2, 7)
    model = quantize_model(shared().float(), "int8")
    other = quantize_model(unrolled(shared()).float(), "int8")
    torch.testing.assert_close(model(text), other(text), rtol=0, atol=1e-6)


@torch.no_grad()
def test_every_layer_is_observed() -> None:
    model, text = shared(), tokens(1, 7)
    other = unrolled(model)
    with captured(model) as found:
        model(text)
    with captured(other) as expected:
        other(text)
    assert len(found) == LAYERS
    assert all(torch.equal(one.weights(), wanted.weights()) for one, wanted in zip(found, expected, strict=True))


def test_reach_and_health_are_by_layer() -> None:
    model = shared()
    assert measured(model, 11) == measured(unrolled(model), 11)
    depth, other = (diagnose(one, lambda: one(tokens(2, 7))).depth for one in (model, unrolled(model)))  # noqa: B023
    assert [one.module for one in depth][:3] == ["input of stack.blocks.0", "stack.blocks.0", "stack.blocks.0, call 2"]
    assert [one.activation for one in depth] == [one.activation for one in other]
