"""Sound models have no symptom, whatever they are made of."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway.audit.health import Health, diagnose
from headway.audit.health.depth import first_tensor
from headway.cost.setting import Setting
from headway.cost.verify import real_inputs
from headway.models import make
from tests.audit.health.patients import decoder, gpt2, tokens, vectors
from tests.cost.tiny import MODELS
from tests.fresh import fresh


def look(model: Any, *inputs: Tensor) -> Health:
    def run() -> Tensor:
        found = first_tensor(model(*inputs))
        assert found is not None
        return found

    return diagnose(model, run)


OURS = (
    "gpt2",
    "llama",
    "capped",
    "linear",
    "dilated",
    "bert-words",
    "seq2seq",
    "t5",
    "vit",
    "vit-mean",
    "davit",
    "bare",
)


@pytest.mark.parametrize("name", OURS)
def test_ours(name: str) -> None:
    model = fresh(MODELS[name]) if len(name) % 2 else make(MODELS[name]).eval()
    found = look(model, *real_inputs(MODELS[name], Setting(batch=2, length=12, source=9)))
    assert found.symptoms == []
    assert found.heads
    if name.startswith("davit"):
        assert any("between channels" in note for note in found.notes)


def test_deep_and_in_training() -> None:
    model, t = decoder(layers=12).train(), tokens()
    assert diagnose(model, lambda: model(t), tokens=t).symptoms == []


@pytest.mark.parametrize("std", [0.02, 44**-0.5])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_gpt2(implementation: str, std: float) -> None:
    model, t = gpt2(implementation, std=std), tokens()
    found = diagnose(model, lambda: model(t).logits, tokens=t)
    assert found.symptoms == [] and len(found.heads) == 12


@pytest.mark.parametrize("norm_first", [False, True])
def test_torch_encoder(norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(44, 4, 61, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()
    causal = nn.Transformer.generate_square_subsequent_mask(23)
    found = look(model, vectors(), causal)
    assert found.symptoms == []
    assert [one.module for one in found.heads[::4]] == [f"layers.{place}.self_attn" for place in range(3)]
    assert found.heads[0].keys == 12.5  # rows with 2 … 23 keys: the first has no choice


def test_a_single_token_has_no_choice() -> None:
    model, t = decoder(), torch.tensor([[1]])
    found = diagnose(model, lambda: model(t), tokens=t)
    assert found.symptoms == [] and found.heads[0].entropy is None
