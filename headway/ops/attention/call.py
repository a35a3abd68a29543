"""One attention call, checked once: all that attend, weights, capture and cost need to speak of the same thing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from headway.config import Spec
from headway.config.base import LARGEST, SMALLEST
from headway.ops.bias import Bias
from headway.ops.mask import Mask, allowed
from headway.ops.mask.kernel import kept_keys
from headway.ops.mask.pairs import Pairs
from headway.ops.nonfinite_rows import at_least_float32
from headway.sizes import Sizes

T = TypeVar("T")


@runtime_checkable
class PassMode(Protocol):
    """The guard of a pass (`nn.context.Guard`), as far as one of its calls asks: whether it is fast or careful."""

    careful: bool


def learning(*tensors: Tensor) -> bool:
    """Whether a gradient is wanted of any of them."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


@dataclass(frozen=True, eq=False)
class Call:
    """All that one attention needs: q `B H L K`, k `B G M K`, v `B G M W`, and what modifies the scores."""

    q: Float[Tensor, "B H L K"]
    k: Float[Tensor, "B G M K"]
    v: Float[Tensor, "B G M W"]
    spec: Spec  # the mechanism's options
    mask: Mask | None = None
    positions: Pairs | None = None  # None: counted from 0 where L = M, unknown elsewhere
    scale: float | None = None
    bias: Float[Tensor, "#B #H #L #M"] | Bias | None = None
    softcap: float | None = None
    parameters: Mapping[str, Tensor] = field(default_factory=dict)  # what the mechanism needs besides, by name
    total: Tensor | None = None  # what a cache holds instead of keys: of linear attention, Σ g(k) [v, 1]ᵀ before these
    guard: "PassMode | None" = None  # of the pass that this call is a part of; None: the call guards itself
    shared: dict[str, Any] | None = None  # plans and tables of a pass, for all calls that differ in q, k, v alone

    @property
    def sizes(self) -> Sizes:
        batch, heads, queries, key_width = self.q.shape
        _, kv_heads, keys, value_width = self.v.shape
        return Sizes(batch, heads, kv_heads, queries, keys, key_width, value_width)

    @property
    def pairs(self) -> Pairs:
        """Where queries and keys stand."""
        if self.positions is not None:
            return self.positions
        if "counted" not in vars(self):  # once; functools.cached_property has a lock that torch.compile cannot enter
            counted = Pairs.counting(self.q.shape[2], self.k.shape[2], self.q.device)
            object.__setattr__(self, "counted", counted)
        return vars(self)["counted"]

    @property
    def dtype(self) -> torch.dtype:
        """Where scores and softmax are computed: at least float32."""
        return at_least_float32(self.q.dtype)

    @property
    def extras(self) -> "tuple[Extra, ...]":
        """The tensors beside q, k, v that may carry gradients: the bias's own, then the mechanism's."""
        if isinstance(self.bias, Tensor):
            found: tuple[Extra, ...] = (Extra(self.bias, cut=True),)
        else:
            found = tuple(Extra(value) for value in (() if self.bias is None else self.bias.parameters))
        return found + tuple(Extra(value) for value in self.parameters.values())

    @property
    def learns(self) -> bool:
        """Whether anything in the call wants a gradient."""
        return learning(self.q, self.k, self.v) or self.extras_learn

    @property
    def extras_learn(self) -> bool:
        return learning(*(extra.value for extra in self.extras))

    def split_extras(self, values: "tuple[Tensor, ...] | list[Tensor]") -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        """Values of the extras, as the bias's own and the mechanism's by name."""
        count = len(values) - len(self.parameters)
        return tuple(values[:count]), dict(zip(self.parameters, values[count:], strict=True))

    def quarantined(self) -> "Call":
        """The same call with the keys of declared padding zeroed, so that nothing in them can arrive anywhere."""
        keep = None if self.mask is None else kept_keys(self.mask)
        if keep is None:
            return self
        gone = ~keep[:, None, :, None]
        return replace(self, k=self.k.masked_fill(gone, 0), v=self.v.masked_fill(gone, 0))

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` gives, made once for all calls of a pass that share it."""
        if self.shared is None:
            return make()
        if name not in self.shared:
            self.shared[name] = make()
        return self.shared[name]

    def under(self, mask: Mask | None) -> "Call":
        """The same call under one mask more."""
        if mask is None:
            return self
        return replace(self, mask=mask if self.mask is None else mask & self.mask)


@dataclass(frozen=True)
class Extra:
    """A tensor beside q, k, v: whole in every part of a call, or cut like the scores (B H L M)."""

    value: Tensor
    cut: bool = False


def make_call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spec: Spec,
    *,
    mask: Mask | Tensor | None = None,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    parameters: Mapping[str, Tensor] | None = None,
) -> Call:
    """A checked call; a mistake is a ValueError that names the sizes."""
    _check_tensors(q, k, v)
    mask = allowed(mask) if isinstance(mask, Tensor) else mask
    if mask is not None and not isinstance(mask, Mask):
        raise ValueError(f"mask is a mask of headway or a boolean tensor, not a {type(mask).__name__}")
    batch, heads, queries, keys = q.shape[0], q.shape[1], q.shape[2], k.shape[2]
    if mask is not None:
        mask.check(batch, heads, queries, keys)
    positions = _positions(query_positions, key_positions, batch, queries, keys, q.device)
    _check_numbers(scale, softcap)
    bias = _checked_bias(bias, (batch, heads, queries, keys)) if isinstance(bias, Tensor) else bias
    call = Call(q, k, v, spec, mask, positions, scale, bias, softcap, parameters or {})
    _check_lazy_bias(call)
    return call


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


def _positions(
    query: Tensor | None, key: Tensor | None, batch: int, queries: int, keys: int, device: torch.device
) -> Pairs | None:
    rows = (
        _position_rows("query_positions", query, batch, queries),
        _position_rows("key_positions", key, batch, keys),
    )
    if rows[0] is None and rows[1] is None:
        return None
    if rows[0] is None or rows[1] is None:
        raise ValueError("query_positions and key_positions belong together: pass both, or neither where L = M")
    return Pairs.of(rows[0], rows[1], device=device)


def _position_rows(name: str, given: Tensor | None, batch: int, length: int) -> Tensor | None:
    if given is None:
        return None
    if not isinstance(given, Tensor) or given.is_floating_point() or given.dtype == torch.bool:
        raise ValueError(f"{name} is a tensor of whole numbers of shape L or B L")
    if given.ndim not in (1, 2) or given.shape[-1] != length or (given.ndim == 2 and given.shape[0] not in (1, batch)):
        raise ValueError(f"{name} of shape {tuple(given.shape)} does not fit B L = ({batch}, {length})")
    return given.long()[None] if given.ndim == 1 else given.long()


def _check_numbers(scale: float | None, softcap: float | None) -> None:
    if softcap is not None and not SMALLEST <= softcap <= LARGEST:
        raise ValueError(f"softcap is a positive number that float32 holds (None for no cap), not {softcap}")
    if scale is not None and not abs(scale) < float("inf"):
        raise ValueError(f"scale is a finite number (1.0 for none), not {scale}")


def _checked_bias(bias: Tensor, sizes: tuple[int, int, int, int]) -> Float[Tensor, "#B #H #L #M"]:
    """A bias that broadcasts to the scores, with all four axes."""
    if not bias.is_floating_point():
        raise ValueError(f"bias is added to the scores; a {bias.dtype} table of who may attend is passed as mask=")
    full = bias[(None,) * (4 - bias.ndim)] if bias.ndim < 4 else bias
    if bias.ndim > 4 or any(have not in (1, want) for have, want in zip(full.shape, sizes, strict=True)):
        raise ValueError(f"bias of shape {tuple(bias.shape)} does not broadcast to B H L M = {sizes}")
    return full


def _check_lazy_bias(call: Call) -> None:
    if call.bias is None or isinstance(call.bias, Tensor):
        return
    call.pairs.require()
    origin = torch.zeros(1, 1, dtype=torch.long, device=call.q.device)
    found = call.bias.table(call.bias.parameters, Pairs.of(origin)).shape[1]
    if found not in (1, call.q.shape[1]):
        raise ValueError(f"the bias is for {found} heads, and there are {call.q.shape[1]}")
