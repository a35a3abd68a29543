"""Windows for measuring: every token but the first is predicted once, from at most `length` tokens before it."""

import numpy as np
import torch

from headway.data.batch import IGNORED, Batch
from headway.data.tokens import View


class Strided:
    """Windows of `length` tokens that begin every `stride` tokens; all but the first ask for their last `stride` only.

    With stride = length they stand side by side, and the first tokens of each are predicted from little. A smaller
    stride gives every token at least length - stride tokens before it, and takes length / stride times as long.
    """

    sizes = None

    def __init__(self, view: View, length: int, *, stride: int | None = None) -> None:
        if view.total < 2:
            raise ValueError(f"there is nothing to predict in a text of {view.total} tokens: give more text")
        self.view, self.length = view, min(length, view.total - 1)
        self.stride = self.length if stride is None else min(stride, self.length)
        if self.stride < 1:
            raise ValueError(f"a stride is at least 1, not {stride}")

    def __len__(self) -> int:
        return 1 + -(-(self.view.total - 1 - self.length) // self.stride)

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        """{tokens, targets}; the last window ends with the data, and asks for what no other has."""
        starts = np.minimum(rows * self.stride, self.view.total - 1 - self.length)
        found = self.view.gather(starts, self.length + 1)
        tokens, targets = found[:, :-1].copy(), found[:, 1:].copy()
        # Window r - 1 has asked for all targets before r · stride - stride + length.
        asked = np.where(rows == 0, 0, (rows - 1) * self.stride + self.length - starts)
        targets[np.arange(self.length) < asked[:, None]] = IGNORED
        inputs = {"tokens": torch.from_numpy(tokens), "targets": torch.from_numpy(targets)}
        return Batch(inputs, {"loss": int((targets != IGNORED).sum())})
