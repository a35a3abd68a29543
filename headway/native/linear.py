"""Weights of linear maps packed for the kernels, and the product of many rows with weights of 8 and 4 bits.

A product of whole numbers (AVX-512 VNNI) has exact sums: a row's result does not depend on how many rows there are, and
is the same here and in a step program.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor

from headway.native.build import threads

_TOGETHER = 256  # rows whose digits are in memory at the same time
_PAGE = 1 << 21
_P, _I, _L, _F = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_float


class LinearOperation(ctypes.Structure):
    """One linear map as the source has it."""

    _fields_ = [
        *((name, _I) for name in ("weight_kind", "group", "half_scales", "norm", "activation", "reuse", "check")),
        *(("turned", _I), ("stored", _I), ("unused", _I), ("inputs", _L), ("outputs", _L)),
        *((name, _P) for name in ("weight", "scale", "minimum", "bias", "norm_weight", "norm_bias")),
        *((name, _P) for name in ("in_", "factor", "residual", "out")),
        ("eps", _F),
    ]


@dataclass(frozen=True, eq=False)
class LinearWeights:
    """The weights of one linear map.

    float32 or bfloat16 of shape [O, I], which may be the transpose of what lies in memory; int8 of [O, I] with scales
    float32 [O]; or in groups of inputs, with scales float32 or float16 [O, I / group]: int8 of [O, I], or uint8 of
    [O, I / 2], two 4-bit numbers a byte (the first in its lower half), which mean (number - 8) · scale, or
    number · scale + minimum.
    """

    weight: Tensor
    bias: Tensor | None = None
    scale: Tensor | None = None
    minimum: Tensor | None = None
    packed: "PackedLinear | None" = None  # where somebody has packed them already

    @property
    def kind(self) -> int:
        return {torch.float32: 0, torch.bfloat16: 1, torch.int8: 2, torch.uint8: 3}[self.weight.dtype]

    @property
    def inputs(self) -> int:
        return self.weight.shape[1] * (2 if self.kind == 3 else 1)

    @property
    def group(self) -> int:
        """Inputs that share a scale; 0 where a whole channel does."""
        return 0 if self.scale is None or self.scale.ndim == 1 else self.inputs // self.scale.shape[1]

    @property
    def turned(self) -> bool:
        """Whether floats lie as [I, O] in memory, as GPT-2's files have them."""
        return self.scale is None and not self.weight.is_contiguous() and self.weight.t().is_contiguous()

    @property
    def readable(self) -> bool:
        """Whether steps can read them where they lie: floats as [O, I], those of a mapped file among them."""
        return self.packed is None and self.scale is None and self.weight.is_contiguous()

    @property
    def served(self) -> bool:
        """Whether the kernels can read them."""
        parts = [x for x in (self.weight, self.bias, self.scale, self.minimum) if x is not None]
        if not all(x.is_cpu and x.numel() and not x.is_inference() for x in parts):
            return False
        if not all(x.is_contiguous() or (x is self.weight and self.turned) for x in parts):
            return False
        if self.weight.dtype in (torch.float32, torch.bfloat16):
            return self.scale is None
        if self.weight.dtype not in (torch.int8, torch.uint8) or self.scale is None:
            return False
        if self.group == 0:
            return self.weight.dtype == torch.int8 and self.minimum is None and self.scale.dtype == torch.float32
        same = self.minimum is None or (self.minimum.dtype == self.scale.dtype and self.weight.dtype == torch.uint8)
        step = 8 if self.weight.dtype == torch.uint8 else 1
        exact = self.group % step == 0 and self.scale.shape[1] * self.group == self.inputs
        return exact and same and self.scale.dtype in (torch.float32, torch.float16)

    @property
    def layout(self) -> dict[str, int]:
        """What the source has to know of them."""
        half = self.scale is not None and self.scale.dtype == torch.float16
        sizes = {"inputs": self.inputs, "outputs": self.weight.shape[0]}
        return {"weight_kind": self.kind, "group": self.group, "half_scales": half, "turned": self.turned, **sizes}

    def sizes(self, kernels: ctypes.CDLL) -> int:
        """Bytes that they take when they are packed."""
        return sum(map(_aligned, _sizes(kernels, self)))


def _sizes(kernels: ctypes.CDLL, weights: LinearWeights) -> list[int]:
    """Bytes of the packed weight, of its scales and of its minima."""
    found = (_L * 2)()
    kernels.headway_packed_sizes(ctypes.byref(LinearOperation(**weights.layout)), found)
    parts = (weights.scale, weights.minimum)
    return [found[0], *(0 if part is None else found[1] * part.dtype.itemsize for part in parts)]


def _aligned(size: int) -> int:
    return (size + 63) // 64 * 64


def room_widths(inputs: int) -> tuple[int, int]:
    """Floats that a row of so many inputs takes as the kernels read it: entries in fours; three sums for each block of
    at least four inputs, and a step."""
    return inputs + 3, inputs // 4 * 3 + 4


class Arena:
    """Memory for packed weights of these sizes, in pages of 2 MB where the system gives them."""

    def __init__(self, kernels: ctypes.CDLL, sizes: Sequence[int]) -> None:
        self._memory = torch.empty(sum(sizes) + _PAGE, dtype=torch.uint8)
        self._at = -(-self._memory.data_ptr() // _PAGE) * _PAGE
        kernels.headway_large_pages(_P(self._at), _L(sum(sizes)))

    def take(self, size: int) -> int:
        """The address of the next `size` bytes."""
        found, self._at = self._at, self._at + _aligned(size)
        return found


class PackedLinear:
    """One linear map as the kernels read it; its weights are no longer needed."""

    def __init__(self, kernels: ctypes.CDLL, weights: LinearWeights, arena: Arena | None = None) -> None:
        self._kernels, self.inputs, self._outputs = kernels, weights.inputs, weights.weight.shape[0]
        sizes = _sizes(kernels, weights)
        self.nbytes = sum(map(_aligned, sizes))
        self._arena = arena or Arena(kernels, [self.nbytes])  # kept: the addresses are in it
        self._operation = op = LinearOperation(**weights.layout)
        op.weight = self._arena.take(sizes[0])
        kernels.headway_pack_weight(ctypes.byref(op), _P(weights.weight.data_ptr()), _P(op.weight), threads())
        for name, part, size in (("scale", weights.scale, sizes[1]), ("minimum", weights.minimum, sizes[2])):
            if part is not None:
                setattr(op, name, self._arena.take(size))
                kernels.headway_pack_scales(ctypes.byref(op), _P(part.data_ptr()), _P(getattr(op, name)))
        self._bias = None if weights.bias is None else weights.bias.detach().float().contiguous()
        op.bias = None if self._bias is None else self._bias.data_ptr()

    def lend(self, operation: LinearOperation) -> None:
        """Its addresses for an operation of a program."""
        operation.stored = False
        for name in ("weight", "scale", "minimum"):
            setattr(operation, name, getattr(self._operation, name))

    def __call__(self, x: Tensor) -> Tensor:
        """x Wᵀ + b of float32 rows [B, I]; `multiplies_rows` must hold of the weights."""
        rows = len(x)
        x, out = x.contiguous(), torch.empty(rows, self._outputs)
        op = LinearOperation.from_buffer_copy(self._operation)  # a call of its own: threads may share the map
        op.in_, op.out = x.data_ptr(), out.data_ptr()
        entries, sums = (torch.empty(min(rows + 3, _TOGETHER), width) for width in room_widths(self.inputs))
        self._kernels.headway_linear_rows(
            ctypes.byref(op), _L(rows), _L(_TOGETHER), _P(entries.data_ptr()), _P(sums.data_ptr()), threads()
        )
        return out


def multiplies_rows(kernels: ctypes.CDLL | None, weights: LinearWeights) -> TypeGuard[ctypes.CDLL]:
    """Whether the kernels multiply these weights with rows as whole numbers."""
    if kernels is None or not weights.served:
        return False
    return bool(kernels.headway_multiplies_integers(ctypes.byref(LinearOperation(**weights.layout))))
