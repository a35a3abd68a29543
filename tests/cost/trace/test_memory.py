"""Bytes by tracing against bytes of a real run."""

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from headway.bench.measure import peak_memory
from headway.cost.trace import inputs_for, trace

B, L = 3, 61


def gpt2() -> nn.Module:
    sizes: dict[str, Any] = dict(n_layer=1, n_embd=60, n_head=3, vocab_size=997, bos_token_id=1, eos_token_id=1)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))


MODELS = {
    "gpt2": gpt2,
    "layer": lambda: nn.TransformerEncoderLayer(60, 3, 120, batch_first=True),
}


def real(given: Tensor) -> Tensor:
    return torch.randn(given.shape) if given.is_floating_point() else torch.randint(0, 97, given.shape)


def outputs(module: nn.Module, inputs: Any, keywords: Any) -> list[Tensor]:
    found = module(*inputs, **keywords)
    values = found.values() if isinstance(found, dict) else [found]
    return [value for value in values if isinstance(value, Tensor)]


def step(module: nn.Module, inputs: Any, keywords: Any) -> None:
    made = outputs(module, inputs, keywords)
    torch.autograd.backward(made, [torch.empty_like(one) for one in made])


def saved(module: nn.Module, inputs: Any, keywords: Any) -> int:
    own = {tensor.untyped_storage()._cdata for tensor in (*module.parameters(), *module.buffers())}
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor.detach()
        return kept[tensor.untyped_storage()._cdata]

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs(module, inputs, keywords)
    return sum(tensor.untyped_storage().nbytes() for key, tensor in kept.items() if key not in own)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_bytes_are_those_of_a_real_run(name: str, training: bool) -> None:
    module = MODELS[name]().train(training)
    inputs, keywords = inputs_for(module, B, L)
    found = trace(module, *inputs, backward=True, **keywords).memory
    assert found is not None and found.saved is not None and found.step_peak is not None
    inputs, keywords = tuple(map(real, inputs)), {key: real(value) for key, value in keywords.items()}
    assert found.saved == pytest.approx(saved(module, inputs, keywords), rel=0.01)
    with torch.no_grad():
        assert found.forward_peak == pytest.approx(
            peak_memory(lambda: outputs(module, inputs, keywords)).peak, rel=0.05
        )
    assert found.step_peak == pytest.approx(peak_memory(lambda: step(module, inputs, keywords)).peak, rel=0.05)


def test_saved_bytes_of_convolutions() -> None:
    """Their kernels' own scratch is not seen between operations, what they save is."""
    module = nn.Sequential(nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.ReLU(), nn.Conv2d(7, 5, 3))
    x = torch.randn(3, 3, 17, 19)
    found = trace(module, x, backward=True).memory
    assert found is not None and found.saved == saved(module, (x,), {})


def test_a_forward_pass_keeps_what_is_used_later() -> None:
    """Two maps of 7 to 11 and 11 to 5 entries: at most 7's output and the next are alive, input and weights apart."""
    module = nn.Sequential(nn.Linear(7, 11), nn.Linear(11, 5))
    found = trace(module, torch.empty(2, 7, device="meta")).memory
    assert found is not None and found.forward_peak == 4 * 2 * (11 + 5)
    assert found.saved is None


def test_nothing_is_allocated_and_the_module_is_left_alone() -> None:
    module = nn.Sequential(nn.Linear(7, 11), nn.BatchNorm1d(11))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    x = torch.randn(5, 7)
    for device in ("meta", "fake", "cpu"):
        trace(module, x, backward=True, device=device)
    assert all(parameter.grad is None for parameter in module.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    with torch.device("meta"):
        large = nn.Linear(2**20, 2**20)  # 4 TiB
    assert trace(large, torch.empty(1, 2**20, device="meta")).forward.dense == 2**40
