"""Each head small: at most 48 x 48 points, so that all of them can be seen at once."""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

POINTS = 48  # on either side


class Maps:
    """A point is the mean over its rows of the largest weight among its keys: a thin diagonal keeps its strength."""

    def __init__(self, heads: int, rows: int, keys: int) -> None:
        self.rows, self.across = rows, min(keys, POINTS)
        self.total = torch.zeros(heads, min(rows, POINTS), self.across)
        self.count = torch.zeros(min(rows, POINTS), dtype=torch.long)

    def add(self, weights: Float[Tensor, "h l M"], first: int, step: int = 1) -> None:
        """Rows from `first` on, of every `step` rows one, counted among those that the map shows."""
        largest = weights if weights.shape[2] == self.across else F.adaptive_max_pool1d(weights, self.across)
        rows = torch.arange(first, first + weights.shape[1] * step, step)
        blocks = rows * self.total.shape[1] // max(self.rows, 1)
        self.total.index_add_(1, blocks, largest.float())
        self.count += blocks.bincount(minlength=len(self.count))

    def done(self) -> UInt8[np.ndarray, "h y x"]:
        """255 is the largest point of each map."""
        means = self.total / self.count.clamp(min=1)[:, None]
        top = means.amax((1, 2), keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
        return (means * (255 / top)).round().clamp(0, 255).to(torch.uint8).numpy()
