"""Attention: every mechanism behind one function, and the matrix one would draw.

>>> q = k = v = torch.eye(3).view(1, 1, 3, 3)
>>> attend(q, k, v, mask=causal(), scale=1.0)[0, 0, 1].round(decimals=4).tolist()
[0.2689, 0.7311, 0.0]
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headway.config import Spec
from headway.ops.attention import additive, channel, linear, local, softmax, spatial
from headway.ops.attention.call import Call, Mechanism, build
from headway.ops.mask import Mask, causal
from headway.ops.mask.pairs import ALL
from headway.ops.position import Bias

__all__ = ["MECHANISMS", "Call", "Mechanism", "attend", "attend_call", "build", "causal", "torch", "weights"]

MECHANISMS: dict[str, Mechanism] = {
    "softmax": softmax.MECHANISM,
    "linear": linear.MECHANISM,
    "local": local.MECHANISM,
    "spatial": spatial.MECHANISM,
    "channel": channel.MECHANISM,
    "additive": additive.MECHANISM,
}


def attend(
    q: Float[Tensor, "B H L K"],
    k: Float[Tensor, "B G M K"],
    v: Float[Tensor, "B G M W"],
    *,
    mask: Mask | Tensor | None = None,
    mechanism: Spec | str = "softmax",
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    vector: Tensor | None = None,
    **options: Any,
) -> Float[Tensor, "B H L W"]:
    """What each query gathers from the keys it may see, by the mechanism named (options are the mechanism's own)."""
    return attend_call(
        build(
            q, k, v, mask=mask, mechanism=mechanism, scale=scale, bias=bias, softcap=softcap, vector=vector,
            query_positions=query_positions, key_positions=key_positions, options=options,
        )
    )  # fmt: skip


def attend_call(call: Call) -> Float[Tensor, "B H L W"]:
    """A call through the fast path of its mechanism; an axis of size 0 has nothing to compute."""
    if 0 in (*call.q.shape[:3], call.k.shape[2]):
        # Kept in the graph, so that gradients of an empty batch are zeros instead of an error.
        return call.q.sum(-1, keepdim=True).expand(*call.q.shape[:3], call.v.shape[3]) * 0
    return MECHANISMS[call.options.kind].attend(call)


def weights(
    q: Float[Tensor, "B H L K"],
    k: Float[Tensor, "B G M K"],
    v: Float[Tensor, "B G M W"],
    *,
    mask: Mask | Tensor | None = None,
    mechanism: Spec | str = "softmax",
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    vector: Tensor | None = None,
    rows: slice = ALL,
    heads: slice = ALL,
    **options: Any,
) -> Float[Tensor, "B h l M"]:
    """The matrix one would draw, for the rows and heads asked: B H L M, or channels x channels."""
    call = build(
        q, k, v, mask=mask, mechanism=mechanism, scale=scale, bias=bias, softcap=softcap, vector=vector,
        query_positions=query_positions, key_positions=key_positions, options=options,
    )  # fmt: skip
    return MECHANISMS[call.options.kind].weights(call, rows, heads)
