"""Lines of a sheet: where each operation ran, what it costs by which rule, parameters by kind; our own models."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Frozen, StackConfig
from headway.config.text import LanguageConfig
from headway.cost.op_tree import Line
from headway.cost.trace import UNIT_COSTS, inputs_for, merged, parameters_of, table, trace
from headway.cost.trace.products import PRODUCTS
from headway.cost.trace.rules import FREE, RULES
from headway.models import make

B, L, D, F = 2, 5, 7, 11


def shape(*sizes: int) -> Tensor:
    return torch.empty(sizes, device="meta")


class Stack(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        block = lambda: nn.Sequential(nn.LayerNorm(D), nn.Linear(D, F), nn.GELU(), nn.Linear(F, D))  # noqa: E731
        self.blocks = nn.ModuleList(block() for _ in range(layers))
        self.head = nn.Linear(D, 3)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def by_path(lines: tuple[Line, ...] | list[Line]) -> dict[str, Line]:
    return {line.path: line for line in lines}


def test_each_operation_stands_where_it_ran_with_its_own_gradient() -> None:
    found = by_path(trace(Stack(3), shape(B, L, D), backward=True, memory=False).lines)
    first = found["blocks.1.1.addmm"].operation
    assert (first.kind, first.forward.dense, first.backward.dense) == ("product", B * L * D * F, 2 * B * L * D * F)
    assert (first.forward.other, first.backward.other) == (B * L * F, 2 * B * L * F)
    assert (first.weights, first.biases, first.shape) == (D * F, F, (1, B * L, D, F))
    assert (first.reads, first.writes) == (B * L * D, B * L * F)
    assert found["blocks.0.2.gelu"].operation.forward.other == 5 * B * L * F
    assert found["blocks.2.0.native_layer_norm"].operation.forward.other == 7 * B * L * D
    assert found["head.addmm"].operation.backward.dense == 2 * B * L * D * 3
    # the input needs no gradient, but the first norm's parameters do
    assert found["blocks.0.1.addmm"].operation.backward.dense == 2 * B * L * D * F


def test_a_map_whose_input_needs_no_gradient_goes_back_once() -> None:
    found = trace(nn.Linear(D, F), shape(B, D), backward=True, memory=False)
    assert found.backward.dense == B * D * F
    assert (
        trace(nn.Linear(D, F), shape(B, D).requires_grad_(), backward=True, memory=False).backward.dense
        == 2 * B * D * F
    )


def test_numbered_siblings_that_do_the_same_are_one() -> None:
    found = trace(Stack(12), shape(B, L, D), memory=False)
    joined = merged(found.lines)
    lines = by_path(joined)
    assert lines["blocks.0-11.1.addmm"].runs == lines["blocks.0-11.1.addmm"].sets == 12
    assert lines["head.addmm"].runs == 1
    assert len(joined) == 6
    assert sum(line.runs * line.operation.forward.dense for line in joined) == found.forward.dense
    assert sum(line.sets * line.operation.parameters for line in joined) == found.parameters.total


def test_siblings_that_differ_stay_apart() -> None:
    module = nn.Sequential(nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, F))
    assert [(line.path, line.runs) for line in merged(trace(module, shape(B, D), memory=False).lines)] == [
        ("0-1.addmm", 2), ("2.addmm", 1),
    ]  # fmt: skip


def test_a_recurrence_uses_its_parameters_again() -> None:
    found = trace(nn.GRU(D, 3, batch_first=True), shape(B, L, D), memory=False)
    assert by_path(found.lines)["addmm"].runs == L and by_path(found.lines)["addmm"].sets == 1
    assert sum(line.sets * line.operation.parameters for line in found.lines) == found.parameters.total


@pytest.mark.parametrize(
    ("name", "flops"),
    [("relu", 1), ("gelu", 5), ("silu", 5), ("sigmoid", 4), ("tanh", 1), ("square", 1), ("exp", 1), ("neg", 0)],
)
def test_curves_cost_what_the_table_says(name: str, flops: int) -> None:
    class Curve(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            own: Any = torch.ops.aten
            return getattr(own, name)(x)

    found = trace(Curve(), shape(B, D), memory=False)
    assert (found.forward.other, found.depth["tree"], found.depth["sums"]) == (flops * B * D, flops, 0)


def test_gelu_by_tanh_costs_the_same_written_out() -> None:
    class Written(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x.pow(3))))

    fused = trace(nn.GELU(approximate="tanh"), shape(B, D), memory=False)
    assert fused.forward.other == trace(Written(), shape(B, D), memory=False).forward.other == 9 * B * D


def test_a_norm_that_is_written_out_is_a_norm() -> None:
    """Square, sum, multiply, scale: four an entry, and a division, ε and a root for each row (the mean's included)."""

    class OwnNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(D))

        def forward(self, x: Tensor) -> Tensor:
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    found = trace(nn.Sequential(OwnNorm()), shape(B, L, D), memory=False)
    assert {line.operation.kind for line in found.lines} == {"norm"}
    assert found.forward.other == 4 * B * L * D + 2 * B * L
    assert found.depth == trace(nn.RMSNorm(D), shape(B, L, D), memory=False).depth


def test_whole_numbers_are_no_floating_point() -> None:
    class Counts(nn.Module):
        def forward(self, tokens: Tensor) -> Tensor:
            return (tokens + 1).cumsum(-1) * 2

    found = trace(Counts(), torch.empty(B, L, dtype=torch.long, device="meta"), memory=False)
    assert found.forward.other == 0 and found.depth["tree"] == 1 + 3 + 1


def test_the_table_says_each_operation_once() -> None:
    names = [name for _, _, group in UNIT_COSTS for name in group.split()]
    assert len(names) == len(set(names)) == len(RULES)
    assert not set(names) & FREE and not set(names) & set(PRODUCTS) and not FREE & set(PRODUCTS)
    assert all(len(row) == 4 for row in table())


def test_names_in_the_table_are_operations_of_torch() -> None:
    own: Any = torch.ops.aten
    unknown = [name for name in (*RULES, *FREE, *PRODUCTS) if not hasattr(own, name) and not hasattr(own, f"{name}_")]
    assert unknown == []


def test_parameters_by_kind_tied_ones_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.position_embedding = nn.Embedding(13, D), nn.Parameter(torch.zeros(1, L, D))
            self.norm, self.inner = nn.LayerNorm(D), nn.Linear(D, F)
            self.head = nn.Linear(D, 13)
            self.head.weight = self.words.weight

    found = parameters_of(Tied())
    assert found.kinds == {"weights": D * F, "biases": F + 13, "embeddings": (13 + L) * D, "norms": 2 * D}
    assert found.tied == {"head.weight": "words.weight"}
    assert found.modules == {"": L * D, "words": 13 * D, "norm": 2 * D, "inner": D * F + F, "head": 13}
    assert found.total == sum(parameter.numel() for parameter in Tied().parameters())


def language() -> Frozen:
    attention = AttentionConfig(width=24, heads=3, causal=True)
    block = BlockConfig(attention=attention, feedforward=FeedForwardConfig(hidden=40))
    return LanguageConfig(vocabulary=97, length=32, stack=StackConfig(block=block, layers=2))


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_our_own_models_are_traced_with_shapes_alone_or_numbers(device: str) -> None:
    model = make(language()).eval()
    inputs, keywords = inputs_for(model, B, 13)
    found = trace(model, *inputs, device=device, backward=True, memory=False, **keywords)
    layer = 13 * (4 * 24 * 24 + 2 * 24 * 40) + 2 * 13 * 13 * 24
    assert found.complete and found.forward.dense == B * (2 * layer + 13 * 24 * 97)
    assert found.backward.dense == 2 * found.forward.dense
