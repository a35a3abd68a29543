"""Numbers in 16 bits: weights as they are, or the queries and keys that they can be computed from, row by row.

Weights of L queries and M keys take L·M numbers a head, queries and keys (L + M)·K: a long text is packed as the
latter, and whoever draws a row computes it. No torch.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float16, Float32, Int16, UInt8

LEVELS = 32767  # of a channel on either side of 0


@dataclass(frozen=True, eq=False)
class Weights:
    """Half precision: 11 bits of each weight, whatever its size down to 6e-5."""

    values: Float16[np.ndarray, "h l M"]

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def row(self, head: int, row: int) -> Float[np.ndarray, " M"]:
        """One row of one head; both counted among those that are held."""
        return self.values[head, row].astype(np.float64)


@dataclass(frozen=True, eq=False)
class Factors:
    """softmax over the allowed keys of cap(q·k) + bias, the scale being in q.

    Whole numbers of 16 bits with a step for each head and channel: as large as half precision, and 30 times finer for
    the large entries, which decide what the softmax says. The mean key of each head may be taken away beforehand where
    there is no cap: it adds the same to all scores of a row.
    """

    q: Int16[np.ndarray, "h l K"]
    k: Int16[np.ndarray, "h M K"]
    step: Float32[np.ndarray, "h K"]  # of q times of k
    softcap: float | None = None
    bias: Float32[np.ndarray, "h d"] | None = None  # at j − i + l − 1, i counted among the rows held: d = l + M − 1
    allowed: UInt8[np.ndarray, "a l m"] | None = None  # np.packbits over keys, a = 1 or h; None: all
    causal: bool = False  # key j is allowed to row i (counted from the first of all rows) where j <= i
    first: int = 0  # the number of the first row that is held

    @property
    def nbytes(self) -> int:
        held = (self.q, self.k, self.step, self.bias, self.allowed)
        return sum(one.nbytes for one in held if one is not None)

    def may(self, head: int, row: int) -> Bool[np.ndarray, " M"]:
        """The keys that a row may see."""
        count = self.k.shape[1]
        if self.causal:
            return np.arange(count) <= row + self.first
        if self.allowed is None:
            return np.ones(count, bool)
        table = self.allowed[head if len(self.allowed) > 1 else 0, row]
        return np.unpackbits(table, count=count).astype(bool)

    def row(self, head: int, row: int) -> Float[np.ndarray, " M"]:
        """One row of one head; both counted among those that are held. The page computes the same."""
        scores = self.k[head].astype(np.float64) @ (self.q[head, row] * self.step[head].astype(np.float64))
        if self.softcap is not None:
            scores = self.softcap * np.tanh(scores / self.softcap)
        if self.bias is not None:
            start = self.q.shape[1] - 1 - row
            scores = scores + self.bias[head, start : start + len(scores)]
        seen = self.may(head, row)
        if not seen.any():
            return np.zeros(len(scores))
        scores = np.where(seen, scores, -np.inf)
        powers = np.exp(scores - scores.max())
        return powers / powers.sum()


def weights(values: Float[np.ndarray, "h l M"]) -> Weights:
    """
    >>> weights(np.array([[[0.25, 0.75]]])).row(0, 0).tolist()
    [0.25, 0.75]
    """
    return Weights(values.astype(np.float16))


def factors(
    q: Float[np.ndarray, "h l K"],
    k: Float[np.ndarray, "h M K"],
    *,
    softcap: float | None = None,
    bias: Float[np.ndarray, "h d"] | None = None,
    allowed: Bool[np.ndarray, "a l M"] | None = None,
    causal: bool = False,
    first: int = 0,
) -> Factors:
    """Queries (already times the scale) and keys, each channel in steps of its largest entry over 32,767.

    >>> made = factors(np.array([[[1.0]]]), np.array([[[2.0], [0.0]]]))
    >>> made.row(0, 0).round(4).tolist()
    [0.8808, 0.1192]
    """
    k = k if softcap is not None else k - k.mean(1, keepdims=True)
    (left, down), (right, across) = _whole(q), _whole(k)
    table = None if allowed is None else np.packbits(allowed, axis=-1)
    shape = None if bias is None else bias.astype(np.float32)
    return Factors(left, right, (down * across).astype(np.float32), softcap, shape, table, causal, first)


def _whole(x: Float[np.ndarray, "h n K"]) -> tuple[Int16[np.ndarray, "h n K"], Float[np.ndarray, "h K"]]:
    x = x.astype(np.float64)
    step = np.maximum(np.abs(x).max(1), np.finfo(np.float32).tiny) / LEVELS
    return np.rint(x / step[:, None]).astype(np.int16), step
