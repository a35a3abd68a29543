"""Attention: every mechanism behind one function, and the matrix one would draw.

>>> q = k = v = torch.eye(3).view(1, 1, 3, 3)
>>> attend(q, k, v, mask=causal(), scale=1.0)[0, 0, 1].round(decimals=4).tolist()
[0.2689, 0.7311, 0.0]
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headway.config import Frozen, nearest, read_spec
from headway.ops.attention import additive, channel, linear, local, softmax, spatial
from headway.ops.attention.call import Call, Mechanism, build
from headway.ops.bias import Bias
from headway.ops.mask import Mask, causal
from headway.ops.mask.pairs import ALL

__all__ = [
    "MECHANISMS",
    "Call",
    "Mechanism",
    "attend",
    "attend_call",
    "build",
    "causal",
    "record_of",
    "torch",
    "weights",
]

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
    mechanism: Mechanism | Frozen | str = "softmax",
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    vector: Tensor | None = None,
    **options: Any,
) -> Float[Tensor, "B H L W"]:
    """What each query gathers from the keys it may see.

    The mechanism is a name, a spec, or a record of your own; options are the mechanism's.
    """
    record, spec = _resolve(mechanism, options)
    call = build(
        q, k, v, mask=mask, mechanism=spec, scale=scale, bias=bias, softcap=softcap, vector=vector,
        query_positions=query_positions, key_positions=key_positions, options={},
    )  # fmt: skip
    return attend_call(call, record)


def attend_call(call: Call, record: Mechanism | None = None) -> Float[Tensor, "B H L W"]:
    """A call through the fast path of its mechanism; an axis of size 0 has nothing to compute."""
    if 0 in (*call.q.shape[:3], call.k.shape[2]):
        # Kept in the graph, so that gradients of an empty batch are zeros instead of an error.
        nothing = sum(x.masked_fill(torch.ones_like(x, dtype=torch.bool), 0).sum() for x in (call.q, call.k, call.v))
        return call.q.new_zeros(*call.q.shape[:3], call.v.shape[3]) + nothing
    return (record or record_of(call)).attend(call)


def record_of(call: Call) -> Mechanism:
    """The mechanism that the call's options belong to."""
    for record in MECHANISMS.values():
        if isinstance(call.options, record.spec):
            return record
    raise ValueError(
        f"{type(call.options).__name__} is the spec of no mechanism in MECHANISMS: pass the record itself as mechanism="
    )


def _resolve(mechanism: Mechanism | Frozen | str, options: dict[str, Any]) -> tuple[Mechanism | None, Frozen]:
    if isinstance(mechanism, str):
        if mechanism not in MECHANISMS:
            hint = nearest(mechanism, MECHANISMS)
            raise ValueError(f"there is no mechanism {mechanism!r}{hint}; there are {', '.join(MECHANISMS)}")
        mechanism = MECHANISMS[mechanism]
    if isinstance(mechanism, Mechanism):
        return mechanism, mechanism.spec(**options)
    return None, read_spec(mechanism, **options)


def weights(
    q: Float[Tensor, "B H L K"],
    k: Float[Tensor, "B G M K"],
    v: Float[Tensor, "B G M W"],
    *,
    mask: Mask | Tensor | None = None,
    mechanism: Mechanism | Frozen | str = "softmax",
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    vector: Tensor | None = None,
    rows: slice = ALL,
    heads: slice = ALL,
    **options: Any,
) -> Float[Tensor, "B h l m"]:
    """The matrix one would draw, for the rows and heads asked: B H L M, or channels x channels."""
    record, spec = _resolve(mechanism, options)
    call = build(
        q, k, v, mask=mask, mechanism=spec, scale=scale, bias=bias, softcap=softcap, vector=vector,
        query_positions=query_positions, key_positions=key_positions, options={},
    )  # fmt: skip
    return (record or record_of(call)).weights(call, rows, heads)
