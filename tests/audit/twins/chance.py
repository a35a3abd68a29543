"""Models that are another in each run: dropout, noise, and what goes on learning."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.audit.twins.mixers import Routed
from tests.audit.twins.plain import CAUSAL, GPT, WIDTH, FeedForward
from tests.audit.twins.twin import Build, Twin, made


class AlwaysDrops(FeedForward):
    """F.dropout is on unless it is told otherwise."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(super().forward(x), 0.2)


class Drops(FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(super().forward(x), 0.2, training=self.training)


class NeverEval(nn.Dropout):
    """Does not hear that training is over."""

    def train(self, mode: bool = True) -> "NeverEval":
        return super().train(True)


class Sampled(FeedForward):
    def __init__(self, dropout: type[nn.Dropout]) -> None:
        super().__init__()
        self.dropout = dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(super().forward(x))


class NoisyRouter(Routed):
    """Explores in use as it did in training."""

    def liking(self, x: Tensor) -> Tensor:
        found = super().liking(x)
        return found + torch.randn_like(found)


class Counting(FeedForward):
    """Goes on learning its mean while it is used."""

    always = True

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        if self.always or self.training:
            self.mean.lerp_(x.detach().mean((0, 1)), 0.1)
        return super().forward(x - self.mean)


class Counted(Counting):
    always = False


def gpt(**parts: Any) -> Build:
    return made(lambda: GPT(**parts), **CAUSAL)


FEED = "blocks.0.feedforward"
DROPS = gpt(feedforward=Drops)
# Who is another in each run is another in each type too.
CHANCE = frozenset({"dtype", "export"})  # no two passes agree, whatever is between them

TWINS = [
    Twin("dropout-never-told", "", "determinism", FEED, gpt(feedforward=AlwaysDrops), DROPS, CHANCE),
    Twin(
        "dropout-left-on",
        "",
        "determinism",
        FEED + ".dropout",
        gpt(feedforward=lambda: Sampled(NeverEval)),
        gpt(feedforward=lambda: Sampled(nn.Dropout)),
        CHANCE,
    ),
    Twin("noise-in-the-router", "", "determinism", FEED, gpt(feedforward=NoisyRouter), gpt(feedforward=Routed), CHANCE),
    Twin(
        "learns-while-used",
        "",
        "determinism",
        FEED,
        gpt(feedforward=Counting),
        gpt(feedforward=Counted),
        frozenset({"causal", "padding", "quarantine", "batch", "masks", "dtype"}),
    ),
]
