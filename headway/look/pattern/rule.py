"""One rule: a mechanism, a mask and where queries and keys stand, as the weights of queries that like all keys alike.

With q = 0 a mechanism's own weights are uniform over the keys that a query may see, so they show who may attend to whom
and nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.config import Spec
from headway.look.pattern.asked import Asked, patch
from headway.look.record import Side
from headway.ops.attention import make_call, record_of
from headway.ops.attention.cost import Workload
from headway.ops.mask import Mask
from headway.ops.mask.pairs import ALL, Pairs
from headway.sizes import Cost, Sizes

WIDTH = 64  # channels of a head that the price is told for


@dataclass(frozen=True, eq=False)
class Places:
    """Where queries and keys stand; `extra` tokens before position 0 belong to no sequence."""

    query: Int[Tensor, " L"]
    key: Int[Tensor, " M"]
    grid: tuple[int, int] | None = None
    extra: int = 0

    @classmethod
    def of(cls, asked: Asked, *, extra: int = 0) -> "Places":
        assert asked.length is not None and asked.keys is not None
        return cls(torch.arange(-extra, asked.length), torch.arange(-extra, asked.keys), asked.grid, extra)

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
class Rule:
    """What one pattern is made of. `item`: of a mask that tells the rows of a batch apart, which one is drawn."""

    label: str
    formula: str
    spec: Spec
    mask: Mask | None
    places: Places
    item: int = 0
    channels: int = 1  # of a head; what attends where the mechanism is channel attention
    groups: int = 1
    longer: "Callable[[], Rule] | None" = None  # the same on many positions, where prices differ

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
