"""Softmax attention (Vaswani et al. 2017, arXiv:1706.03762).

    A = softmax(q kᵀ · scale)        out = A v

With a score cap c the scores become c · tanh(scores / c) (arXiv:2408.00118); a bias is added after the cap. A row with
no permitted key attends to nothing: its weights, output and gradients are zero. Scores and softmax are computed in at
least float32.
"""

from jaxtyping import Float
from torch import Tensor

from headway.config import Softmax, Spec
from headway.ops.attention.call import Call
from headway.ops.attention.cost import Workload, softmax_operation
from headway.ops.attention.kernels.eager import dot, weights_of
from headway.ops.attention.kernels.reference import reference_of
from headway.ops.attention.mechanism import Mechanism, all_pairs, keep_all
from headway.ops.attention.plan import attend, softmax_row
from headway.ops.mask.pairs import ALL
from headway.sizes import Operation


def reference(call: Call) -> Float[Tensor, "B H L W"]:
    """out_i = Σ_j softmax_j(q_i · k_j · scale) v_j over the keys j that i may see, one i at a time."""
    return reference_of(call, softmax_row(call))


def weights(call: Call, rows: slice = ALL, heads: slice = ALL) -> Float[Tensor, "B h l M"]:
    """A, for the rows and heads asked."""
    return weights_of(call, rows, heads, dot)


def operation(spec: Spec, work: Workload) -> Operation:
    """dense = B H L M (K + W) multiply-adds; other = 6 FLOPs a score (scale, maximum, subtract, exp, sum, divide)."""
    return softmax_operation(work)


MECHANISM = Mechanism(
    "softmax",
    Softmax,
    reference,
    attend,
    weights,
    operation,
    laws=frozenset({
        "loop", "rows_sum", "groups", "batch", "padding", "quarantine", "empty_rows", "values_linear",
        "weights_are_output", "masked_is_deleted", "keys_permute", "queries_independent", "equivariant", "causal",
        "window_is_full", "keys_shift",
    }),
    pattern=all_pairs,
    cache=keep_all,
    masks="any",
    scores="dot",
)  # fmt: skip
