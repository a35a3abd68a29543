"""What a softmax of products is made of: enough to compute any row of it elsewhere.

weights_ij = softmax over the allowed j of cap(q_i · k_j) + bias_(j − i)
"""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from headway.look.capture.table import FIRST, Table
from headway.ops.attention import Call, record_of
from headway.ops.attention.kernels.eager import expand


@dataclass(frozen=True, eq=False)
class Parts:
    """Of item 0 of the batch; the scale is in q, and keys are repeated for their groups of heads.

    `bias` stands at j − i + L − 1. Where `causal`, row i may see the keys j <= i, and no table is needed.
    """

    q: Float[Tensor, "H L K"]
    k: Float[Tensor, "H M K"]
    softcap: float | None
    bias: Float[Tensor, "H d"] | None
    causal: bool
    table: Table | None

    def allowed(self, rows: slice) -> Bool[Tensor, "a l M"] | None:
        """The keys that these rows may see, tabulated now; None: all, or those that causality leaves."""
        return None if self.table is None else self.table.allowed(rows)


def parts_of(call: Call) -> Parts | None:
    """None where the weights are no such softmax."""
    if record_of(call.spec).scores != "dot":
        return None
    table = Table(call)
    bias = None if call.bias is None else table.by_distance()
    if call.bias is not None and bias is None:
        return None
    rule, quiet = table.rule(), call.quarantined()
    scale = call.q.shape[3] ** -0.5 if call.scale is None else call.scale
    q, k = quiet.q[0].to(call.dtype) * scale, expand(quiet.k[FIRST], call.q.shape[1])[0].to(call.dtype)
    bias = bias if bias is None or bool(bias.any()) else None
    return Parts(q, k, call.softcap, bias, rule == "causal", table if rule == "table" else None)
