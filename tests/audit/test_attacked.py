"""What a sceptic tried: faults that hide, sound models that look odd, and models that are looked at, not changed."""

import torch
from torch import Tensor, nn

from headway.audit import examine


class Tokenwise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 8), nn.Linear(8, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.mixed(self.embed(tokens)))

    def mixed(self, x: Tensor) -> Tensor:
        return x


class LeakAt(Tokenwise):
    """One place sees the next, far into the text."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place

    def mixed(self, x: Tensor) -> Tensor:
        later = torch.zeros_like(x)
        later[:, self.place - 1 : self.place] = x[:, self.place : self.place + 1]
        return x + later


def test_a_leak_beyond_the_short_texts_is_found_and_shrunk() -> None:
    for place in (16, 64):
        finding = examine(LeakAt(place), laws="causal")["causal"]
        assert finding.broken and finding.example is not None
        assert finding.example.case["length"] == place + 1


class LayerNorm(nn.Module):
    """As some write it, with an ε that nobody can ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x, (8,), self.weight, self.bias, 1e-5)


class ScaleNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * nn.functional.normalize(x, dim=-1)


class Normed(Tokenwise):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def mixed(self, x: Tensor) -> Tensor:
        return self.norm(x)


def test_norms_that_say_little_are_no_faults() -> None:
    for norm in (LayerNorm(), ScaleNorm()):
        finding = examine(Normed(norm), laws="norm")["norm"]
        assert finding.status == "holds" and finding.trials >= 3


class Suffixed(Tokenwise):
    def forward(self, tokens: Tensor) -> Tensor:
        out = super().forward(tokens)
        return torch.cat([out, out[:, :1]], 1)


class Silent(LeakAt):
    """Its leak does not show behind a head of zeros."""

    def __init__(self) -> None:
        super().__init__(1)
        nn.init.zeros_(self.head.weight)


def test_what_cannot_be_told_is_not_said_to_hold() -> None:
    assert "one result for each" in examine(Suffixed(), laws="causal")["causal"].why
    assert "the same whatever it reads" in examine(Silent(), laws="causal")["causal"].why


class InFours(Tokenwise):
    def mixed(self, x: Tensor) -> Tensor:
        return x.unflatten(1, (-1, 4)).cumsum(2).flatten(1, 2)


class FromFour(Tokenwise):
    def mixed(self, x: Tensor) -> Tensor:
        return x + x.unfold(1, 4, 1).sum() * 0


def test_lengths_that_a_model_refuses_are_not_asked_for() -> None:
    for model, note in ((InFours(), "multiple"), (FromFour(), "shortest")):
        report = examine(model, laws="batch,causal", causal=True)
        assert any(note in one for one in report.notes)
        assert [one.status for one in report] == ["holds", "holds"]


def test_layers_of_torch_are_read_in_their_own_order() -> None:
    for order in (False, True):
        report = examine(nn.LSTM(6, 5, batch_first=order), laws="causal,batch,cache")
        assert [one.status for one in report] == ["holds"] * 3
    both = examine(nn.GRU(6, 5, bidirectional=True), laws="causal,masks")
    assert [one.status for one in both] == ["not claimed", "holds"]


class Counting(Tokenwise):
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def mixed(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        return x


def test_buffers_come_back_and_gradients_are_there_when_asked_for() -> None:
    model, buffer = Counting(), None
    buffer = model.calls
    with torch.no_grad():
        assert examine(model, laws="causal,batch").holds
    assert model.calls is buffer and float(buffer) == 0.0


class Broken(Tokenwise):
    """Fails now and then: for a text of 7."""

    def mixed(self, x: Tensor) -> Tensor:
        if x.shape[1] == 7:
            raise RuntimeError("seven is too many")
        return x


def test_a_law_that_a_model_cannot_stand_leaves_the_others() -> None:
    report = examine(Broken())
    assert report["batch"].status == "holds"
    assert all(one.why for one in report if one.status == "not applicable")
