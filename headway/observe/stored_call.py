"""A call that outlives its pass: copies of its queries and keys, no values, and nothing that may change unnoticed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from headway.config import Frozen, read_spec
from headway.observe.attention_event import KernelCall
from headway.ops.attention import Call, record_of
from headway.ops.bias import Alibi, Bias, Clipped, Relative
from headway.ops.mask import Mask, allowed, causal
from headway.ops.mask.pairs import Pairs


def runs(heads: list[int]) -> Iterator[slice]:
    """Heads one after the other as slices.

    >>> list(runs([0, 1, 2, 5]))
    [slice(0, 3, None), slice(5, 6, None)]
    """
    start = 0
    for place in range(1, len(heads) + 1):
        if place == len(heads) or heads[place] != heads[place - 1] + 1:
            yield slice(heads[start], heads[place - 1] + 1)
            start = place


def of_heads(call: Call, heads: slice) -> Call:
    """The call of these heads alone, each with a key head of its own."""
    if heads == slice(0, call.q.shape[1]):
        return call
    group = torch.arange(call.q.shape[1], device=call.q.device)[heads] // (call.q.shape[1] // call.k.shape[1])
    k = call.k.index_select(1, group)
    own = {name: value if value.shape[0] == 1 else value[heads] for name, value in call.parameters.items()}
    mask = None if call.mask is None else _of_mask(call.mask, heads)
    bias = _of_bias(call.bias, heads)
    return replace(call, q=call.q[:, heads], k=k, v=k, mask=mask, bias=bias, parameters=own, shared=None)


@dataclass(frozen=True, eq=False)
class _MaskOfHeads(Mask):
    """A mask that tells heads apart, for some of them."""

    inner: Mask
    chosen: slice

    @property
    def batch(self) -> int:
        return self.inner.batch

    @property
    def heads(self) -> int:
        return self.chosen.stop - self.chosen.start

    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        return self.inner.at(pairs)[:, self.chosen]


def _of_mask(mask: Mask, heads: slice) -> Mask:
    """Down to the masks that it is made of, so that a table is cut before it is combined."""
    if mask.heads == 1:
        return mask
    inner = (
        [one.name for one in fields(mask) if isinstance(getattr(mask, one.name), Mask)] if is_dataclass(mask) else []
    )
    if inner:
        return replace(mask, **{name: _of_mask(getattr(mask, name), heads) for name in inner})  # type: ignore[type-var]
    return _MaskOfHeads(mask, heads)


@dataclass(frozen=True, eq=False)
class _BiasOfHeads:
    """A rule that we know nothing of, for some of its heads."""

    inner: Bias
    chosen: slice

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        return self.inner.parameters

    def table(self, parameters: tuple[Tensor, ...], pairs: Pairs) -> Float[Tensor, "#b H L M"]:
        found = self.inner.table(parameters, pairs)
        return found if found.shape[1] == 1 else found[:, self.chosen]


def _of_bias(bias: Tensor | Bias | None, heads: slice) -> Tensor | Bias | None:
    match bias:
        case None:
            return None
        case Tensor():
            return bias if bias.shape[1] == 1 else bias[:, heads]
        case Alibi(slopes=slopes):
            return bias if len(slopes) == 1 else Alibi(slopes[heads])
        case Clipped(weight=weight) | Relative(weight=weight):
            return bias if weight.shape[1] == 1 else replace(bias, weight=weight[:, heads])
        case _:
            return _BiasOfHeads(bias, heads)


T = TypeVar("T")


class StoredKeys:
    """The keys of a call, and of the earlier ones that saw the first few of them: held once."""

    def __init__(self, k: Float[Tensor, "B G M K"]) -> None:
        self.held = k.detach().clone()

    def grown(self, k: Float[Tensor, "B G M K"]) -> bool:
        """Takes k in if it begins with all that is held."""
        count = self.held.shape[2]
        if k.shape[:2] != self.held.shape[:2] or k.shape[3] != self.held.shape[3] or k.dtype != self.held.dtype:
            return False
        if k.shape[2] < count or not torch.equal(k[:, :, :count], self.held):
            return False
        self.held = self.held if k.shape[2] == count else k.detach().clone()
        return True


@dataclass(frozen=True, eq=False)
class _Rule:
    """A bias whose parameters are our own copies."""

    inner: Bias
    parameters: tuple[Tensor, ...]

    def table(self, parameters: tuple[Tensor, ...], pairs: Pairs) -> Float[Tensor, "#b H L M"]:
        return self.inner.table(parameters, pairs)


@dataclass(frozen=True, eq=False)
class StoredCall:
    """q and k are copies: a cache writes into its own, and what is cut from a larger tensor would keep all of it.

    A bias or mask as large as a table of pairs is not copied; if somebody changes it, its version says so.
    """

    q: Float[Tensor, "B H L K"]
    keys: StoredKeys
    count: int  # of the keys, those that this call saw
    rest: dict[str, Any]
    tables: tuple[tuple[Shaped[Tensor, "..."], int], ...]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        batch, heads, queries, width = self.q.shape
        channels = record_of(self.rest["spec"]).between == "channels"
        between = (width, width) if channels else (queries, self.count)
        return batch, heads, *between

    @property
    def nbytes(self) -> int:
        return self.q.nbytes

    def call(self) -> Call:
        """The call again; the keys stand in for the values, which no weight reads."""
        if any(table._version != version for table, version in self.tables):
            raise ValueError(
                "the mask or bias of this attention was changed in place after the pass, so its weights are lost: "
                "take them before, or change a copy"
            )
        k = self.keys.held[:, :, : self.count]
        return Call(self.q, k, k, **self.rest)

    def goes_on(self, call: Call) -> bool:
        """Whether the call has one query more for these keys; if so, new keys are taken in."""
        alike = call.q.shape[:2] == self.q.shape[:2] and call.spec == self.rest["spec"]
        return alike and self.keys.grown(call.k)

    def weights(self, rows: slice, heads: list[int]) -> Float[Tensor, "B h l M"]:
        batch, _, queries, keys = self.shape
        if not heads or not range(*rows.indices(queries)):
            return self.q.new_zeros(batch, len(heads), len(range(*rows.indices(queries))), keys)
        found = [_weights(of_heads(self.call(), run), rows) for run in runs(heads)]
        return found[0] if len(found) == 1 else torch.cat(found, 1)


def _weights(call: Call, rows: slice) -> Float[Tensor, "B h l M"]:
    return record_of(call.spec).weights(call, rows, slice(None))


def store_call(call: Call, keys: StoredKeys | None = None) -> StoredCall:
    """What is needed to compute the weights later; `keys` where they are held already."""
    size = max(call.q.numel(), call.k.numel())
    names = [one.name for one in fields(Call) if one.name not in ("q", "k", "v", "bias", "guard", "shared")]
    rest = {name: _own(getattr(call, name), size) for name in names} | {"bias": _own_bias(call.bias, size)}
    tables = tuple((x, x._version) for x in _tensors(rest) if x.numel() > size and not x.is_inference())
    held = StoredKeys(call.k) if keys is None else keys
    return StoredCall(call.q.detach().clone(), held, call.k.shape[2], rest, tables)


def _own_bias(bias: Tensor | Bias | None, size: int) -> Tensor | Bias | None:
    if bias is None or isinstance(bias, Tensor) or is_dataclass(bias):
        return _own(bias, size)
    return _Rule(bias, tuple(_own(one, size) for one in bias.parameters))


def _own(value: T, size: int) -> T:
    """The same with copies of its tensors, but of those that have more entries than this."""
    if isinstance(value, Tensor):
        return value.detach() if value.numel() > size else value.detach().clone()  # type: ignore[return-value]
    if isinstance(value, Mapping):
        return {name: _own(one, size) for name, one in value.items()}  # type: ignore[return-value]
    if isinstance(value, Frozen) or not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{one.name: _own(getattr(value, one.name), size) for one in fields(value) if one.init})


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _tensors(one)
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            yield from _tensors(getattr(value, one.name))


def call_of(event: KernelCall) -> Call:
    """The same attention as a call of headway's own."""
    table, places = event.mask, None
    hides = table is not None and table.dtype == torch.bool
    mask: Mask | None = allowed(table) if hides else None  # type: ignore[arg-type]
    if event.causal:
        queries, keys = (torch.arange(x.shape[2], device=x.device)[None] for x in (event.q, event.k))
        mask, places = causal() if mask is None else mask & causal(), Pairs.of(queries, keys)
    bias = None if hides else table
    return Call(event.q, event.k, event.k, read_spec("softmax"), mask, places, event.scale, bias)
