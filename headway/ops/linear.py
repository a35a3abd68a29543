"""x Wᵀ + b where torch is slower than it need be: few rows, many rows, and half precision without a unit for it.

A product of few rows, as in decoding, is bound by reading W, so every core has to read a part of it. torch gives a
product of one row to a single core, and one of a few rows to a kernel that copies W first. Cut into a batch of products
with the rows of W shared out, the same memory is read at one and a half to twice the rate (docs/log.md).

A product of many rows in float32 goes through oneDNN where the processor has AVX-512: torch gives it to MKL, which is
10 to 20 % slower there, and faster on processors without AVX-512. So does one of few rows with a large W (docs/log.md).
"""

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headway.ops.values import operations_are_followed
from headway.sizes import Cost, Number, Operation
from headway.steps import WIDTH, Each, Product

FEW = 128  # rows of x: with more, torch's own product is as fast
MANY = 16  # rows of x: with more, half precision goes by way of float32 where the processor has no unit for it
SHARE = 192  # rows of W in a part, about; fewer cost more in calls than they gain
LARGE = 2**26  # multiply-adds: below, the call of a function of ours costs what oneDNN gains
MEDIUM = 2**22  # multiply-adds of few rows without gradients: from here on oneDNN is faster than the parts


def linear(
    x: Float[Tensor, "*b I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None = None
) -> Float[Tensor, "*b O"]:
    """torch's `F.linear`, by parts where that is faster and gradients are switched off.

    >>> linear(torch.ones(1, 2), torch.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 7.0]]
    """
    rows = x.numel() // weight.shape[1] if weight.shape[1] else 0
    if rows > MANY and x.dtype.itemsize < 4 and _slow_here(x) and weight.dtype == x.dtype:
        return _Wide.apply(x, weight, bias)
    # Strides are written by hand where that is possible; whatever is odd goes to torch, which takes or refuses it.
    few = (
        0 < rows <= FEW and not torch.is_grad_enabled()
        and x.shape[-1] == weight.shape[1]
        and (bias is None or (bias.dtype == x.dtype and bias.shape == weight.shape[:1] and bias.is_contiguous()))
        and x.dtype == weight.dtype and x.dtype.itemsize >= 4 and x.is_floating_point()
        and x.is_cpu and x.is_contiguous() and (weight.is_contiguous() or weight.t().is_contiguous())
    )  # fmt: skip
    if few and rows * weight.numel() >= MEDIUM and x.dtype == torch.float32 and _by_onednn(x, weight):
        return _onednn(x, weight, bias)
    count = parts(weight.shape[0]) if few else 1
    if count == 1:
        return _many_rows(x, weight, bias, rows)
    # [count, rows, I] x [count, I, O / count], every factor a view. The usual chain of views costs more than the
    # product itself where the model is small.
    outputs, inputs = weight.shape
    share = outputs // count
    repeated = x.as_strided((count, rows, inputs), (0, inputs, 1))
    across, down = weight.stride()  # of outputs and inputs; transposed where a file holds it so
    shared = weight.as_strided((count, inputs, share), (share * across, down, across))
    if bias is None:
        found = torch.bmm(repeated, shared)
    else:
        found = torch.baddbmm(bias.as_strided((count, 1, share), (share, share, 1)), repeated, shared)
    found = found if rows == 1 else found.transpose(0, 1)
    return found.reshape(*x.shape[:-1], outputs)


def linear_training(
    x: Float[Tensor, "*b I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None = None
) -> Float[Tensor, "*b O"]:
    """The same where gradients are wanted, in at least float32.

    >>> linear_training(torch.ones(1, 2), torch.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 7.0]]
    """
    return _many_rows(x, weight, bias, x.numel() // weight.shape[1] if weight.shape[1] else 0)


def _many_rows(x: Tensor, weight: Tensor, bias: Tensor | None, rows: int) -> Tensor:
    """By oneDNN where it is faster and nobody observes which operations run; by torch's own choice elsewhere."""
    large = (
        rows * weight.numel() >= LARGE and x.dtype == weight.dtype == torch.float32 and x.is_cpu
        and x.shape[-1] == weight.shape[1] and (bias is None or bias.dtype == torch.float32)
    )  # fmt: skip
    if not large or not _by_onednn(x, weight):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled():
        return _OneDNN.apply(x, weight, bias)
    return _onednn(x, weight, bias)


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    return _onednn_is_faster() and not operations_are_followed(x, weight)


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _OneDNN(torch.autograd.Function):
    """The product by oneDNN, and the gradient of x; those of the weight and the bias as torch computes them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), needs = ctx.saved_tensors, ctx.needs_input_grad
        if torch.is_grad_enabled():  # gradients of gradients are wanted, and oneDNN's product has none
            return gradients(gradient, x, weight, needs=needs)
        slope = _onednn(gradient.contiguous(), weight.t(), None) if needs[0] else None
        return slope, *gradients(gradient, x, weight, needs=(False, *needs[1:]))[1:]


@lru_cache
def _onednn_is_faster() -> bool:
    """By the instruction set and never by a measurement: a run that resumes has to take the same way again."""
    has_operation = hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return has_operation and torch.backends.cpu.get_cpu_capability() == "AVX512"


class _Wide(torch.autograd.Function):
    """Half precision by way of float32, of which nothing is kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.bias = None if bias is None else bias.dtype
        return F.linear(x.float(), weight.float(), None if bias is None else bias.float()).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return gradients(gradient, x, weight, needs=(needs[0], needs[1], ctx.bias is not None and needs[2]))


def gradients(
    gradient: Float[Tensor, "*b O"],
    x: Float[Tensor, "*b I"],
    weight: Float[Tensor, "O I"],
    *,
    needs: tuple[bool, bool, bool] = (True, True, True),
) -> tuple[Float[Tensor, "*b I"] | None, Float[Tensor, "O I"] | None, Float[Tensor, " O"] | None]:
    """Those of x, of the weight and of the bias, in the precision that products are fast in."""
    wide = torch.float32 if _slow_here(x) else x.dtype
    rows = gradient.reshape(-1, gradient.shape[-1]).to(wide)
    return (
        (rows @ weight.to(wide)).to(x.dtype).view(x.shape) if needs[0] else None,
        (rows.mT @ x.reshape(-1, x.shape[-1]).to(wide)).to(weight.dtype) if needs[1] else None,
        rows.sum(0).to(weight.dtype) if needs[2] else None,
    )


def _slow_here(x: Tensor) -> bool:
    """Whether this processor has no unit for products of this precision."""
    half = x.dtype == torch.float16 or (x.dtype == torch.bfloat16 and not native_bfloat16())
    return half and x.device.type == "cpu"


@lru_cache
def native_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 matrices itself (avx512_bf16 or AMX)."""
    from torch import cpu

    return bool(cpu._is_avx512_bf16_supported() or cpu._is_amx_tile_supported())


@lru_cache
def parts(rows: int) -> int:
    """Into how many equal parts the rows of W are cut: a divisor that leaves about SHARE rows in each.

    >>> parts(3072), parts(50257), parts(7)
    (16, 29, 1)
    """
    wanted = rows // SHARE
    divisors = [count for count in range(2, 4 * max(1, wanted)) if rows % count == 0]
    return min(divisors, key=lambda count: abs(count - wanted), default=1)


def linear_price(
    rows: Number, inputs: Number, outputs: Number, *, bias: bool, own: bool = True, first: bool = False
) -> Operation:
    """rows · inputs · outputs multiply-adds; twice that backwards, once where x needs no gradient (`first`).

    `own` False: the weight belongs to somebody else (a tied head). A bias adds one FLOP to each entry.
    """
    macs, added = rows * inputs * outputs, rows * outputs if bias else 0
    back = macs if first else 2 * macs
    weights = inputs * outputs
    return Operation(
        "product",
        Cost(macs, macs, macs, added),
        Cost(back, back, back, 2 * added),
        steps=(Product(inputs, WIDTH), *((Each(1),) if bias else ())),
        weights=weights if own else 0,
        borrowed=0 if own else weights,
        biases=outputs if bias else 0,
        shape=(1, rows, inputs, outputs),
        reads=rows * inputs,
        writes=rows * outputs,
    )


def convolution_price(
    places: Number, kernel: Number, inputs: Number, outputs: Number, *, groups: Number = 1, read: Number = 0,
    first: bool = False, bias: bool = True,
) -> Operation:  # fmt: skip
    """A product for each of `places` outputs over kernel · inputs / groups terms; `kernel` counts its cells.

    Pixels beyond the edge are multiplied as zeros: kernels of torch do, and so do its counters.
    """
    terms = kernel * inputs / groups if not isinstance(inputs, int) else kernel * inputs // groups
    macs = places * terms * outputs
    back = macs if first else 2 * macs
    return Operation(
        "convolution",
        Cost(macs, macs, macs, places * outputs if bias else 0),
        Cost(back, back, back, 2 * places * outputs if bias else 0),
        steps=(Product(terms, WIDTH), Each(1)) if bias else (Product(terms, WIDTH),),
        weights=terms * outputs,
        biases=outputs if bias else 0,
        shape=(groups, places, terms, outputs / groups if not isinstance(outputs, int) else outputs // groups),
        reads=read,
        writes=places * outputs,
    )
