"""One rule: a mechanism, a mask and where queries and keys stand, as the weights of queries that like all keys alike.

With q = 0 a mechanism's own weights are uniform over the keys that a query may see, so they show who may attend to whom
and nothing else. Rules become a record that everything draws: one layer for each, with one head.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from headway.config import Spec
from headway.look.packed import Factors, Weights, factors
from headway.look.packed import weights as packed_weights
from headway.look.pattern.options import PatternOptions, patch
from headway.look.record import Layer, Look, Measures, Side
from headway.ops.attention import make_call, record_of
from headway.ops.attention.cost import Workload
from headway.ops.mask import Mask
from headway.ops.mask.pairs import ALL, Pairs
from headway.sizes import Cost, Sizes

WIDTH = 64  # channels of a head that the price is told for


@dataclass(frozen=True, eq=False)
class PatternPositions:
    """Where queries and keys stand; `extra` tokens before position 0 belong to no sequence."""

    query: Int[Tensor, " L"]
    key: Int[Tensor, " M"]
    grid: tuple[int, int] | None = None
    extra: int = 0

    @classmethod
    def of(cls, options: PatternOptions, *, extra: int = 0) -> "PatternPositions":
        assert options.length is not None and options.keys is not None
        return cls(torch.arange(-extra, options.length), torch.arange(-extra, options.keys), options.grid, extra)

    def sides(self) -> tuple[Side, Side]:
        """Who asks and who answers; the same where they stand alike."""
        if torch.equal(self.query, self.key):
            one = Side("patches" if self.grid else "positions", self._tokens(self.query), (), (), self.grid, self.extra)
            return one, one
        return Side("queries", self._tokens(self.query)), Side("keys", self._tokens(self.key))

    def _tokens(self, positions: Int[Tensor, " n"]) -> tuple[str, ...]:
        return tuple(self._name(place) for place in positions.tolist())

    def _name(self, place: int) -> str:
        if place < 0:
            return f"global {place + self.extra + 1}"
        return patch(place, self.grid)


@dataclass(frozen=True, eq=False)
class PatternRule:
    """What one pattern is made of. `item`: of a mask that tells the rows of a batch apart, which one is drawn."""

    label: str
    formula: str
    spec: Spec
    mask: Mask | None
    places: PatternPositions
    item: int = 0
    channels: int = 1  # of a head; what attends where the mechanism is channel attention
    groups: int = 1
    longer: "Callable[[], PatternRule] | None" = None  # the same on many positions, where prices differ

    @property
    def mechanism(self) -> str:
        return type(self.spec).kind_or_name()

    @property
    def batch(self) -> int:
        return 1 if self.mask is None else self.mask.batch

    @cached_property
    def weights(self) -> Float[np.ndarray, "L M"]:
        """Uniform over the keys that each query may see; channels x channels between channels."""
        q = torch.zeros(self.batch, self.groups, len(self.places.query), self.channels)
        k = torch.zeros(self.batch, self.groups, len(self.places.key), self.channels)
        record = record_of(self.spec)
        zeros = {name: torch.zeros(shape) for name, shape in record.parameters(1, self.channels).items()}
        call = make_call(
            q, k, k, self.spec, mask=self.mask, parameters=zeros,
            query_positions=self.places.query, key_positions=self.places.key,
        )  # fmt: skip
        found = record.weights(call, ALL, ALL)[self.item]
        return (torch.block_diag(*found) if self.between_channels else found[0]).numpy()

    @property
    def allowed(self) -> Bool[np.ndarray, "L M"]:
        return self.weights > 0

    @property
    def between_channels(self) -> bool:
        return record_of(self.spec).between == "channels"

    def sides(self) -> tuple[Side, Side]:
        if not self.between_channels:
            return self.places.sides()
        names = tuple(f"{group}.{one}" for group in range(self.groups) for one in range(self.channels))
        side = Side("channels", names)
        return side, side

    @cached_property
    def price(self) -> Cost:
        """Multiply-adds of the whole batch, with 64 channels a head; between channels in the groups that there are."""
        width = self.channels if self.between_channels else WIDTH
        queries, keys = len(self.places.query), len(self.places.key)
        sizes = Sizes(self.batch, self.groups, self.groups, queries, keys, width, width)
        pairs = Pairs.of(self.places.query, self.places.key)
        return record_of(self.spec).operation(self.spec, Workload(sizes, self.mask, pairs)).forward

    @property
    def executed(self) -> int:
        """Of one item of the batch: all share what is computed."""
        found = self.price.executed
        assert isinstance(found, int)
        return -(-found // self.batch)

    @property
    def dense(self) -> int:
        """What softmax attention between all positions would take in as many channels."""
        width = self.channels * self.groups if self.between_channels else WIDTH
        return 2 * width * len(self.places.query) * len(self.places.key)


SMALL = 48  # cells of a map in the overview
MEANING = (
    "Multiply-adds are those that the fast path executes, of those that softmax attention of all positions to all "
    f"takes in as many channels ({WIDTH} a head)."
)
FEW = 2**18  # pairs that are packed as weights; more as bits, from which the page makes the rows


def look_of(title: str, rules: Sequence[PatternRule]) -> Look:
    """One record of several rules; what each costs stands in its notes."""
    sides = tuple(dict.fromkeys(side for rule in rules for side in rule.sides()))
    layers = tuple(_layer(rule, sides) for rule in rules)
    notes = [f"{rule.label}: {rule.formula}. {pairs_allowed(rule)}, {price(rule)}." for rule in rules]
    return Look(title, sides, layers, None, (*notes, MEANING), "Who may attend to whom")


def rules_json(rules: Sequence[PatternRule]) -> list[dict[str, Any]]:
    """Each rule as JSON: its formula, its price, and the pattern as a row of 0 and 1 for each query."""
    return [
        {
            "name": rule.label,
            "mechanism": rule.mechanism,
            "rule": rule.formula,
            "allowed": int(rule.allowed.sum()),
            "pairs": rule.allowed.size,
            "executed": rule.executed,
            "dense": rule.dense,
            "pattern": ["".join("1" if one else "0" for one in row) for row in rule.allowed],
        }
        for rule in rules
    ]


def pairs_allowed(rule: PatternRule) -> str:
    """How many pairs are allowed of all."""
    allowed, pairs = int(rule.allowed.sum()), rule.allowed.size
    return f"{allowed:,} of {pairs:,} pairs ({share(rule)})"


def share(rule: PatternRule) -> str:
    """The part of all pairs that is allowed, in percent."""
    return f"{100 * rule.allowed.mean():.3g} %"


def price(rule: PatternRule) -> str:
    """A pattern is about its price: what the fast path executes of what attention of all positions to all takes."""
    told = f"{rule.executed:,} of {rule.dense:,} multiply-adds"
    if rule.executed > rule.dense:
        told = f"{rule.executed:,} multiply-adds, more than the {rule.dense:,} of softmax attention"
    if rule.longer is None:
        return told
    longer = rule.longer()
    positions = len(longer.places.query) - longer.places.extra
    return f"{told}; at {positions:,} positions {100 * longer.executed / longer.dense:.3g} %"


def _layer(rule: PatternRule, sides: tuple[Side, ...]) -> Layer:
    asks, answers = rule.sides()
    held = (sides.index(asks), sides.index(answers))
    maps = small(rule.allowed)[None]
    return Layer(
        rule.formula, rule.label, "pattern", rule.mechanism, *held, (0,), (0, len(rule.weights)), _packed(rule), maps,
        (_measures(rule),),
    )  # fmt: skip


def _packed(rule: PatternRule) -> Weights | Factors:
    if rule.weights.size <= FEW:
        return packed_weights(rule.weights[None])
    queries, keys = rule.weights.shape
    return factors(np.zeros((1, queries, 1)), np.zeros((1, keys, 1)), allowed=rule.allowed[None])


def small(allowed: Bool[np.ndarray, "L M"], *, most: int = SMALL) -> UInt8[np.ndarray, "y x"]:
    """The pattern in at most so many cells each way: how many queries of a cell may see one of its keys.

    >>> small(np.array([[True, False], [True, True]])).tolist()
    [[255, 0], [255, 255]]
    """
    rows, columns = (_starts(size, most) for size in allowed.shape)
    seen = np.maximum.reduceat(allowed, columns, axis=1)
    share = np.add.reduceat(seen.astype(np.float64), rows, axis=0) / np.diff([*rows, len(allowed)])[:, None]
    return np.rint(255 * share / max(share.max(), 1e-9)).astype(np.uint8)


def _starts(size: int, most: int) -> np.ndarray:
    """Where each of the cells begins."""
    cells = min(size, most)
    return np.arange(cells) * size // cells


def _measures(rule: PatternRule) -> Measures:
    """Of uniform rows: all are as broad as they may be."""
    seeing = rule.allowed.any(1)
    largest = rule.weights.max(1)[seeing].mean() if seeing.any() else 0.0
    return Measures(1.0, _reach(rule), float(largest), role=f"{share(rule)} of pairs")


def _reach(rule: PatternRule) -> float | None:
    asks, answers = rule.sides()
    seeing = np.asarray(rule.allowed.any(1))
    if rule.between_channels or asks != answers or not seeing.any():
        return None
    inside = rule.places.query.numpy() >= 0
    distance = _distances(rule.places.query.numpy(), rule.places.grid)
    # A token outside the sequence is at no distance.
    weights = rule.weights * inside[:, None] * inside[None]
    return float((weights * distance).sum() / max(int((seeing & inside).sum()), 1))


def _distances(positions: np.ndarray, grid: tuple[int, int] | None) -> Float[np.ndarray, "L M"]:
    """On a grid the larger of the two differences."""
    axes = (positions,) if grid is None else (positions // grid[1], positions % grid[1])
    return np.max([np.abs(axis[:, None] - axis[None]) for axis in axes], axis=0).astype(np.float64)
