"""One attention call, checked once: all that attend, weights, capture and cost need to speak of the same thing."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.config import Channel, Frozen, Linear, Local, Softmax, Spatial, read_spec
from headway.ops.bias import Bias
from headway.ops.mask import Mask, allowed
from headway.ops.mask.kernel import kept_keys
from headway.ops.mask.pairs import Pairs
from headway.sizes import Cost, Operation, Sizes


def learning(*tensors: Tensor) -> bool:
    """Whether a gradient is wanted of any of them."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


@dataclass(frozen=True, eq=False)
class Call:
    """All that one attention needs: q `B H L K`, k `B G M K`, v `B G M W`, and what modifies the scores."""

    q: Float[Tensor, "B H L K"]
    k: Float[Tensor, "B G M K"]
    v: Float[Tensor, "B G M W"]
    options: Frozen
    mask: Mask | None = None
    query_positions: Int[Tensor, "#B L"] | None = None
    key_positions: Int[Tensor, "#B M"] | None = None
    scale: float | None = None
    bias: Float[Tensor, "#B #H #L #M"] | Bias | None = None
    softcap: float | None = None
    vector: Float[Tensor, "#H K"] | None = None
    keys_finite: bool = False  # known from a cache that looked when the keys were written; otherwise they are looked at

    @property
    def sizes(self) -> Sizes:
        batch, heads, queries, key_width = self.q.shape
        _, kv_heads, keys, value_width = self.v.shape
        return Sizes(batch, heads, kv_heads, queries, keys, key_width, value_width)

    @cached_property
    def pairs(self) -> Pairs:
        queries, keys, device = self.q.shape[2], self.k.shape[2], self.q.device
        if self.query_positions is None and self.key_positions is None:
            return Pairs.counting(queries, keys, device)
        query = self.query_positions if self.query_positions is not None else queries
        key = self.key_positions if self.key_positions is not None else keys
        return Pairs.of(query, key, device=device)

    @property
    def dtype(self) -> torch.dtype:
        """Where scores and softmax are computed: at least float32."""
        return self.q.dtype if self.q.dtype.itemsize >= 4 else torch.float32

    def quarantined(self) -> "Call":
        """The same call with the keys of declared padding zeroed, so that nothing in them can arrive anywhere."""
        keep = None if self.mask is None else kept_keys(self.mask)
        if keep is None:
            return self
        gone = ~keep[:, None, :, None]
        return replace(self, k=self.k.masked_fill(gone, 0), v=self.v.masked_fill(gone, 0))


@dataclass(frozen=True)
class Mechanism:
    """One way to attend: its equation, its fast path, the matrix one would draw, its price, the laws it claims."""

    name: str
    spec: type[Frozen]
    reference: Callable[[Call], Tensor]
    attend: Callable[[Call], Tensor]
    weights: Callable[[Call, slice, slice], Tensor]
    cost: Callable[[Sizes, Mask | None, Any, Pairs], Cost]
    laws: frozenset[str]
    # (sizes, mask, spec, pairs, modifiers) -> the whole operation, backwards and depth too; None: made from the cost
    price: Callable[..., Operation] | None = None


def build(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    mechanism: Frozen | str = "softmax",
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    options: dict[str, Any],
    **rest: Any,
) -> Call:
    """A checked call; a mistake is a ValueError that names the sizes."""
    _check_tensors(q, k, v)
    spec = read_spec(mechanism, **options)
    mask = allowed(mask) if isinstance(mask, Tensor) else mask
    if mask is not None and not isinstance(mask, Mask):
        raise ValueError(f"mask is a mask of headway or a boolean tensor, not a {type(mask).__name__}")
    batch, heads, queries, keys = q.shape[0], q.shape[1], q.shape[2], k.shape[2]
    if mask is not None:
        mask.check(batch, heads, queries, keys)
    places = _positions("query_positions", query_positions, batch, queries)
    key_places = _positions("key_positions", key_positions, batch, keys)
    if (places is None) != (key_places is None):
        raise ValueError("query_positions and key_positions belong together: pass both, or neither where L = M")
    _check_modifiers((batch, heads, queries, keys), q, **rest)
    if rest.get("vector") is not None and isinstance(spec, Softmax | Linear | Local | Spatial | Channel):
        raise ValueError(f"vector= belongs to additive attention; {spec.kind} has no use for it")
    call = Call(q, k, v, spec, mask, places, key_places, **rest)
    _check_lazy_bias(call)
    return call


def _check_lazy_bias(call: Call) -> None:
    if call.bias is None or isinstance(call.bias, Tensor):
        return
    call.pairs.require()
    origin = torch.zeros(1, 1, dtype=torch.long, device=call.q.device)
    found = call.bias.table(call.bias.parameters, origin, origin).shape[1]
    if found not in (1, call.q.shape[1]):
        raise ValueError(f"the bias is for {found} heads, and there are {call.q.shape[1]}")


def _check_tensors(q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, x, axes in (("q", q, "B H L K"), ("k", k, "B G M K"), ("v", v, "B G M W")):
        if not isinstance(x, Tensor) or x.ndim != 4:
            shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"{name} has four axes, {axes}; this one is {shape}")
        if not x.is_floating_point():
            raise ValueError(f"{name} is {x.dtype}; attention is computed on floating-point tensors")
    if len({q.dtype, k.dtype, v.dtype}) > 1:
        raise ValueError(f"q, k and v have one dtype, not {q.dtype}, {k.dtype}, {v.dtype}: cast them first")
    if len({q.device, k.device, v.device}) > 1:
        raise ValueError(f"q, k and v live on one device, not {q.device}, {k.device}, {v.device}: move them first")
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        raise ValueError(f"q, k and v have one batch size B, not {q.shape[0]}, {k.shape[0]}, {v.shape[0]}")
    if q.shape[3] == 0:
        raise ValueError("q has heads of width 0: a score needs at least one channel")
    if q.shape[3] != k.shape[3]:
        raise ValueError(f"q has width {q.shape[3]} and k has width {k.shape[3]}: a score needs the same K in both")
    if k.shape[1:3] != v.shape[1:3]:
        raise ValueError(
            f"k has G M = {tuple(k.shape[1:3])} and v has {tuple(v.shape[1:3])}: a value belongs to each key"
        )
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(f"{k.shape[1]} key/value heads do not divide {q.shape[1]} query heads")


def _positions(name: str, given: Tensor | None, batch: int, length: int) -> Tensor | None:
    if given is None:
        return None
    if not isinstance(given, Tensor) or given.is_floating_point() or given.dtype == torch.bool:
        raise ValueError(f"{name} is a tensor of whole numbers of shape L or B L")
    if given.ndim not in (1, 2) or given.shape[-1] != length or (given.ndim == 2 and given.shape[0] not in (1, batch)):
        raise ValueError(f"{name} of shape {tuple(given.shape)} does not fit B L = ({batch}, {length})")
    return given.long()[None] if given.ndim == 1 else given.long()


def _check_modifiers(
    sizes: tuple[int, int, int, int],
    q: Tensor,
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    vector: Tensor | None = None,
) -> None:
    if softcap is not None and not 0 < softcap < float("inf"):
        raise ValueError(f"softcap is a positive number (None for no cap), not {softcap}")
    if scale is not None and not abs(scale) < float("inf"):
        raise ValueError(f"scale is a finite number (1.0 for none), not {scale}")
    if isinstance(bias, Tensor):
        if not bias.is_floating_point():
            raise ValueError(f"bias is added to the scores; a {bias.dtype} table of who may attend is passed as mask=")
        if bias.ndim != 4 or any(have not in (1, want) for have, want in zip(bias.shape, sizes, strict=True)):
            raise ValueError(f"bias of shape {tuple(bias.shape)} does not broadcast to B H L M = {sizes}")
    if vector is not None and (
        vector.ndim != 2 or vector.shape[0] not in (1, sizes[1]) or vector.shape[1] != q.shape[3]
    ):
        raise ValueError(f"vector of shape {tuple(vector.shape)} does not fit H K = ({sizes[1]}, {q.shape[3]})")
