"""The record of a mechanism: all that layers, models, prices, audits and pictures ask of one way to attend.

Nobody outside of a mechanism's own file asks what kind it is. A fact that a record lacks is refused by the mechanism's
name, and never taken to be softmax's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from torch import Tensor

from headway.config import Spec
from headway.ops.attention.call import Call
from headway.ops.attention.cost import Workload
from headway.ops.mask import Mask
from headway.sizes import Number, Operation

# Which masks a mechanism honours: any; causality in order of positions and padding; padding alone.
Masks = Literal["any", "causal", "padding"]
# (k, v, keep) -> the sum that stands for these keys
Fold = Callable[[Tensor, Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class CacheNeed:
    """What has to be kept of tokens that were read, so that the next one can attend to them.

    all: every key and value. window: those of the last `window` tokens. total: a sum over all of them, which `fold`
    makes of new keys and values. none: it cannot be read token by token, and `why` says so.
    """

    kind: Literal["all", "window", "total", "none"] = "all"
    window: int = 0
    fold: Fold | None = None
    why: str = ""


def all_pairs(spec: Any) -> Mask | None:
    """The pattern of a mechanism that sees whatever masks allow."""
    return None


def keep_all(spec: Any) -> CacheNeed:
    """The cache of a mechanism whose output for a query depends on the keys that it sees, and on nothing else."""
    return CacheNeed()


def _nothing(heads: Number, key_width: Number) -> Mapping[str, tuple[Number, ...]]:
    return {}


def _defaults(random: Random) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Mechanism:
    """One way to attend.

    A record of one's own needs the fields without a default. Each of the others is one thing more that can be asked of
    it: without `pattern` no reach, without `cache` no reading token by token.
    """

    name: str
    spec: type[Spec]  # its options
    reference: Callable[[Call], Tensor]  # the equation, one query at a time
    attend: Callable[[Call], Tensor]  # the fast path
    weights: Callable[[Call, slice, slice], Tensor]  # the matrix one would draw, for the rows and heads asked
    operation: Callable[[Any, Workload], Operation]  # (spec, workload) -> its price, forwards and backwards
    laws: frozenset[str]  # the laws it claims (headway.audit.mechanisms)
    pattern: Callable[[Any], Mask | None] | None = None  # spec -> the mask it implies, None for all pairs
    cache: Callable[[Any], CacheNeed] | None = None  # spec -> what has to be kept of earlier tokens
    parameters: Callable[[Any, Any], Mapping[str, tuple[Any, ...]]] = _nothing  # (heads, key width) -> names, shapes
    masks: Masks | None = None  # the masks it honours
    modifiers: frozenset[str] = frozenset({"scale", "softcap", "bias"})  # what may change its scores
    between: Literal["positions", "channels"] = "positions"  # what attends to what
    scores: Literal["dot", "other"] | None = None  # its weights are a softmax, of scale · q·k or of other scores
    scales: bool = True  # whether q·k is scaled where nobody says how
    products: Callable[[Call], Tensor] | None = None  # by whole products, where not weights · v: what dense counts
    examples: Callable[[Random], Mapping[str, Any]] = _defaults  # options to try it with
    # side of a grid -> the lines of `headway mechanisms` and what `attend` is given there besides q, k and v; none: one
    # line without options
    variants: Callable[[int], Mapping[str, Mapping[str, Any]]] | None = None

    def pattern_of(self, spec: Spec) -> Mask | None:
        """The mask that the mechanism implies; None for all pairs."""
        if self.pattern is None:
            raise ValueError(
                f"which keys {self.name} attention looks at is known to its author alone (its record has no pattern): "
                "its reach can be measured"
            )
        return self.pattern(spec)

    def cache_of(self, spec: Spec) -> CacheNeed:
        """What has to be kept of tokens that were read."""
        if self.cache is None:
            why = f"what {self.name} attention needs of earlier tokens is not said (its record has no cache)"
            return CacheNeed("none", why=why)
        return self.cache(spec)
