"""One pass through layers: what they share, and the row law, paid for once.

A fast kernel lets NaN at a hidden key reach those who may not see it (0 x NaN is NaN). To look for it in every layer
would cost more than the layers of a small model do. So a pass computes as if all numbers were finite, keeps the sum of
the squares of what enters each attention, and reads these numbers back together when it is done. Where one is not
finite, the same pass runs again with care: attention row by row, maps of rows by `ops.nonfinite_rows.by_rows`.

The sums say enough. |q·k| <= |q| |k|: no score overflows where the sum of all squares does not. And torch's kernel
takes a query of NaN for one that sees nothing, so that the result alone would not show it.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.compiler import is_compiling, is_exporting

from headway.nn.cache import Cache
from headway.ops.bias import Bias
from headway.ops.mask import Mask, allowed, padding
from headway.ops.mask.by_index import Keep
from headway.ops.mask.kernel import kept_keys
from headway.ops.mask.pairs import Pairs
from headway.ops.nonfinite_rows import CARE, at_least_float32, careful
from headway.ops.values import readable, tracing


class Guard:
    """Sums of squares that tell whether a pass stayed finite; `careful`: the slow one, after one that did not."""

    def __init__(self, *, careful: bool = False) -> None:
        self.careful = careful
        self._watches = not (careful or _UNGUARDED)
        self._squares: list[Tensor] = []

    def watch(self, x: Tensor) -> None:
        """Keep the sum of the squares of x, without reading it back."""
        if not self._watches:
            return
        if x.dtype.itemsize >= 4 and x.is_contiguous():
            flat = x.detach().view(-1)
            self._squares.append(torch.dot(flat, flat))  # half the time of a norm
        else:
            self._squares.append(torch.linalg.vector_norm(x.detach(), dtype=at_least_float32(x.dtype)))

    def sound(self) -> bool:
        """Whether all that was watched is finite, and small enough that no product of two overflows."""
        total = sum(self._squares)
        found = True
        if isinstance(total, Tensor) and (readable(total) or (is_compiling() and not is_exporting())):
            found = math.isfinite(total.item())  # the one place where a compiled pass comes back to Python
        return _AGREEMENTS[-1](found) if _AGREEMENTS else found


_UNGUARDED: list[bool] = []


@contextmanager
def unguarded() -> Iterator[None]:
    """Passes inside compute what a model is and do not look at it: for whoever counts that."""
    _UNGUARDED.append(True)
    try:
        yield
    finally:
        _UNGUARDED.pop()


# Where parts of one model run in several processes, all have to take the same way: each hears what the others found.
_AGREEMENTS: list[Callable[[bool], bool]] = []


@contextmanager
def agreeing(ask: Callable[[bool], bool]) -> Iterator[None]:
    """While it is entered, `ask` turns whether this process's numbers are sound into whether all of theirs are."""
    _AGREEMENTS.append(ask)
    try:
        yield
    finally:
        _AGREEMENTS.remove(ask)


def passes_are_watched() -> bool:
    """Whether somebody looks at how passes are computed, so that nothing may compute them in another way."""
    return bool(_UNGUARDED or _AGREEMENTS or CARE.passes)


def run_guarded(compute: Callable[[Guard], Tensor], caches: Iterable[Cache] = ()) -> Tensor:
    """compute(guard), and once more with care where something was not finite; caches are as before then."""
    marks = [(cache, cache.mark()) for cache in caches]
    guard = Guard()
    out = compute(guard)
    guard.watch(out)
    if guard.sound():
        return out
    for cache, mark in marks:
        cache.rewind(mark)
    with careful():
        return compute(Guard(careful=True))


@dataclass(frozen=True, eq=False)
class Context:
    """What the layers of a pass share besides x: masks, positions, a bias, a source to attend to.

    `mask` is over the tokens of this call (a cache adds those that it holds), `source_mask` over those of the source.
    Without positions tokens are counted from 0, or go on after what a cache holds. `guard` is that of the pass: a layer
    that is called without one is where a pass begins.
    """

    mask: Mask | Tensor | None = None
    positions: Int[Tensor, "*b L"] | Pairs | None = None
    bias: Tensor | Bias | None = None
    source: Float[Tensor, "B M E"] | None = None
    source_mask: Mask | Tensor | None = None
    guard: Guard | None = None
    keep: Bool[Tensor, "b L"] | None = None  # which tokens are real, where the mask hides padding
    shared: dict[Any, Any] = field(default_factory=dict)  # what the first layer of a kind makes for the others

    def __post_init__(self) -> None:
        for name in ("mask", "source_mask"):
            table = getattr(self, name)
            if isinstance(table, Tensor):
                object.__setattr__(self, name, allowed(table))
            elif not isinstance(table, Mask | None):
                raise ValueError(f"{name} is a mask such as headway.causal(), or a table of booleans; not {table!r}")

    def under(self, guard: Guard) -> "Context":
        """The same for a pass under this guard, with nothing shared yet."""
        return replace(self, guard=guard, shared={})

    def of_source(self) -> "Context":
        """What cross-attention shares: the same pass, with the source's mask over its keys."""
        if "source" not in self.shared:
            mask = self.source_mask
            keep = kept_keys(mask) if isinstance(mask, Mask) else None
            self.shared["source"] = Context(mask, guard=self.guard, keep=keep)
        return self.shared["source"]

    def query_positions(self, length: int, cache: Cache | None, device: torch.device) -> Int[Tensor, "b L"]:
        """Where the tokens of this pass stand; asked before a cache takes them in, and the same for all layers."""
        if isinstance(self.positions, Pairs):
            return self.positions.query
        if "query positions" not in self.shared:
            counted = torch.arange(length, device=device)[None] if cache is None else cache.following(length)
            self.shared["query positions"] = counted.to(device)
        return self.shared["query positions"]

    def table_positions(self, length: int, cache: Cache | None, device: torch.device) -> Int[Tensor, "b L"]:
        """The same for a table of vectors: padding, which may stand below 0 and is never looked at, at 0."""
        places = self.query_positions(length, cache, device)
        return places if self.keep is None else places.masked_fill(~self.keep, 0)

    def tabled(self, pairs: Pairs, place: object = None) -> Tensor | Bias | None:
        """The bias of these pairs as a table that all layers share; as the rule it is where that would be large.

        `place` tells pairs of one pass apart, where layers hold different keys.
        """
        bias = self.bias
        if bias is None or isinstance(bias, Tensor) or pairs.query.numel() * pairs.key.shape[-1] > TABLED:
            return bias
        if ("bias", place) not in self.shared:
            self.shared["bias", place] = bias.table(bias.parameters, pairs)
        return self.shared["bias", place]


TABLED = 2**17  # pairs of the largest bias that is tabulated; longer texts make theirs tile by tile
NOTHING = Context()


def begin(
    x: Float[Tensor, "B L D"], context: Context, cache: Cache | None = None, *, width: int | None = None
) -> tuple[Tensor, Context]:
    """Where a pass begins: padding zeroed, and positions counted from each row's first real token.

    A pass that has a cache goes on where that ended.
    """
    if width is not None:
        check_width(x, width)
    assert context.mask is None or isinstance(context.mask, Mask)
    keep = None if context.mask is None else kept_keys(context.mask)
    if cache is not None:
        _refuse_tables(context)
    pairs = context.positions if context.positions is None or isinstance(context.positions, Pairs) else None
    if isinstance(context.positions, Tensor):
        rows = context.positions[None] if context.positions.ndim == 1 else context.positions
        pairs = Pairs.of(rows, rows)
    elif pairs is None and keep is not None and keep.shape[-1] == x.shape[1] and _pads_left(keep):
        counted = torch.arange(x.shape[1], device=x.device)[None] if cache is None else cache.following(x.shape[1])
        pairs = Pairs.rising(from_first_real(counted.to(x.device), keep))
    source, source_mask = context.source, context.source_mask
    if source is not None and isinstance(source_mask, Mask):
        source = zero_padding(source, kept_keys(source_mask))
    return zero_padding(x, keep), replace(context, positions=pairs, source=source, keep=keep)


def check_width(x: Any, width: int, name: str = "x") -> None:
    """Refuse what a layer was not made for."""
    if not isinstance(x, Tensor) or x.ndim != 3:
        raise ValueError(f"{name} has three axes, B L D; this one is {getattr(x, 'shape', type(x).__name__)}")
    if x.shape[-1] != width:
        raise ValueError(f"this layer takes width {width}, and {name} has width {x.shape[-1]}")


def check_tokens(tokens: Tensor, vocabulary: int) -> None:
    """Refuse what an embedding would answer with a crash or with another token's vector."""
    if not isinstance(tokens, Tensor):
        raise ValueError(f"tokens are a tensor of whole numbers of shape B L, not a {type(tokens).__name__}")
    if tokens.ndim != 2 or tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise ValueError(f"tokens are whole numbers of shape B L, not {tokens.dtype} of shape {tuple(tokens.shape)}")
    if tokens.numel() and readable(tokens):
        low, high = (int(bound) for bound in tokens.aminmax())
        if low < 0 or high >= vocabulary:
            raise ValueError(f"token {low if low < 0 else high} is outside of the vocabulary of {vocabulary}")


def as_keep(keep: Tensor | None, tokens: Tensor, alias: Tensor | None = None) -> Bool[Tensor, "B L"] | None:
    """Which tokens are real, as booleans; 1 and 0 mean the same. `alias`: the mask by other libraries' name,
    attention_mask.

    >>> as_keep(torch.tensor([[1, 0]]), torch.zeros(1, 2)).tolist()
    [[True, False]]
    """
    if alias is not None:
        if keep is not None:
            raise ValueError("attention_mask is another name of the mask of real tokens: give one of the two")
        keep = alias
    if keep is None or (isinstance(keep, Tensor) and keep.dtype == torch.bool and keep.shape == tokens.shape[:2]):
        return keep
    if not isinstance(keep, Tensor):
        raise ValueError(f"keep is a tensor that is True for real tokens, not a {type(keep).__name__}")
    if keep.shape != tokens.shape[:2]:
        raise ValueError(f"keep of shape {tuple(keep.shape)} does not fit tokens of shape {tuple(tokens.shape[:2])}")
    real = keep == 1
    if readable(keep) and not bool((real | (keep == 0)).all()):
        values = f"{keep.min()} to {keep.max()}"
        raise ValueError(f"keep is True or 1 for a real token, False or 0 for padding; it goes from {values}")
    return real


def with_padding(mask: Mask | None, keep: Bool[Tensor, "B L"] | None) -> Mask | None:
    """The mask, and padding hidden."""
    if keep is None:
        return mask
    return padding(keep=keep) if mask is None else mask & padding(keep=keep)


def _pads_left(keep: Bool[Tensor, "b L"]) -> bool:
    # Where torch.compile cannot read it: positions counted from the first real token are right on either side.
    return tracing() or (readable(keep) and not bool(keep[:, 0].all()))


def from_first_real(counted: Int[Tensor, "b L"], keep: Bool[Tensor, "B L"]) -> Int[Tensor, "B L"]:
    """Positions counted from each row's first real token, so that padding on the left moves nothing.

    >>> keep = torch.tensor([[False, False, True, True], [True, True, True, False]])
    >>> from_first_real(torch.arange(4)[None], keep).tolist()
    [[-2, -1, 0, 1], [0, 1, 2, 3]]
    """
    return counted - keep.int().argmax(-1, keepdim=True)


def zero_padding(x: Float[Tensor, "B L D"], keep: Bool[Tensor, "b L"] | None) -> Float[Tensor, "B L D"]:
    """x with its padded rows set to 0: whatever stood there reaches nobody."""
    if keep is None or keep.shape[-1] != x.shape[1]:
        return x
    return x.masked_fill(~keep[..., None], 0)


def _refuse_tables(context: Context) -> None:
    """Tables are over this call's keys; with a cache it is unknown which of the cached ones they mean."""
    parts = context.mask.parts() if isinstance(context.mask, Mask) else ()
    # Padding is told to the cache, but only where it is a condition of its own: not inside of `|` or `~`.
    if any(part.by_index and not isinstance(part, Keep) for part in parts) or isinstance(context.bias, Tensor):
        raise ValueError(
            "with a cache, masks and biases relate positions (causal, window, ALiBi, …) or declare padding: a table of "
            "this call's keys does not say which of the cached ones it means"
        )
