"""What a model finds in a batch: sums, so that parts of a batch and processes add up."""

from typing import NamedTuple

from torch import Tensor


class Found(NamedTuple):
    """For each loss its sum over what it was asked of, and where answers are right or wrong, how many are right."""

    losses: dict[str, Tensor]
    hits: dict[str, Tensor] = {}  # noqa: RUF012
