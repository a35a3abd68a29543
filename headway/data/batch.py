"""Examples and batches: what every kind of data looks like to the training loop.

The order of examples is a pure function of the seed, and all that is random in an example (hidden words, negatives,
shifted images) is drawn from that example's own key. So the state of the data is one number, the step; and two
processes that share a batch see what one process would have seen.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from torch import Tensor

IGNORED = -100  # a target that no loss looks at


@dataclass(frozen=True)
class Batch:
    """Tensors for a model, and for each loss how many things it is a mean of."""

    inputs: dict[str, Tensor]
    counts: dict[str, int]


@runtime_checkable
class Examples(Protocol):
    """Data that can be asked for any of its examples at any time."""

    def __len__(self) -> int:
        """How many examples one pass has."""
        ...

    @property
    def sizes(self) -> np.ndarray | None:
        """About how many tokens each example has, so that similar ones share a batch; None: all alike."""
        ...

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        """These examples together; `keys[i]` is the seed of all that is random in example `rows[i]`."""
        ...
