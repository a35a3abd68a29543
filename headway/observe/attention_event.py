"""One attention of a running model, as an event: headway's own call, the arguments of a kernel, or a softmax."""

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from headway.ops.attention import Call

# A score that stands this far below q·k was hidden by adding a number: libraries add -1e4, -1e9 or the dtype's lowest.
HIDDEN = 5000.0


@dataclass(frozen=True, eq=False)
class KernelCall:
    """A call of scaled_dot_product_attention: its mask is boolean (True = may attend) or added to the scores.

    q and k together had been multiplied by `before` already."""

    q: Float[Tensor, "B H L K"]
    k: Float[Tensor, "B G M K"]
    mask: Shaped[Tensor, "#B #H #L #M"] | None = None
    causal: bool = False
    scale: float | None = None
    before: float = 1.0


@dataclass(frozen=True, eq=False)
class SoftmaxCall:
    """A softmax over the last axis: what it read and what it gave. It read factor · q kᵀ where those are known."""

    given: Float[Tensor, "B H L M"]
    weights: Float[Tensor, "B H L M"]
    q: Float[Tensor, "B H L K"] | None = None
    k: Float[Tensor, "B H M K"] | None = None
    factor: float = 1.0


AttentionEvent = Call | KernelCall | SoftmaxCall


def of_kernel(
    q: Tensor, k: Tensor, mask: Tensor | None, *, causal: bool, scale: float | None, before: float, heads: int
) -> KernelCall | None:
    """A kernel's arguments with four axes each; None where there is nothing to attend to."""
    if 0 in q.shape or 0 in k.shape or before == 0 or q.is_nested:
        return None
    table = None if mask is None else _table(mask.detach(), (*q.shape[:-1], k.shape[-2]), heads)
    return KernelCall(split(q.detach(), heads), split(k.detach(), heads), table, causal, scale, before)


def _table(mask: Tensor, shape: tuple[int, ...], heads: int) -> Shaped[Tensor, "#B #H #L #M"]:
    """The mask with four axes; an axis that all share keeps its size of 1."""
    wide = mask[(None,) * (len(shape) - mask.ndim)]
    if all(size == 1 for size in wide.shape[:-2]):
        return wide.reshape(1, 1, *wide.shape[-2:])
    return wide if len(shape) == 4 else split(wide.expand(shape), heads)


def of_softmax(
    given: Tensor, weights: Tensor, q: Tensor | None, k: Tensor | None, *, factor: float, heads: int
) -> SoftmaxCall | None:
    """A softmax's scores with four axes; q and k are dropped where they do not fit them."""
    if 0 in given.shape or (q is not None and factor == 0):
        return None
    read, gave = split(given.detach(), heads), split(weights.detach(), heads)
    batch = read.shape[:2].numel()
    if q is None or k is None or not q.shape[:-2].numel() == batch == k.shape[:-2].numel():
        return SoftmaxCall(read, gave, factor=factor)
    q, k = (x.detach().reshape(*read.shape[:2], *x.shape[-2:]) for x in (q, k))
    return SoftmaxCall(read, gave, q, k, factor)


def split(x: Tensor, heads: int) -> Shaped[Tensor, "B H l m"]:
    """Four axes: of three, the first is the batch, or batch times heads where a module says how many heads it has."""
    if x.ndim == 3:
        return x.unflatten(0, (-1, heads)) if heads > 1 and x.shape[0] % heads == 0 else x.unsqueeze(1)
    return x.flatten(0, -4) if x.ndim > 4 else x.reshape(-1, *((1,) * (3 - x.ndim)), *x.shape[-3:])


def of_encoder_layer(
    x: Tensor, width: int, heads: int, weight: Tensor, bias: Tensor, _out: Any, _out_bias: Any, _gelu: Any,
    norm_first: bool, eps: float, norm_weight: Tensor, norm_bias: Tensor, *rest: Any,
) -> KernelCall | None:  # fmt: skip
    """Torch's whole encoder layer in one function: its attention is what its input and its weights say."""
    padded, keep = _even(x)
    read = F.layer_norm(padded, (width,), norm_weight, norm_bias, eps) if norm_first else padded
    return _of_self_attention(read, heads, weight, bias, keep, rest[-2])


def of_native(
    x: Tensor, _key: Any, _value: Any, _width: int, heads: int, weight: Tensor, bias: Tensor, _out: Any,
    _out_bias: Any, mask: Tensor | None = None, *_: Any,
) -> KernelCall | None:  # fmt: skip
    """Torch's whole multi-head self-attention in one function."""
    padded, keep = _even(x)
    return _of_self_attention(padded, heads, weight, bias, keep, mask)


def _even(x: Tensor) -> tuple[Float[Tensor, "B L D"], Tensor | None]:
    """Texts of several lengths as rows of one, and which places are real; None: all."""
    if not x.is_nested:
        return x.detach(), None
    padded = x.detach().to_padded_tensor(0.0)
    lengths = padded.new_tensor([len(one) for one in x.unbind()])
    return padded, padded.new_ones(padded.shape[1]).cumsum(0) <= lengths[:, None]


def _of_self_attention(
    x: Float[Tensor, "B L D"], heads: int, weight: Tensor, bias: Tensor, keep: Tensor | None, mask: Tensor | None
) -> KernelCall | None:
    width = x.shape[2]
    both = F.linear(x, weight.detach()[: 2 * width], bias.detach()[: 2 * width])
    q, k = (one.unflatten(-1, (heads, -1)).transpose(1, 2) for one in both.chunk(2, -1))
    if mask is not None:
        # Of a mask that was spread over batch and heads one copy is enough; to these functions, anything but 0 hides.
        table = mask.detach() if mask.ndim == 4 else mask.detach()[:, None, None]
        for axis, stride in enumerate(table.stride()):
            table = table.narrow(axis, 0, 1) if stride == 0 else table
        keep_table = table == 0
    else:
        keep_table = None if keep is None else keep[:, None, None]
    return None if 0 in x.shape else KernelCall(q, k, keep_table)
