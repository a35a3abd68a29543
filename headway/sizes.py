"""Sizes that are whole numbers or symbols, and what an operation costs in them.

A price is plain arithmetic on sizes, so whole numbers give a number and symbols give a polynomial:

>>> sizes = Sizes(batch=1, heads=2, kv_heads=2, queries=5, keys=7, key_width=11, value_width=13)
>>> sizes.scores
70
"""

from dataclasses import dataclass

from headway.steps import Number, Step


@dataclass(frozen=True)
class Sizes:
    """The sizes of one attention call: B H G L M K W of the alphabet."""

    batch: Number
    heads: Number
    kv_heads: Number
    queries: Number
    keys: Number
    key_width: Number
    value_width: Number

    @property
    def scores(self) -> Number:
        """How many scores a dense computation has: B H L M."""
        return self.batch * self.heads * self.queries * self.keys

    @property
    def whole(self) -> bool:
        """Whether every size is a number, so that masks can be counted and blocks planned."""
        return all(isinstance(value, int) for value in vars(self).values())


@dataclass(frozen=True)
class Cost:
    """Multiply-adds of the matrix products, counted three ways, and the FLOPs beside them.

    dense: every pair of query and key.  useful: the pairs the mask allows.  executed: what the fast path really
    computes, blocks and padding included (None where sizes are symbols).  other: FLOPs outside the products, by the
    rule that the mechanism states.  One multiply-add is two FLOPs:

    >>> Cost(dense=10, useful=6, executed=8, other=5).flops
    20
    """

    dense: Number
    useful: Number
    executed: Number | None
    other: Number

    @property
    def flops(self) -> Number:
        return 2 * self.dense

    @property
    def useful_flops(self) -> Number:
        return 2 * self.useful

    def __add__(self, more: "Cost") -> "Cost":
        executed = None if self.executed is None or more.executed is None else self.executed + more.executed
        return Cost(self.dense + more.dense, self.useful + more.useful, executed, self.other + more.other)

    def __mul__(self, times: Number) -> "Cost":
        """The same so many times.

        >>> (Cost(dense=10, useful=6, executed=8, other=5) * 3).executed
        24
        """
        executed = None if self.executed is None else self.executed * times
        return Cost(self.dense * times, self.useful * times, executed, self.other * times)


NOTHING = Cost(0, 0, 0, 0)


def other(flops: Number) -> Cost:
    """A price without matrix products."""
    return Cost(0, 0, 0, flops)


OPERATION_KINDS = ("product", "attention", "convolution", "norm", "activation", "embedding", "elementwise", "loss")


@dataclass(frozen=True)
class Operation:
    """One operation: what it multiplies, moves, keeps and learns.

    kind: one of OPERATION_KINDS.
    shape: of a product (count, rows, inner, columns): so many products of rows x inner by inner x columns.
    weights, biases: entries of its own parameters; `borrowed`: entries of parameters that belong to another (tied).
    reads, writes: entries of activations that pass through memory.
    """

    kind: str
    forward: Cost = NOTHING
    backward: Cost = NOTHING
    steps: tuple[Step, ...] = ()
    weights: Number = 0
    biases: Number = 0
    borrowed: Number = 0
    shape: tuple[Number, ...] = ()
    reads: Number = 0
    writes: Number = 0

    def __post_init__(self) -> None:
        if self.kind not in OPERATION_KINDS:
            raise ValueError(f"there is no kind of operation {self.kind!r}; there are {', '.join(OPERATION_KINDS)}")

    @property
    def parameters(self) -> Number:
        return self.weights + self.biases
