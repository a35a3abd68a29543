"""Attention: every mechanism behind one function, and the matrix one would draw.

>>> from headway.ops.mask import causal
>>> q = k = v = torch.eye(3).view(1, 1, 3, 3)
>>> attend(q, k, v, mask=causal(), scale=1.0)[0, 0, 1].round(decimals=4).tolist()
[0.2689, 0.7311, 0.0]
"""

from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headway.config import Spec, nearest, read_spec
from headway.config.importing import import_named, split_name
from headway.ops.attention import additive, channel, linear, local, softmax, spatial
from headway.ops.attention.call import Call, make_call
from headway.ops.attention.mechanism import Mechanism
from headway.ops.bias import Bias
from headway.ops.mask import Mask
from headway.ops.mask.pairs import ALL

# A mechanism of headway's own is one file and one line here; anybody else's is named by module:RECORD in its spec.
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
    mechanism: Mechanism | Spec | str = "softmax",
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    **options: Any,
) -> Float[Tensor, "B H L W"]:
    """What each query gathers from the keys it may see.

    The mechanism is a name, a spec, or a record of your own; options are the mechanism's, and the tensors it needs.
    """
    record, call = call_for(
        q, k, v, mechanism, options, mask=mask, scale=scale, bias=bias, softcap=softcap,
        query_positions=query_positions, key_positions=key_positions,
    )  # fmt: skip
    return attend_call(call, record)


def weights(
    q: Float[Tensor, "B H L K"],
    k: Float[Tensor, "B G M K"],
    v: Float[Tensor, "B G M W"],
    *,
    mask: Mask | Tensor | None = None,
    mechanism: Mechanism | Spec | str = "softmax",
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    rows: slice = ALL,
    heads: slice = ALL,
    **options: Any,
) -> Float[Tensor, "B h l m"]:
    """The matrix one would draw, for the rows and heads asked: B H L M, or channels x channels."""
    record, call = call_for(
        q, k, v, mechanism, options, mask=mask, scale=scale, bias=bias, softcap=softcap,
        query_positions=query_positions, key_positions=key_positions,
    )  # fmt: skip
    return record.weights(call, rows, heads)


def attend_call(call: Call, record: Mechanism | None = None) -> Float[Tensor, "B H L W"]:
    """A call through the fast path of its mechanism; an axis of size 0 has nothing to compute."""
    if 0 in call.q.shape or 0 in call.k.shape:
        # Kept in the graph, so that gradients of an empty batch are zeros instead of an error.
        nothing = sum(x.masked_fill(torch.ones_like(x, dtype=torch.bool), 0).sum() for x in (call.q, call.k, call.v))
        return call.q.new_zeros(*call.q.shape[:3], call.v.shape[3]) + nothing
    return (record or record_of(call.spec)).attend(call)


def record_of(spec: Spec) -> Mechanism:
    """The mechanism that these options belong to: by the name in `kind`, or wherever `kind` says that it is."""
    found = MECHANISMS.get(spec.kind)
    if found is None or not isinstance(spec, found.spec):
        found = next((one for one in MECHANISMS.values() if isinstance(spec, one.spec)), None) or _named(spec)
    return found


@lru_cache
def _imported(module: str, name: str) -> Mechanism:
    found = import_named(module, name)
    if not isinstance(found, Mechanism):
        raise ValueError(f"{module}:{name} is a {type(found).__name__}, not the record of a mechanism")
    return found


def _named(spec: Spec) -> Mechanism:
    place = split_name(spec.kind)
    if place is None:
        raise ValueError(
            f"{type(spec).__name__} is the spec of no mechanism in MECHANISMS: let its kind say where the record is "
            "(package.module:RECORD), or pass the record itself as mechanism="
        )
    return _imported(*place)


def call_for(
    q: Tensor, k: Tensor, v: Tensor, mechanism: Mechanism | Spec | str, options: dict[str, Any], **rest: Any
) -> tuple[Mechanism, Call]:
    """A mechanism and a checked call of it; options that are tensors are the parameters that it needs."""
    tensors = {name: value for name, value in options.items() if isinstance(value, Tensor)}
    plain = {name: value for name, value in options.items() if value is not None and name not in tensors}
    if isinstance(mechanism, str) and mechanism not in MECHANISMS and split_name(mechanism) is None:
        hint = nearest(mechanism, MECHANISMS)
        raise ValueError(f"there is no mechanism {mechanism!r}{hint}; there are {', '.join(MECHANISMS)}")
    if isinstance(mechanism, Mechanism):
        record, spec = mechanism, mechanism.spec(**plain)
    else:
        spec = read_spec(mechanism, **plain)
        record = record_of(spec)
    call = make_call(q, k, v, spec, parameters=tensors, **rest)
    check_parameters(record, call)
    return record, call


def check_parameters(record: Mechanism, call: Call) -> None:
    """Refuse tensors that the mechanism does not need, or of another shape."""
    wanted = record.parameters(call.q.shape[1], call.q.shape[3])
    for name, value in call.parameters.items():
        if name not in wanted:
            owners = [one.name for one in MECHANISMS.values() if name in one.parameters(1, 1)]
            whose = f"belongs to {owners[0]} attention; " if owners else ""
            raise ValueError(f"{name}= {whose}{record.name} has no use for it")
        full = wanted[name]
        shapes = (full, (1, *full[1:]))
        if tuple(value.shape) not in shapes:
            raise ValueError(f"{name} of shape {tuple(value.shape)} does not fit H K = {full}")
