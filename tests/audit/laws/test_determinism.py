"""The same reading, the same result; and in training only dropout makes a difference."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.audit.laws.determinism import NoDropout, determinism, remove_dropout
from tests.audit.laws.sound import OURS, SOME, context_of, holds, ours, theirs
from tests.audit.twins.plain import CAUSAL, GPT, WIDTH, FeedForward
from tests.audit.twins.twin import seeded


class Noisy(FeedForward):
    """Adds noise in training, which no dropout explains."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + torch.randn_like(x) * 0.1 if self.training else x)


class Dropping(FeedForward):
    """Two ways to drop, neither of them a module."""

    dropout = 0.5

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(super().forward(F.dropout(x, self.dropout, self.training)), 0.1, self.training)


class Remembering(FeedForward):
    """Keeps what it read last, in no buffer."""

    last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        before = 0.0 if self.last is None else self.last
        self.last = x.detach().mean((0, 1))
        return super().forward(x) + before


class Unseeded(FeedForward):
    """Draws in training from a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = [torch.Generator().manual_seed(1)]

    def forward(self, x: Tensor) -> Tensor:
        found = super().forward(x)
        return found * torch.rand(WIDTH, generator=self.drawn[0]) if self.training else found


class Batched(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


def gpt(feedforward: type[nn.Module]) -> nn.Module:
    return seeded(lambda: GPT(feedforward=feedforward))


@pytest.mark.parametrize("name", OURS)
def test_our_models_hold(name: str) -> None:
    assert holds(determinism(ours(name)))


@pytest.mark.parametrize("name", SOME)
def test_models_of_transformers_hold(name: str) -> None:
    assert holds(determinism(theirs(name)))


def test_functional_dropout_is_dropout() -> None:
    assert holds(determinism(context_of(gpt(Dropping), **CAUSAL)))


@pytest.mark.parametrize(
    ("kind", "said"), [(Noisy, "without dropout"), (Remembering, "read"), (Unseeded, "the same seed")]
)
def test_what_is_not_the_same_twice_is_found(kind: type[FeedForward], said: str) -> None:
    found = determinism(context_of(gpt(kind), **CAUSAL))
    assert found.broken and found.module == "blocks.0.feedforward"
    assert found.example is not None and said in found.example.sentence and found.example.strips


def test_batch_statistics_are_named_as_the_cause() -> None:
    found = determinism(context_of(gpt(Batched), **CAUSAL))
    assert found.broken and found.module == "blocks.0.feedforward.norm"
    assert "statistics of the batch" in found.why


def test_the_model_is_left_as_it_was() -> None:
    model = gpt(Batched)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    state = torch.get_rng_state()
    determinism(context_of(model, **CAUSAL))
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
    assert not any(one.training for one in model.modules()) and torch.equal(torch.get_rng_state(), state)


def test_silence_reaches_attention_and_settings() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
    remove_dropout(layer)
    assert layer.self_attn.dropout == 0.0 and layer.dropout.p == 0.0
    x = torch.randn(1, 2, 3, 4)
    with NoDropout():
        dropped = F.scaled_dot_product_attention(x, x, x, dropout_p=0.9)
        assert torch.equal(F.dropout2d(x, 0.9), x)
    assert torch.allclose(dropped, F.scaled_dot_product_attention(x, x, x))
