"""What a softmax of products is made of: enough to compute any row of it elsewhere.

weights_ij = softmax over the allowed j of cap(q_i · k_j) + bias_(j − i)
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from headway.observe.attention_event import HIDDEN
from headway.ops.attention import Call, record_of
from headway.ops.attention.kernels.eager import bias_at, expand
from headway.ops.bias import Alibi, Clipped, Relative
from headway.ops.mask import Mask
from headway.ops.mask.kernel import choose
from headway.ops.mask.pairs import ALL, Pairs, take

FIRST = slice(0, 1)
# Entries of a table that are alive at once.
ENTRIES = 2**20
# Two numbers at one distance that differ by no more than this are one: rounding of one sum in two orders.
SAME = 1e-6


class PairTable:
    """The masks and the bias of one call; a number below -5000 in a bias hides a key as a mask does."""

    def __init__(self, call: Call) -> None:
        self.call, self.mask = call, _whole_mask(call)
        self.rows, self.keys = call.q.shape[2], call.k.shape[2]

    def allowed(self, rows: slice) -> Bool[Tensor, "a l M"]:
        """The keys that these rows may see, of each head or of all heads alike."""
        pairs = self.call.pairs.at(FIRST, rows, ALL)
        count = len(range(*rows.indices(self.rows)))
        found = torch.ones(1, count, self.keys, dtype=torch.bool, device=self.call.q.device)
        if self.mask is not None:
            found = self.mask.at(pairs)[0].expand(-1, count, self.keys)
        return found & (self.added(rows) >= -HIDDEN) if isinstance(self.call.bias, Tensor) else found

    def added(self, rows: slice) -> Float[Tensor, "a l M"]:
        """The bias of these rows."""
        bias, pairs = self.call.bias, self.call.pairs.at(FIRST, rows, ALL)
        assert bias is not None
        cut = (take(bias[FIRST], rows, 2),) if isinstance(bias, Tensor) else bias.parameters
        found = bias_at(bias, cut, pairs)
        assert found is not None
        return found[0].expand(-1, *pairs.shape)

    def parts(self) -> Iterator[slice]:
        step = max(1, ENTRIES // (self.keys * self.call.q.shape[1]))
        for first in range(0, self.rows, step):
            yield slice(first, min(first + step, self.rows))

    def rule(self) -> str:
        """ "all", "causal" where exactly j <= i is allowed, "table" where neither says it."""
        if self.mask is None and not isinstance(self.call.bias, Tensor):
            return "all"
        if not isinstance(self.call.bias, Tensor):
            kernel = choose(self.mask, self.call.pairs.at(FIRST, ALL, ALL))
            if not kernel.tiles and (kernel.keep is None or bool(kernel.keep[0].all())):
                return "causal" if kernel.causal else "all"
        left = {"all", "causal"}
        for rows in self.parts():
            found = self.allowed(rows)
            left -= {"all"} if not bool(found.all()) else set()
            left -= {"causal"} if not bool((found == self._earlier(rows)).all()) else set()
            if not left:
                return "table"
        return min(left)  # both where there is one key: all of it

    def _earlier(self, rows: slice) -> Bool[Tensor, "l M"]:
        places = torch.arange(max(self.rows, self.keys), device=self.call.q.device)
        return places[: self.keys] <= places[rows, None]

    def by_distance(self) -> Float[Tensor, "H d"] | None:
        """The bias at j − i + L − 1, where it is one number for each distance among the keys that may be seen.

        None where it is not, or where a row has no key but those that a number hides: it weighs them all the same.
        """
        straight = self._straight()
        if straight is not None:
            return straight
        low = high = None
        for rows in self.parts():
            added, seen = self.added(rows), self.allowed(rows)
            if bool((~seen.any(-1) & added.isfinite().any(-1)).any()):
                return None
            if low is None or high is None:
                shape = (max(len(added), len(seen)), self.rows + self.keys - 1)
                low, high = added.new_full(shape, torch.inf), added.new_full(shape, -torch.inf)
            self._spread(rows, added, seen, low, high)
        assert low is not None and high is not None
        held = high >= low
        apart = (high - low).where(held, 0.0) > SAME * (1 + high.abs().where(held, 0.0))
        return None if bool(apart.any()) else high.where(held, 0.0).expand(self.call.q.shape[1], -1)

    def _spread(self, rows: slice, added: Tensor, seen: Tensor, low: Tensor, high: Tensor) -> None:
        """The least and the largest number at each distance so far."""
        count = rows.stop - rows.start
        part = slice(self.rows - rows.stop, self.rows - rows.stop + count + self.keys - 1)
        for bound, none, which in ((low, torch.inf, torch.minimum), (high, -torch.inf, torch.maximum)):
            found = _by_diagonals(added.where(seen, none), none)
            bound[:, part] = which(bound[:, part], found.amin(1) if none > 0 else found.amax(1))

    def _straight(self) -> Float[Tensor, "H d"] | None:
        """A rule of differences, where positions go up by one: asked of each distance once."""
        bias, pairs = self.call.bias, self.call.pairs.at(FIRST, ALL, ALL)
        counted = all(bool((one.diff() == 1).all()) for one in (pairs.query, pairs.key))
        if not isinstance(bias, Alibi | Clipped | Relative) or not counted:
            return None
        first = pairs.key[:, :1] - pairs.query[:, -1:]
        distances = first + torch.arange(self.rows + self.keys - 1, device=first.device)
        found = bias.table(bias.parameters, Pairs.of(torch.zeros_like(first), distances))[0, :, 0]
        return found.expand(self.call.q.shape[1], -1)


def _by_diagonals(x: Float[Tensor, "a l M"], none: float) -> Float[Tensor, "a l d"]:
    """Each row moved so that one distance j − i stands in one column, at j − i + l − 1.

    >>> _by_diagonals(torch.tensor([[[1, 2, 3.0], [4, 1, 2]]]), 0.0)[0].tolist()
    [[4.0, 1.0, 2.0, 0.0], [0.0, 1.0, 2.0, 3.0]]
    """
    _, count, keys = x.shape
    # A row that is one entry longer than those it is cut into again begins one entry further to the right.
    longer = F.pad(x.flip(1), (0, count), value=none).flatten(1)
    return longer[:, : count * (keys + count - 1)].unflatten(1, (count, -1))


def _whole_mask(call: Call) -> Mask | None:
    """The mask of the call, and what its mechanism hides besides."""
    return call.under(record_of(call.spec).pattern_of(call.spec)).mask


@dataclass(frozen=True, eq=False)
class SoftmaxParts:
    """Of item 0 of the batch; the scale is in q, and keys are repeated for their groups of heads.

    `bias` stands at j − i + L − 1. Where `causal`, row i may see the keys j <= i, and no table is needed.
    """

    q: Float[Tensor, "H L K"]
    k: Float[Tensor, "H M K"]
    softcap: float | None
    bias: Float[Tensor, "H d"] | None
    causal: bool
    table: PairTable | None

    def allowed(self, rows: slice) -> Bool[Tensor, "a l M"] | None:
        """The keys that these rows may see, tabulated now; None: all, or those that causality leaves."""
        return None if self.table is None else self.table.allowed(rows)


def softmax_parts(call: Call) -> SoftmaxParts | None:
    """None where the weights are no such softmax."""
    if record_of(call.spec).scores != "dot":
        return None
    table = PairTable(call)
    bias = None if call.bias is None else table.by_distance()
    if call.bias is not None and bias is None:
        return None
    rule, quiet = table.rule(), call.quarantined()
    scale = call.q.shape[3] ** -0.5 if call.scale is None else call.scale
    q, k = quiet.q[0].to(call.dtype) * scale, expand(quiet.k[FIRST], call.q.shape[1])[0].to(call.dtype)
    bias = bias if bias is None or bool(bias.any()) else None
    return SoftmaxParts(q, k, call.softcap, bias, rule == "causal", table if rule == "table" else None)
