"""Normalisations: their own row or column, their norm, training and use."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.audit.laws.norm import norm
from headway.audit.report import Finding
from headway.nn.layers import BatchNorm
from tests.audit.laws.sound import OURS, SOME, context_of, holds, ours, theirs
from tests.audit.twins.plain import CAUSAL, GPT, WIDTH
from tests.audit.twins.twin import seeded

BARE = ("bare", "recurrent", "one-way")


class EpsilonOutside(nn.LayerNorm):
    """Adds ε to the deviation, not to the variance."""

    def __init__(self) -> None:
        super().__init__(WIDTH)

    def forward(self, input: Tensor) -> Tensor:
        centred = input - input.mean(-1, keepdim=True)
        deviation = input.var(-1, unbiased=False, keepdim=True).sqrt()
        return centred / (deviation + self.eps) * self.weight + self.bias


class OverText(nn.LayerNorm):
    """Normalises each column over the text."""

    def __init__(self) -> None:
        super().__init__(WIDTH)

    def forward(self, input: Tensor) -> Tensor:
        centred = input - input.mean(1, keepdim=True)
        return centred / (centred.pow(2).mean(1, keepdim=True) + self.eps).sqrt() * self.weight + self.bias


class SizeOfScale(nn.RMSNorm):
    """Loses the sign of γ where a square is rooted: no fault of its norm, and none in this law."""

    def __init__(self) -> None:
        super().__init__(WIDTH, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (WIDTH,), self.weight.pow(2).sqrt(), self.eps)


class TrainedOtherwise(nn.RMSNorm):
    def __init__(self) -> None:
        super().__init__(WIDTH, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1.01 if self.training else 1.0)


class Columns(nn.BatchNorm1d):
    """Batch norm of torch over the last axis."""

    own = False

    def __init__(self) -> None:
        super().__init__(WIDTH)

    def forward(self, input: Tensor) -> Tensor:
        flat = input.flatten(0, -2)
        now = self.training or self.own
        found = F.batch_norm(flat, self.running_mean, self.running_var, self.weight, self.bias, now, 0.1, self.eps)
        return found.view_as(input)


class BatchInUse(Columns):
    own = True


class Mixing(Columns):
    """In training takes one variance for all columns."""

    def forward(self, input: Tensor) -> Tensor:
        return (input - input.mean()) / input.std() if self.training else super().forward(input)


def tried(kind: type[nn.Module]) -> Finding:
    return norm(context_of(seeded(lambda: GPT(norm=kind)), **CAUSAL))


@pytest.mark.parametrize("name", [name for name in OURS if name not in BARE])
def test_our_models_hold(name: str) -> None:
    assert holds(norm(ours(name)))


@pytest.mark.parametrize("name", SOME)
def test_models_of_transformers_hold(name: str) -> None:
    assert holds(norm(theirs(name)))


@pytest.mark.parametrize("kind", [SizeOfScale, Columns, lambda: BatchNorm(WIDTH)])
def test_sound_norms_hold(kind: type[nn.Module]) -> None:
    found = tried(kind)
    assert holds(found) and len(found.details) == 5


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (EpsilonOutside, "norm law"), (OverText, "own row"), (TrainedOtherwise, "train and eval"),
        (BatchInUse, "own entry in use"), (Mixing, "own column in training"),
    ],
)  # fmt: skip
def test_a_wrong_norm_is_found_by_its_own_check(kind: type[nn.Module], check: str) -> None:
    found = tried(kind)
    assert found.broken and found.module == "blocks.0.norm1"
    assert found.example is not None and found.example.case == {"check": check}
    assert found.details[0][check] > (found.tolerance or 1.0)


class CubeNorm(nn.Module):
    """A norm of a kind that nobody knows: the mean of |x|³ becomes 1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x / x.abs().pow(3).mean(-1, keepdim=True).pow(1 / 3) * self.weight


class RowNorm(CubeNorm):
    """The same, wrong: over the text."""

    def forward(self, x: Tensor) -> Tensor:
        return x / x.abs().pow(3).mean(1, keepdim=True).pow(1 / 3) * self.weight


def test_the_length_of_an_unknown_norm_is_not_guessed() -> None:
    found = tried(CubeNorm)
    assert holds(found) and "CubeNorm" in found.why and "not known" in found.why
    assert all("norm law" not in row and row["kind"] == "CubeNorm (unknown)" for row in found.details)
    assert tried(RowNorm).broken, "its rows are tried all the same"


def test_without_norms_there_is_nothing_to_try() -> None:
    found = norm(ours("bare"))
    assert found.status == "not applicable" and "normalisation" in found.why


def test_the_model_keeps_its_weights() -> None:
    model = seeded(lambda: GPT(norm=Columns))
    before = {name: one.clone() for name, one in model.state_dict().items()}
    norm(context_of(model, **CAUSAL))
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
