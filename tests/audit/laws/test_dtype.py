"""What fewer digits cost: no more than their epsilon, in any module and far from the beginning too."""

import pytest
import torch
from torch import Tensor, nn

from headway.audit.laws.drift import ForceFloat64
from headway.audit.laws.dtype import dtype
from tests.audit.laws.sound import OURS, SOME, context_of, holds, ours, theirs
from tests.audit.twins.plain import CAUSAL, GPT, WIDTH, FeedForward
from tests.audit.twins.twin import seeded

LONG = dict(CAUSAL, longest=300)


class Far(GPT):
    """Has a vector for each of 300 positions."""

    def __init__(self, **parts: object) -> None:
        super().__init__(**parts)
        self.places = nn.Embedding(300, WIDTH)


class CountsInItsNumbers(Far):
    """Counts positions in the type of the weights: bfloat16 has 256, 258, 260 …"""

    def counted(self, tokens: Tensor, keep: Tensor, segments: Tensor | None) -> Tensor:
        return keep.to(self.head.weight.dtype).cumsum(-1).long() - 1


class Rounded(FeedForward):
    """Passes through float16 on its way."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.half().to(x.dtype))


class Narrow(FeedForward):
    """Overflows where numbers are larger than float16's; bfloat16's are cast to it."""

    def forward(self, x: Tensor) -> Tensor:
        kept = x * 1e5
        return super().forward((kept.half() if x.dtype == torch.bfloat16 else kept).to(x.dtype) / 1e5)


def gpt(model: type[GPT] = Far, **parts: object) -> nn.Module:
    return seeded(lambda: model(**parts))


@pytest.mark.parametrize("name", OURS)
def test_our_models_hold(name: str) -> None:
    assert holds(dtype(ours(name)))


@pytest.mark.parametrize("name", SOME)
def test_models_of_transformers_hold(name: str) -> None:
    assert holds(dtype(theirs(name)))


def test_every_module_has_its_drift_in_both_types() -> None:
    found = dtype(context_of(gpt(), **LONG))
    assert holds(found)
    named = {row["module"]: row for row in found.details}
    assert {"the model", "blocks.1.attention", "head"} <= named.keys()
    assert 0.1 < named["head"]["float32 epsilons"] < 10 and 0.1 < named["head"]["bfloat16 epsilons"] < 10
    assert named["head"]["bfloat16"] > 1000 * named["head"]["float32"]


def test_positions_counted_in_bfloat16_are_found_beyond_256() -> None:
    found = dtype(context_of(gpt(CountsInItsNumbers), **LONG))
    assert found.broken and found.example is not None and "in bfloat16" in found.example.sentence
    assert found.module in ("", "places")
    assert holds(dtype(context_of(gpt(CountsInItsNumbers), **dict(CAUSAL, longest=200))))


def test_fewer_digits_inside_a_float32_model_are_found() -> None:
    found = dtype(context_of(gpt(feedforward=Rounded), **LONG))
    assert found.broken and found.module == "blocks.0.feedforward"
    assert found.example is not None and "in float32" in found.example.sentence
    assert any(row.get("first") for row in found.details)
    first = next(one for one in found.layers if one.module == found.module)
    assert first.agreed and first.deviation > (found.tolerance or 1.0)


def test_what_is_not_finite_in_fewer_digits_is_found() -> None:
    found = dtype(context_of(gpt(feedforward=Narrow), **LONG))
    assert found.broken and found.module == "blocks.0.feedforward" and found.deviation == float("inf")


def test_float64_throughout() -> None:
    x = torch.randn(3, dtype=torch.float64)
    with ForceFloat64():
        assert torch.equal(x.half().float().double(), x)
        assert (torch.arange(3).float() * x.float()).dtype == torch.float64
