"""Attention by plain products on whole tensors: what the dense count is a count of.

The fast kernels hide their products from torch's counters (or skip some); here every mechanism is written with matmul
alone, so that a counter of dispatched products counts the equation and not our formula.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headway.nn.attention import Core
from headway.ops.attention import Call, record_of
from headway.ops.attention.kernels.eager import average
from headway.ops.mask.pairs import ALL


def plain_attend(call: Call) -> Float[Tensor, "B H L W"]:
    """softmax(q kᵀ) v and its kin with the matrix written out; a mechanism without a matrix by its own products."""
    record = record_of(call.spec)
    if record.products is not None:
        return record.products(call)
    return average(record.weights(call, ALL, ALL), call.v.to(call.dtype)).to(call.q.dtype)


def plain_convolution(conv: nn.Conv2d, input: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B D y x"]:
    """A grouped convolution as one product for each group, of its kernels with what they see.

    torch's counter takes the weights' gradient of g groups for g times what it is (docs/log.md).
    """
    sides = [(size + 2 * int(pad) - kernel) // stride + 1 for size, pad, kernel, stride in zip(
        input.shape[2:], conv.padding, conv.kernel_size, conv.stride, strict=True)]  # fmt: skip
    seen = F.unfold(input, conv.kernel_size, padding=conv.padding, stride=conv.stride)  # type: ignore[arg-type]
    seen = seen.unflatten(1, (conv.groups, -1))
    kernels = conv.weight.flatten(1).unflatten(0, (conv.groups, -1)).expand(len(input), -1, -1, -1)
    found = (kernels @ seen).flatten(1, 2).unflatten(2, sides)
    return found if conv.bias is None else found + conv.bias[:, None, None]


@contextmanager
def plain(model: nn.Module) -> Iterator[None]:
    """The model with every attention and every grouped convolution by plain products; afterwards as it was."""
    changed: list[nn.Module] = []
    for part in model.modules():
        if isinstance(part, Core):
            part.forward = plain_attend
            changed.append(part)
        elif isinstance(part, nn.Conv2d) and part.groups > 1:
            part.forward = partial(plain_convolution, part)
            changed.append(part)
    try:
        yield
    finally:
        for part in changed:
            del part.forward
