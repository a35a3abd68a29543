"""Losses and accuracies over held-out examples, each of which is looked at once."""

import numpy as np
import torch
from torch import nn

from headway.data.batch import Examples
from headway.training.parallel import rest
from headway.training.world import World


@torch.no_grad()
def evaluate(
    module: nn.Module, examples: Examples, *, batch: int, world: World, limit: int = 0
) -> tuple[dict[str, float], dict[str, float]]:
    """(mean losses, shares of right answers), by name; `limit` batches at most, 0: all of them.

    What is random in an example is drawn from its number, so that every evaluation asks the same.
    """
    rows = by_size(examples, batch * limit or len(examples))
    parts = [rows[start : start + batch] for start in range(0, len(rows), batch)]
    sums: dict[str, float] = {}
    # All processes take the same number of turns, as sharded weights travel in each; a turn too many is not counted.
    for first in range(0, len(parts), world.data_size):
        mine = first + world.data_rank
        found = _sums(module, examples, parts[min(mine, len(parts) - 1)], world)
        for name, value in found.items():
            sums[name] = sums.get(name, 0.0) + (value if mine < len(parts) else 0.0)
    rest(module)
    sums = world.sums(sums)
    counted = {name: sums[f"count/{name}"] for name in (key[6:] for key in sums if key.startswith("count/"))}
    losses = {name: sums[f"loss/{name}"] / max(count, 1.0) for name, count in counted.items()}
    shares = {name: sums[f"hits/{name}"] / max(count, 1.0) for name, count in counted.items() if f"hits/{name}" in sums}
    return losses, shares


def by_size(examples: Examples, most: int) -> np.ndarray:
    """Rows, evenly spread where there are too many; similar sizes beside one another, so that little is padded."""
    rows = np.unique(np.linspace(0, len(examples) - 1, min(most, len(examples))).astype(np.int64))
    return rows if examples.sizes is None else rows[np.argsort(examples.sizes[rows], kind="stable")]


def _sums(module: nn.Module, examples: Examples, rows: np.ndarray, world: World) -> dict[str, float]:
    batch = examples.batch(rows, rows.astype(np.int64))
    found = module({name: x.to(world.device) for name, x in batch.inputs.items()})
    losses = {f"loss/{name}": float(value) for name, value in found.losses.items()}
    hits = {f"hits/{name}": float(value) for name, value in found.hits.items()}
    return {**{f"count/{name}": float(count) for name, count in batch.counts.items()}, **losses, **hits}
