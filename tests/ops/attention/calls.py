"""A checked call by name, without running it."""

from typing import Any

from torch import Tensor

from headway.ops.attention import Call, call_for, make_call
from headway.ops.attention.hard import Hard


def build(q: Tensor, k: Tensor, v: Tensor, *, mechanism: Any = "softmax", options: dict[str, Any], **rest: Any) -> Call:
    """Options are the mechanism's; the rest is what modifies the scores, and the tensors that the mechanism needs."""
    known = ("mask", "scale", "bias", "softcap", "query_positions", "key_positions")
    given = {name: value for name, value in rest.items() if name in known}
    if isinstance(mechanism, Hard):
        return make_call(q, k, v, mechanism, **given)
    return call_for(q, k, v, mechanism, options | {n: x for n, x in rest.items() if n not in known}, **given)[1]
