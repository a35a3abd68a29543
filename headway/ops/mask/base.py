"""What every mask can do, and the algebra: & | ~."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Bool
from torch import Tensor

from headway.ops.mask.pairs import Pairs, Spans

Reach = tuple[int | float, int | float]


class Mask(ABC):
    """A relation between queries and keys, True = may attend; subclasses are final."""

    @property
    def batch(self) -> int:
        """How many rows of the batch the mask tells apart; 1 where it treats all alike."""
        return 1

    @property
    def heads(self) -> int:
        """How many heads the mask tells apart; 1 where it treats all alike."""
        return 1

    @property
    def shifts(self) -> bool:
        """Whether only differences of positions matter, so that one table serves every shifted block."""
        return False

    @property
    def reach(self) -> Reach | None:
        """How far before and after a query the keys that it may see stand at most; None where no distance says that."""
        return None

    @abstractmethod
    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        """The table for these pairs; batch and heads may have size 1."""

    def spans(self, pairs: Pairs) -> Spans:
        """For each query of the whole call, a range of keys outside of which nothing is allowed."""
        return Spans.everything(pairs)

    @property
    def by_index(self) -> bool:
        """Whether it is a table of one call's keys, wholly or in part, and no relation between positions."""
        return False

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:  # noqa: B027 (most masks fit any size)
        """Refuse sizes this mask cannot belong to."""

    def parts(self) -> tuple["Mask", ...]:
        """The masks that must all allow a pair."""
        return (self,)

    def __and__(self, other: object) -> "Mask":
        return And(self, _mask(other))

    def __or__(self, other: object) -> "Mask":
        return Or(self, _mask(other))

    def __invert__(self) -> "Mask":
        return Not(self)

    def __bool__(self) -> bool:
        raise ValueError("a mask is neither true nor false: compose masks with & | ~, not with and, or, not")

    def table(self, queries: Tensor | int, keys: Tensor | int | None = None) -> Bool[Tensor, "B H L M"]:
        """The whole table for given positions, or for lengths (n stands for 0 … n-1)."""
        pairs = Pairs.of(queries, keys)
        self.check(max(self.batch, pairs.query.shape[0], pairs.key.shape[0]), self.heads, *pairs.shape)
        found = self.at(pairs)
        return found.expand(*found.shape[:2], *pairs.shape)

    def count(self, queries: Tensor | int, keys: Tensor | int | None = None, *, batch: int = 1, heads: int = 1) -> int:
        """Exactly how many pairs are allowed in all rows of the batch and all heads, in O(L + M) memory."""
        from headway.ops.mask.count import count_pairs

        return count_pairs(self, Pairs.of(queries, keys), batch, heads)

    def kernel(self, queries: Tensor | int, keys: Tensor | int | None = None) -> str:
        """Which kernel may serve it there: plain, causal, padding, causal+padding (fused), packed (fused, for each run
        of equally long texts), or tiles (blockwise)."""
        from headway.ops.mask.kernel import choose, unpacked

        return "packed" if unpacked(self) is not None else choose(self, Pairs.of(queries, keys)).name


def _mask(other: object) -> Mask:
    if isinstance(other, Mask):
        return other
    raise ValueError(f"a mask composes with masks, not with a {type(other).__name__}: wrap a table in allowed(...)")


@dataclass(frozen=True)
class Not(Mask):
    """What the other mask forbids."""

    inner: Mask

    @property
    def batch(self) -> int:
        return self.inner.batch

    @property
    def heads(self) -> int:
        return self.inner.heads

    @property
    def shifts(self) -> bool:
        return self.inner.shifts

    @property
    def by_index(self) -> bool:
        return self.inner.by_index

    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        return ~self.inner.at(pairs)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        self.inner.check(batch, heads, queries, keys)


@dataclass(frozen=True)
class _Both(Mask):
    left: Mask
    right: Mask

    @property
    def batch(self) -> int:
        return max(self.left.batch, self.right.batch)

    @property
    def heads(self) -> int:
        return max(self.left.heads, self.right.heads)

    @property
    def shifts(self) -> bool:
        return self.left.shifts and self.right.shifts

    @property
    def by_index(self) -> bool:
        return self.left.by_index or self.right.by_index

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        self.left.check(batch, heads, queries, keys)
        self.right.check(batch, heads, queries, keys)


@dataclass(frozen=True)
class And(_Both):
    """Allowed by both."""

    @property
    def reach(self) -> Reach | None:
        one, other = self.left.reach, self.right.reach
        return None if one is None or other is None else (min(one[0], other[0]), min(one[1], other[1]))

    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        return self.left.at(pairs) & self.right.at(pairs)

    def spans(self, pairs: Pairs) -> Spans:
        return self.left.spans(pairs) & self.right.spans(pairs)

    def parts(self) -> tuple[Mask, ...]:
        return self.left.parts() + self.right.parts()


@dataclass(frozen=True)
class Or(_Both):
    """Allowed by one of them or by both."""

    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        return self.left.at(pairs) | self.right.at(pairs)

    def spans(self, pairs: Pairs) -> Spans:
        return self.left.spans(pairs) | self.right.spans(pairs)
