"""What an optimiser costs: FLOPs and bytes for each parameter, and what a step of it works on.

adamw (arXiv:1711.05101), one FLOP for each operation of the formula:

    m = β₁ m + (1-β₁) g   3        v = β₂ v + (1-β₂) g²   4        m̂, v̂   2        p -= lr (m̂ / (√v̂ + ε) + λ p)   7

sgd with momentum: m = μ m + g, p -= lr m. muon keeps one moment of a matrix; its products depend on the shape, and are
counted with a run (headway/app/step_cost.py). In half precision steps are taken on float32 copies of the weights, which
have gradients of their own.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch

from headway.config import Frozen, nearest
from headway.config.train import LoraConfig
from headway.cost.setting import Setting
from headway.cost.trace import trace
from headway.hub.parts import part_names
from headway.models import count, on_meta
from headway.models.lora import add_lora, trainable
from headway.sizes import Cost, Number, other

FLOPS = {"adamw": 16, "adam": 14, "sgd": 4, "none": 0}
# Numbers kept beside each parameter, 4 bytes each.
KEPT = {"adamw": 2, "adam": 2, "sgd": 1, "none": 0, "muon": 1}


def optimiser_cost(name: str, parameters: Number) -> Cost:
    """The FLOPs of one update.

    >>> optimiser_cost("adamw", 10).other
    160
    """
    return other(_known(name, FLOPS) * parameters)


def optimiser_bytes(name: str, parameters: Number) -> Number:
    """The bytes of its state, in float32."""
    return 4 * _known(name, KEPT) * parameters


def _known(name: str, table: dict[str, int]) -> int:
    if name not in table:
        raise ValueError(f"there is no price of optimiser {name!r}{nearest(name, table)}; there are {', '.join(table)}")
    return table[name]


WIDE = 4


def optimiser_state(config: Frozen, setting: Setting, optimiser: str) -> int:
    """Moments, and the copies of weights in half precision; muon keeps one moment of a block's matrices, two of the
    rest."""
    count = learnt_of(config, setting)
    copies = WIDE * count if setting.itemsize < WIDE else 0
    wide = max(WIDE, setting.itemsize) // WIDE
    if optimiser != "muon":
        return copies + wide * optimiser_bytes(optimiser, count)
    matrices = sum(rows * columns for rows, columns in block_matrices(config))
    return copies + wide * (optimiser_bytes("muon", matrices) + optimiser_bytes("adamw", count - matrices))


def update_bytes(config: Frozen, setting: Setting, optimiser: str) -> int:
    """Gradients, those of the copies, and what a step of muon works on."""
    count = learnt_of(config, setting)
    wide = max(WIDE, setting.itemsize)
    gradients = count * (setting.itemsize + (WIDE if setting.itemsize < WIDE else 0))
    if optimiser != "muon":
        return gradients
    shapes: dict[tuple[int, int], int] = {}
    for rows, columns in block_matrices(config):
        shapes[rows, columns] = shapes.get((rows, columns), 0) + 1
    ahead = wide * sum(sets * rows * columns for (rows, columns), sets in shapes.items())
    return gradients + ahead + max((wide * _together(*shape, sets) for shape, sets in shapes.items()), default=0)


def _together(rows: int, columns: int, sets: int) -> int:
    """Entries that matrices of one shape take together: they and their next ones, and two of their products."""
    return 2 * sets * (rows * columns + min(rows, columns) ** 2)


def block_matrices(config: Frozen) -> Iterator[tuple[int, int]]:
    """The shapes of all matrices of blocks: Muon moves these, and queries, keys and values apart."""
    model = on_meta(config)
    parts = part_names(model)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2 and "blocks" in name.split(".") and name.endswith(".weight"):
            for rows in parts[name].values():
                yield rows or parameter.shape[0], parameter.shape[1]


def on_shapes(config: Frozen, setting: Setting) -> Any:
    """The model without numbers, with the adapters of the setting."""
    model = on_meta(config).to(getattr(torch, setting.dtype))
    if setting.lora is not None:
        with torch.device("meta"):
            add_lora(model, setting.lora)
    return model


def learnt_of(config: Frozen, setting: Setting) -> int:
    """Entries that are trained: those of adapters where there are any."""
    return entries_of(config) if setting.lora is None else _adapters_of(config, setting.lora)  # type: ignore[arg-type]


@lru_cache
def _adapters_of(config: Any, lora: LoraConfig) -> int:
    return trainable(on_shapes(config, Setting(lora=lora)))


def adapted_passes(config: Frozen, setting: Setting) -> tuple[Cost, Cost]:
    """Forwards and backwards with adapters, as a trace of the model shows: nothing goes back to frozen weights."""
    if config.kind_or_name() != "language":
        raise ValueError(
            f"a step of adapters has a price on language models alone, not on a {config.kind_or_name()} one"
        )
    model = on_shapes(config, setting).train()
    with torch.device("meta"):
        tokens = torch.zeros(setting.batch, setting.length, dtype=torch.long)
    seen = trace(model, tokens, backward=True, memory=False)
    return seen.forward, seen.backward


def entries_of(config: Frozen) -> int:
    """Entries of all parameters.

    >>> from headway.presets import preset
    >>> entries_of(preset("gpt2"))
    124439808
    """
    return _entries_of(config)  # type: ignore[arg-type]


_entries_of = lru_cache(count)
