"""Bytes of an optimiser: what it keeps beside the weights, and what a step of it takes.

In half precision steps are taken on float32 copies of the weights, which have gradients of their own.
"""

from collections.abc import Iterator

from headway.config import Frozen
from headway.cost.memory.traced import entries_of
from headway.cost.optimiser import optimiser_bytes
from headway.cost.setting import Setting
from headway.hub.parts import part_names
from headway.models import on_meta

WIDE = 4


def optimiser_state(config: Frozen, setting: Setting, optimiser: str) -> int:
    """Moments, and the copies of weights in half precision; muon keeps one moment of a block's matrices, two of the
    rest."""
    count = entries_of(config)
    copies = WIDE * count if setting.itemsize < WIDE else 0
    wide = max(WIDE, setting.itemsize) // WIDE
    if optimiser != "muon":
        return copies + wide * optimiser_bytes(optimiser, count)
    matrices = sum(rows * columns for rows, columns in block_matrices(config))
    return copies + wide * (optimiser_bytes("muon", matrices) + optimiser_bytes("adamw", count - matrices))


def update_bytes(config: Frozen, setting: Setting, optimiser: str) -> int:
    """Gradients, those of the copies, and what a step of muon works on."""
    count = entries_of(config)
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
