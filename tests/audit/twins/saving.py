"""Models that lose something between saving and loading."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.audit.twins.plain import CAUSAL, GPT, VOCABULARY, WIDTH, Attention
from tests.audit.twins.twin import Build, Twin, made, seeded


class Tied(GPT):
    """Embedding and head are one matrix, saved once."""

    def __init__(self) -> None:
        super().__init__()
        self.head.weight = self.tokens.weight
        self.register_state_dict_post_hook(self.saved_once)

    @staticmethod
    def saved_once(module: nn.Module, state: dict[str, Tensor], prefix: str, metadata: Any) -> None:
        state.pop(prefix + "head.weight", None)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        found = super().load_state_dict(state_dict, strict=False, assign=assign)
        self.tie()
        return found

    def tie(self) -> None:
        self.head.weight = self.tokens.weight


class Untied(Tied):
    """Loading does not tie them again: the head stays as it was drawn."""

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        self.head.weight = nn.Parameter(torch.randn_like(self.tokens.weight))
        return super().load_state_dict(state_dict, strict, assign)

    def tie(self) -> None:
        pass


class Features(Attention):
    """Keys and queries through a matrix that was drawn once (as in arXiv:2009.14794)."""

    saved = True

    def __init__(self, layer: int = 0) -> None:
        super().__init__(layer)
        self.register_buffer("drawn", torch.randn(8, 8), persistent=self.saved)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
        return super().attend(q @ self.drawn, k @ self.drawn, v, visible)


class FeaturesUnsaved(Features):
    saved = False


class Tempered(nn.Linear):
    """A head with a temperature that was found after training."""

    def __init__(self, kept: bool) -> None:
        super().__init__(WIDTH, VOCABULARY, bias=False)
        if kept:
            self.register_buffer("temperature", torch.tensor(1.0))
        else:
            self.temperature = torch.tensor(1.0)

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) / self.temperature.to(input.dtype)


class Interleaved(GPT):
    """Saves q, k and v head by head, as another library has them, and loads them as they come."""

    heads_first = True

    def __init__(self) -> None:
        super().__init__()
        self.register_state_dict_post_hook(self.written)

    @staticmethod
    def written(module: nn.Module, state: dict[str, Tensor], prefix: str, metadata: Any) -> None:
        for name in [name for name in state if name.endswith("qkv.weight")]:
            state[name] = state[name].unflatten(0, (3, 3, 8)).transpose(0, 1).flatten(0, 2)


class InterleavedBack(Interleaved):
    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        back = dict(state_dict)
        for name in [name for name in back if name.endswith("qkv.weight")]:
            back[name] = back[name].unflatten(0, (3, 3, 8)).transpose(0, 1).flatten(0, 2)
        return super().load_state_dict(back, strict, assign)


def exported(model: Callable[[], nn.Module]) -> Build:
    return made(model, **CAUSAL, rebuild=lambda: seeded(model, 11))


def tempered(kept: bool) -> Build:
    def fresh() -> nn.Module:
        model = GPT()
        model.head = Tempered(kept)
        return model

    def trained() -> nn.Module:
        model = fresh()
        model.head.temperature.fill_(1.7)
        return model

    return made(trained, **CAUSAL, rebuild=lambda: seeded(fresh, 11))


ATTENTION = "blocks.0.attention"

TWINS = [
    Twin("untied-by-loading", "transformers#46620", "export", "head", exported(Untied), exported(Tied)),
    Twin(
        "drawn-matrix-not-saved",
        "transformers#48722",
        "export",
        ATTENTION,
        exported(lambda: GPT(attention=FeaturesUnsaved)),
        exported(lambda: GPT(attention=Features)),
    ),
    Twin("temperature-not-saved", "", "export", "head", tempered(kept=False), tempered(kept=True)),
    Twin(
        "heads-in-another-order",
        "litgpt#1762",
        "export",
        ATTENTION + ".qkv",
        exported(Interleaved),
        exported(InterleavedBack),
    ),
]
