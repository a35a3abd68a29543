"""What is added to a score for where query and key stand: rules over the difference of two positions."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.ops.mask.pairs import Pairs
from headway.ops.values import constant


@runtime_checkable
class Bias(Protocol):
    """What is added to the score of a query and a key, as a rule over positions: no L x M tensor until one asks.

    `table` takes the parameters as an argument, so that a computation in chunks can make a chunk again in its
    backward pass and collect gradients for tensors of its own.
    """

    @property
    def parameters(self) -> tuple[Tensor, ...]: ...

    def table(self, parameters: tuple[Tensor, ...], pairs: Pairs) -> Float[Tensor, "#b H L M"]: ...


def alibi_slopes(
    heads: int, *, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
) -> Float[Tensor, "{heads}"]:
    """One slope per head: 2^(-8h/n), h = 1 … n, for n a power of two (Press et al. 2021, arXiv:2108.12409).

    For other counts: the slopes of the power of two p below, then the 1st, 3rd, 5th … slope of 2p, as many as lack.

    >>> alibi_slopes(3).tolist()
    [0.0625, 0.00390625, 0.25]
    """
    if heads < 1:
        raise ValueError(f"ALiBi needs at least one head, not {heads}")
    power = 1 << (heads.bit_length() - 1)
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    slopes += [2 ** (-4 * h / power) for h in range(1, 2 * power, 2)]
    return torch.tensor(slopes[:heads], dtype=dtype, device=device)


@dataclass(frozen=True, eq=False)
class Alibi:
    """A penalty that grows with distance: -slope · |i - j| (arXiv:2108.12409, which has j <= i only)."""

    slopes: Float[Tensor, " H"]

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        return (self.slopes,)

    def table(self, parameters: tuple[Tensor, ...], pairs: Pairs) -> Float[Tensor, "#b H L M"]:
        (slopes,) = parameters
        # bfloat16 cannot tell the distance 257 from 256.
        dtype = torch.promote_types(slopes.dtype, torch.float32)
        return _tabulate(lambda d: -slopes[:, None] * d.abs().to(dtype), pairs)


@dataclass(frozen=True, eq=False)
class Clipped:
    """One learned number per head and difference j - i, clipped to -R … R (Shaw et al. 2018, arXiv:1803.02155).

    Row R + d of the weight belongs to the difference d = j - i.
    """

    weight: Float[Tensor, "differences H"]

    def __post_init__(self) -> None:
        if len(self.weight) % 2 == 0:
            raise ValueError(f"differences -R … R need 2R + 1 rows, an odd number; the weight has {len(self.weight)}")

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        return (self.weight,)

    def table(self, parameters: tuple[Tensor, ...], pairs: Pairs) -> Float[Tensor, "#b H L M"]:
        (weight,) = parameters
        return _tabulate(lambda d: _clipped(weight, d), pairs)


@dataclass(frozen=True, eq=False)
class Relative:
    """One learned number per head and bucket of differences j - i (Raffel et al. 2019, arXiv:1910.10683)."""

    weight: Float[Tensor, "buckets H"]
    bidirectional: bool = True
    max_distance: int = 128

    def __post_init__(self) -> None:
        _thresholds(_side(len(self.weight), self.bidirectional), self.max_distance)

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        return (self.weight,)

    def table(self, parameters: tuple[Tensor, ...], pairs: Pairs) -> Float[Tensor, "#b H L M"]:
        (weight,) = parameters
        # Past max_distance nothing changes, so bucketing 2 max_distance + 1 differences serves all L x M pairs.
        differences = torch.arange(-self.max_distance, self.max_distance + 1, device=weight.device)
        buckets = relative_bucket(
            differences, buckets=len(weight), max_distance=self.max_distance, bidirectional=self.bidirectional
        )
        spread = weight.index_select(0, buckets)
        return _tabulate(lambda d: _clipped(spread, d), pairs)


def relative_bucket(
    difference: Int[Tensor, "*b"], *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
) -> Int[Tensor, "*b"]:
    """The bucket of a difference d = key position - query position (arXiv:1910.10683, section 2.1).

    Of n buckets, the first e = n // 2 hold one distance each; the others share e … max_distance in equal steps of
    the logarithm, and the last takes all beyond:

        bucket(a) = a                                                     for a < e
        bucket(a) = min(e + floor((n - e) log(a/e) / log(max_distance/e)), n - 1)

    Bidirectional: a = |d|, half of the buckets for d <= 0, the other half for d > 0. Otherwise a = max(-d, 0).

    >>> relative_bucket(torch.tensor([-200, -16, -3, 0, 3, 16])).tolist()
    [15, 10, 3, 0, 19, 26]
    """
    side = _side(buckets, bidirectional)
    distance = difference.abs() if bidirectional else (-difference).clamp(min=0)
    thresholds = torch.tensor(_thresholds(side, max_distance), device=difference.device)
    bucket = torch.bucketize(distance.long(), thresholds, right=True)
    return bucket + side * (difference > 0) if bidirectional else bucket


def _side(buckets: int, bidirectional: bool) -> int:
    """How many buckets one direction has."""
    if bidirectional and buckets % 2:
        raise ValueError(f"{buckets} buckets cannot be shared evenly by the two directions: take an even number")
    return buckets // 2 if bidirectional else buckets


@constant
def _thresholds(buckets: int, max_distance: int) -> tuple[int, ...]:
    """The least distance in each bucket after the first, found with whole numbers: no rounding at the edges.

    Bucket e + k begins at the least a with a^m >= max_distance^k e^(m-k), m = buckets - e.
    """
    exact = buckets // 2
    if buckets < 2 or max_distance <= exact:
        raise ValueError(
            f"a relative bias needs 2 or more buckets for each direction, and a max_distance past those that hold one "
            f"distance each: got {buckets} buckets, {exact} of them exact, and max_distance {max_distance}"
        )
    m = buckets - exact
    edges = (max_distance**k * exact ** (m - k) for k in range(1, m))
    return (*range(1, exact + 1), *(bisect_left(range(max_distance + 1), edge, key=lambda a: a**m) for edge in edges))


def _clipped(weight: Float[Tensor, "differences H"], difference: Int[Tensor, " n"]) -> Float[Tensor, "H n"]:
    """The column of each difference, clipped to -R … R, in a weight of 2R + 1 rows."""
    reach = len(weight) // 2
    # One long gather per head: its backward pass is four times as fast as that of an embedding lookup.
    return weight.t().contiguous().index_select(1, difference.clamp(-reach, reach) + reach)


def _tabulate(rule: Callable[[Int[Tensor, " n"]], Float[Tensor, "H n"]], pairs: Pairs) -> Float[Tensor, "#b H L M"]:
    """The rule's number for every difference j - i of a key position j and a query position i."""
    pairs.require()
    queries, keys = pairs.shape
    if pairs.consecutive and queries and keys:
        # L + M - 1 differences serve all pairs: row i is the row above, moved by one.
        first = pairs.key[0, 0] - pairs.query[0, -1]
        diagonals = rule(first + torch.arange(queries + keys - 1, device=pairs.key.device))
        return diagonals.unfold(1, keys, 1).flip(1)[None]
    difference = pairs.key[:, None, :].long() - pairs.query[:, :, None].long()
    return rule(difference.flatten()).unflatten(1, difference.shape).transpose(0, 1)
