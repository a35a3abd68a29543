"""Saved and loaded, a model is the same function, tied as it was."""

import pytest
import torch
from torch import Tensor, nn

from headway.audit.laws.export import export
from headway.audit.report import Finding
from tests.audit.laws.sound import OURS, SOME, context_of, holds, ours, theirs
from tests.audit.twins.plain import CAUSAL, GPT, WIDTH, FeedForward
from tests.audit.twins.twin import seeded


class Tied(GPT):
    def __init__(self) -> None:
        super().__init__()
        self.head.weight = self.tokens.weight


class Assigned(Tied):
    """Takes the tensors of a file as its own: they hold the same numbers, and are two."""

    def load_state_dict(self, state_dict: dict, strict: bool = True, assign: bool = False) -> object:  # type: ignore[override]
        apart = {name: one.clone() for name, one in state_dict.items()}
        return super().load_state_dict(apart, strict, assign=True)


class Renamed(GPT):
    """Saves a name that it does not know when it loads."""

    def state_dict(self, *args: object, **kwargs: object) -> dict[str, Tensor]:  # type: ignore[override]
        found = super().state_dict()
        found["blocks.0.norm1.gamma"] = found.pop("blocks.0.norm1.weight")
        return found


class Shifted(FeedForward):
    """Adds what no state holds."""

    def __init__(self) -> None:
        super().__init__()
        self.shift: Tensor
        self.register_buffer("shift", torch.randn(WIDTH), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.shift


def tried(model: type[nn.Module], **parts: object) -> Finding:
    return export(
        context_of(seeded(lambda: model(**parts)), **CAUSAL, rebuild=lambda: seeded(lambda: model(**parts), 9))
    )


@pytest.mark.parametrize("name", OURS)
def test_our_models_hold(name: str) -> None:
    found = export(ours(name))
    assert holds(found) and "load" in found.why


@pytest.mark.parametrize("name", SOME)
def test_models_of_transformers_hold(name: str) -> None:
    found = export(theirs(name))
    assert holds(found) and "from_pretrained" in found.why


def test_a_tie_that_survives_and_one_that_does_not() -> None:
    assert holds(tried(Tied))
    found = tried(Assigned)
    assert found.broken and found.module == "head" and found.example is not None
    assert "tokens.weight and head.weight are one tensor before" in found.example.sentence


def test_a_buffer_that_is_not_saved_is_named() -> None:
    found = tried(GPT, feedforward=Shifted)
    assert found.broken and found.module == "blocks.0.feedforward"
    assert found.details[0] == {"tensor": "blocks.0.feedforward.shift", "kind": "buffer", "saved": False}


def test_without_a_way_to_build_it_anew_what_no_state_holds_stays() -> None:
    assert holds(export(context_of(seeded(lambda: GPT(feedforward=Shifted)), **CAUSAL)))


def test_names_that_do_not_fit_are_told() -> None:
    found = tried(Renamed)
    assert found.broken and found.module == "blocks.0.norm1" and "blocks.0.norm1.weight" in found.why
