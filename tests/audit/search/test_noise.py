"""The tolerance is measured: rounding passes, the smallest leak does not, and numbers of fewer digits are seen."""

import torch
from torch import nn

from headway.adapt.adapter import Adapter
from headway.adapt.model import AdaptedModel
from headway.adapt.own import own_adapter
from headway.audit.examination import examine
from headway.audit.search.search_context import SearchContext
from tests.cost.tiny import MODELS
from tests.fresh import fresh


class Leaky(nn.Module):
    """A running mean that sees one place too many, with a small weight."""

    def __init__(self, weight: float, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.table, self.weight, self.dtype = nn.Embedding(11, 6), weight, dtype

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        x = x if self.dtype is None else x.to(self.dtype).to(x.dtype)
        total = x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]
        return total + self.weight * torch.cat([x[:, 1:], torch.zeros_like(x[:, :1])], 1)


def test_a_leak_of_a_billionth_is_found_in_a_float32_model() -> None:
    """In float32 itself it would drown in rounding."""
    finding = examine(Leaky(1e-9), Adapter(vocabulary=11, causal=True), laws="causal")["causal"]
    assert finding.broken and finding.deviation is not None and finding.deviation < 1e-8
    assert examine(Leaky(0.0), Adapter(vocabulary=11, causal=True), laws="causal").holds


def test_a_model_that_falls_back_to_float32_is_given_its_rounding() -> None:
    inside, plain = (
        SearchContext(AdaptedModel(Leaky(0.0, dtype).eval(), Adapter(vocabulary=11))).noise
        for dtype in (torch.float32, None)
    )
    assert inside.epsilon == torch.finfo(torch.float32).eps
    assert plain.epsilon == torch.finfo(torch.float64).eps
    assert inside.tolerance > 1e6 * plain.tolerance


def test_the_tolerance_of_a_deep_model_is_a_few_hundred_roundings() -> None:
    model = fresh(MODELS["llama"])
    adapter = own_adapter(model)
    assert adapter is not None
    noise = SearchContext(AdaptedModel(model, adapter)).noise
    assert noise.repeated == 0.0
    assert 1 <= noise.tolerance / noise.epsilon < 2000


def test_where_equal_runs_differ_nothing_is_said_to_hold() -> None:
    class Noisy(Leaky):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return super().forward(tokens) + torch.rand(()) * 0.5

    finding = examine(Noisy(1.0), Adapter(vocabulary=11, causal=True), laws="causal")["causal"]
    assert finding.status == "not applicable" and "determinism" in finding.why
