"""Low-rank adapters on the linear maps of a frozen model (LoRA, arXiv:2106.09685).

    y = x Wᵀ + b + (alpha / rank) · dropout(x) Aᵀ Bᵀ        A: rank x inputs, B: outputs x rank

A begins random and B at 0, so that the model begins as it was. Queries, keys and values of a layer are one map, `qkv`:
an adapter of the queries alone changes the rows of W that make the queries.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headway.config.train import LORA_MAPS, LoraConfig
from headway.models.quantize import linear_maps
from headway.nn.attention import Attention
from headway.nn.layers import Linear
from headway.ops.linear import linear
from headway.ops.nonfinite_rows import CARE, by_rows

JOINED = {"qkv": ("query", "key", "value"), "key_value": ("key", "value")}


class LowRank(nn.Module):
    """x Aᵀ Bᵀ: `down` is A, `up` is B."""

    def __init__(self, inputs: int, outputs: int, rank: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        bound = inputs**-0.5
        self.down = nn.Parameter(torch.empty(rank, inputs).uniform_(-bound, bound, generator=generator))
        self.up = nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, x: Float[Tensor, "*b I"]) -> Float[Tensor, "*b O"]:
        return F.linear(F.linear(x, self.down), self.up)


class LoraLinear(Linear):
    """A linear map with adapters of some of its outputs; its own weight and bias are not trained.

    `rows` says which outputs each part has, one behind the other; a part without an adapter stays as it is.

    >>> layer = LoraLinear(Linear(3, 5), {"query": 2, "key": 3}, ["query"], LoraConfig(rank=1))
    >>> [(name, tuple(one.shape)) for name, one in layer.named_parameters() if one.requires_grad]
    [('adapters.query.down', (1, 3)), ('adapters.query.up', (2, 1))]
    """

    def __init__(
        self,
        base: nn.Linear,
        rows: Mapping[str, int],
        adapted: Sequence[str],
        config: LoraConfig,
        generator: torch.Generator | None = None,
    ) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight, self.bias = base.weight, base.bias
        self.rows, self.scale, self.dropout = dict(rows), config.alpha / config.rank, config.dropout
        self.adapters = nn.ModuleDict(
            {name: LowRank(base.in_features, rows[name], config.rank, generator) for name in adapted}
        )
        self.adapting = True  # False within `adapters_off`
        self.requires_grad_(False)
        self.adapters.requires_grad_(True)

    def forward(self, x: Float[Tensor, "*b I"]) -> Float[Tensor, "*b O"]:
        if not self.adapting:
            return super().forward(x)
        if CARE.passes:
            return by_rows(lambda rows: self._adapted(linear(rows, self.weight, self.bias), rows), x)
        return self._adapted(super().forward(x), x)

    def _adapted(self, y: Float[Tensor, "*b O"], x: Float[Tensor, "*b I"]) -> Float[Tensor, "*b O"]:
        """y with what the adapters make of x."""
        x = F.dropout(x, self.dropout) if self.dropout and self.training else x
        parts = zip(self.rows, y.split(list(self.rows.values()), -1), strict=True)
        found = [part + self.scale * self.adapters[name](x) if name in self.adapters else part for name, part in parts]
        return found[0] if len(found) == 1 else torch.cat(found, -1)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, scale={self.scale:g}, dropout={self.dropout:g}"


def add_lora(model: nn.Module, config: LoraConfig, *, seed: int = 0) -> None:
    """Freeze a model, and put adapters on the maps of attention and feed-forward that `config.on` names: in place."""
    generator = torch.Generator().manual_seed(seed)
    model.requires_grad_(False)
    known: set[str] = set()
    for _, parent, own, layer in list(linear_maps(model)):
        rows = map_rows(parent, own, layer)
        known |= set(rows)
        if adapted := [name for name in rows if name in config.on]:
            setattr(parent, own, LoraLinear(layer, rows, adapted, config, generator).to(layer.weight.dtype))
    if unknown := [name for name in config.on if name not in known]:
        there = ", ".join(name for name in LORA_MAPS if name in known) or "none"
        raise ValueError(f"lora.on names {unknown[0]}, and this {type(model).__name__} has no such map; it has {there}")


def map_rows(parent: nn.Module, own: str, layer: nn.Linear) -> dict[str, int]:
    """The parts of a map by name, each with its outputs."""
    if not isinstance(parent, Attention) or own not in JOINED:
        return {own: layer.out_features}
    return dict(zip(JOINED[own], parent.columns[-len(JOINED[own]) :], strict=True))


def adapters_of(model: nn.Module) -> dict[str, LowRank]:
    """Every adapter by the name that files have for its map: stack.blocks.0.attention.query."""
    return {
        f"{path.rpartition('.')[0]}.{name}": adapter
        for path, layer in lora_layers(model)
        for name, adapter in layer.adapters.items()
        if isinstance(adapter, LowRank)
    }


def lora_layers(model: nn.Module) -> Iterator[tuple[str, LoraLinear]]:
    for path, layer in model.named_modules():
        if isinstance(layer, LoraLinear):
            yield path, layer


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """Inside, the model is the one that the adapters were put on."""
    layers = [layer for _, layer in lora_layers(model)]
    for layer in layers:
        layer.adapting = False
    try:
        yield
    finally:
        for layer in layers:
            layer.adapting = True


def trainable(model: nn.Module) -> int:
    """How many parameters are trained."""
    return sum(one.numel() for one in model.parameters() if one.requires_grad)
