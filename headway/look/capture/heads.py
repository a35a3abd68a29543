"""Some heads of a call, as a call: views of what it has, so that no other head is computed."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headway.ops.attention import Call
from headway.ops.bias import Alibi, Bias, Clipped, Relative
from headway.ops.mask import Mask
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
