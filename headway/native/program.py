"""A step program: a list of operations with their pointers, which one call runs for one token of every row.

Whoever knows a model writes it down once (`Program.embed`, `linear`, `attend`); `seal` packs the weights in the order
in which the kernels read them. Activations are float32 throughout; weights are float32, bfloat16, int8 or int4.
"""

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.native.activation import KINDS
from headway.native.build import threads

MOST_ROWS = 64
_SPARE = 12  # rows of the largest group of a kernel
_EMBED, _LINEAR, _ATTEND = range(3)
_NORMS = {"none": 0, "layer": 1, "rms": 2}
_P, _I, _L, _F = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_float


class _Embedding(ctypes.Structure):
    _fields_ = [("width", _L), ("tokens", _P), ("positions", _P), ("bfloat16", _I), ("unused", _I), ("out", _P)]


class _Linear(ctypes.Structure):
    _fields_ = [
        *((name, _I) for name in ("weight_kind", "group", "half_scales", "norm", "activation", "reuse", "check")),
        *(("unused", _I), ("inputs", _L), ("outputs", _L)),
        *((name, _P) for name in ("weight", "scale", "minimum", "bias", "norm_weight", "norm_bias")),
        *((name, _P) for name in ("in_", "factor", "residual", "out")),
        ("eps", _F),
    ]


class _Attention(ctypes.Structure):
    _fields_ = [
        *((name, _I) for name in ("heads", "groups", "key_width", "value_width")),
        *((name, _I) for name in ("rotary_width", "interleaved", "bfloat16", "layer")),
        *(("scale", _F), ("unused", _F), ("cosine", _P), ("sine", _P), ("in_", _P), ("out", _P)),
    ]


class _Any(ctypes.Union):
    _fields_ = [("embedding", _Embedding), ("linear", _Linear), ("attention", _Attention)]


class _Operation(ctypes.Structure):
    _fields_ = [("kind", _I), ("unused", _I), ("of", _Any)]


class _Step(ctypes.Structure):
    _fields_ = [
        *((name, _I) for name in ("rows", "threads", "finite", "unused")),
        *(("columns", _L), ("capacity", _L), ("tokens", _P), ("positions", _P), ("real", _P), ("real_stride", _L)),
        *((name, _P) for name in ("keys", "values", "entries", "sums")),
    ]


@dataclass(frozen=True, eq=False)
class LinearWeights:
    """The weights of one linear map.

    float32 or bfloat16 of shape [O, I]; int8 of [O, I] with scales float32 [O]; or in groups of inputs, with scales
    float32 or float16 [O, I / group]: int8 of [O, I], or uint8 of [O, I / 2], two 4-bit numbers a byte (the first in
    its lower half), which mean (number - 8) · scale, or number · scale + minimum.
    """

    weight: Tensor
    bias: Tensor | None = None
    scale: Tensor | None = None
    minimum: Tensor | None = None

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
    def served(self) -> bool:
        """Whether the kernels can read them."""
        parts = [x for x in (self.weight, self.bias, self.scale, self.minimum) if x is not None]
        if not all(x.is_cpu and x.is_contiguous() and x.numel() and not x.is_inference() for x in parts):
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


@dataclass(frozen=True, eq=False)
class RowNorm:
    """What is done to rows before a linear map: kind none, layer or rms."""

    kind: str = "none"
    weight: Tensor | None = None
    bias: Tensor | None = None
    eps: float = 0.0


@dataclass(frozen=True, eq=False)
class Heads:
    """The sizes of an attention layer, and the rotation of each position, if any."""

    heads: int
    groups: int
    key_width: int
    value_width: int
    scale: float
    cosine: Tensor | None = None  # [positions, pairs]
    sine: Tensor | None = None
    interleaved: bool = False


@dataclass(frozen=True, eq=False)
class Caches:
    """Keys and values of every layer, [rows, groups, capacity, width]; `columns` of them are filled.

    `real`: which columns are tokens, [rows, capacity]; None where all are.
    """

    keys: Sequence[Tensor]
    values: Sequence[Tensor]
    columns: int
    real: Tensor | None = None


class Program:
    """Operations over buffers of float32; the last one is a linear map, and gives the result."""

    def __init__(self, kernels: ctypes.CDLL) -> None:
        self._kernels, self._lock = kernels, threading.Lock()
        self._operations: list[_Operation] = []
        self._weights: dict[int, LinearWeights] = {}
        self._alive: list[Tensor] = []  # whatever a pointer points to
        self._layers = 0
        self.nbytes = 0

    def buffer(self, width: int) -> Tensor:
        """Rows of this width."""
        return self._keep(torch.zeros(MOST_ROWS, width))

    def embed(self, tokens: Tensor, positions: Tensor | None, out: Tensor) -> None:
        """out = tokens[t] + positions[p]."""
        found = _Operation(kind=_EMBED)
        found.of.embedding = _Embedding(
            width=tokens.shape[1], tokens=self._pointer(tokens), positions=self._pointer(positions),
            bfloat16=tokens.dtype == torch.bfloat16, out=self._pointer(out),
        )  # fmt: skip
        self._operations.append(found)

    def linear(
        self,
        weights: LinearWeights,
        x: Tensor,
        out: Tensor | None,
        *,
        norm: RowNorm | None = None,
        activation: str = "none",
        factor: Tensor | None = None,
        residual: Tensor | None = None,
        reuse: bool = False,
        check: bool = False,
    ) -> None:
        """out = residual + factor · activation(norm(x) Wᵀ + b).

        `reuse`: x and its norm are those of the linear map before, of the same kind of weights. `check`: a step whose
        rows are not finite here says so.
        """
        norm = norm or RowNorm()
        found = _Operation(kind=_LINEAR)
        found.of.linear = _Linear(
            weight_kind=weights.kind, group=weights.group, norm=_NORMS[norm.kind], activation=KINDS[activation],
            half_scales=weights.scale is not None and weights.scale.dtype == torch.float16,
            reuse=reuse, check=check, inputs=weights.inputs, outputs=weights.weight.shape[0],
            bias=self._float(weights.bias), norm_weight=self._float(norm.weight), norm_bias=self._float(norm.bias),
            in_=self._pointer(x), factor=self._pointer(factor), residual=self._pointer(residual),
            out=self._pointer(out), eps=norm.eps,
        )  # fmt: skip
        self._weights[len(self._operations)] = weights
        self._operations.append(found)

    def attend(self, heads: Heads, qkv: Tensor, out: Tensor, *, stored: torch.dtype) -> None:
        """out = the heads of qkv's rows over the next layer's cache, which takes in their keys and values."""
        found = _Operation(kind=_ATTEND)
        found.of.attention = _Attention(
            heads=heads.heads, groups=heads.groups, key_width=heads.key_width, value_width=heads.value_width,
            rotary_width=0 if heads.cosine is None else 2 * heads.cosine.shape[1], interleaved=heads.interleaved,
            bfloat16=stored == torch.bfloat16, layer=self._layers, scale=heads.scale,
            cosine=self._float(heads.cosine), sine=self._float(heads.sine),
            in_=self._pointer(qkv), out=self._pointer(out),
        )  # fmt: skip
        self._layers += 1
        self._operations.append(found)

    def seal(self) -> None:
        """Pack the weights; afterwards the program can run, and the tensors they came from are no longer read."""
        made = (_Operation * len(self._operations))(*self._operations)
        sizes = {place: self._sizes(made[place].of.linear, weights) for place, weights in self._weights.items()}
        self.nbytes = sum(_aligned(size) for row in sizes.values() for size in row)
        arena = self._keep(torch.empty(self.nbytes + (1 << 21), dtype=torch.uint8))
        at = (arena.data_ptr() + (1 << 21) - 1) >> 21 << 21  # pages of 2 MB begin at multiples of it
        self._kernels.headway_large_pages(_P(at), _L(self.nbytes))
        for place, weights in self._weights.items():
            self._pack(made[place].of.linear, weights, at, sizes[place])
            at += sum(map(_aligned, sizes[place]))
        self._made, self._weights = made, {}
        rows, widest = MOST_ROWS + _SPARE, max(made[place].of.linear.inputs for place in sizes)
        # Entries in fours; three sums for each block of at least four inputs, and a step.
        self._room = [self._keep(torch.zeros(rows, width)) for width in (widest + 3, widest // 4 * 3 + 4)]

    def _sizes(self, op: _Linear, weights: LinearWeights) -> tuple[int, int, int]:
        """Bytes of the packed weight, of its scales and of its minima."""
        found = (_L * 2)()
        self._kernels.headway_packed_sizes(ctypes.byref(op), found)
        parts = (weights.scale, weights.minimum)
        return found[0], *(0 if part is None else found[1] * part.dtype.itemsize for part in parts)  # pyright: ignore[reportReturnType]

    def _pack(self, op: _Linear, weights: LinearWeights, at: int, sizes: Sequence[int]) -> None:
        op.weight = at
        self._kernels.headway_pack_weight(ctypes.byref(op), _P(weights.weight.data_ptr()), _P(at), threads())
        for name, part, before in (("scale", weights.scale, 1), ("minimum", weights.minimum, 2)):
            if part is not None:
                place = at + sum(map(_aligned, sizes[:before]))
                setattr(op, name, place)
                self._kernels.headway_pack_scales(ctypes.byref(op), _P(part.data_ptr()), _P(place))

    def run(self, tokens: Tensor, positions: Tensor, caches: Caches) -> Tensor | None:
        """The result for one token of every row, whose keys and values are then in column `columns` of the caches.

        None where something that was checked is not finite; the caches' other columns are as before.
        """
        rows = len(tokens)
        assert rows <= MOST_ROWS and len(caches.keys) == self._layers
        tokens, positions = tokens.to(torch.long).contiguous(), positions.to(torch.long).contiguous()
        last = self._made[-1].of.linear
        out = torch.empty(rows, last.outputs)
        pointers = (_P * self._layers)(*(x.data_ptr() for x in caches.keys))
        values = (_P * self._layers)(*(x.data_ptr() for x in caches.values))
        entries, sums = (x.data_ptr() for x in self._room)
        step = _Step(
            rows=rows, threads=threads(), columns=caches.columns,
            capacity=caches.keys[0].shape[2] if self._layers else 0,
            tokens=tokens.data_ptr(), positions=positions.data_ptr(),
            real=None if caches.real is None else caches.real.data_ptr(),
            real_stride=0 if caches.real is None else caches.real.stride(0),
            keys=ctypes.cast(pointers, _P), values=ctypes.cast(values, _P),
            entries=entries, sums=sums,
        )  # fmt: skip
        with self._lock:  # the buffers serve one call at a time
            last.out = out.data_ptr()
            finite = self._kernels.headway_step(self._made, _L(len(self._made)), ctypes.byref(step))
        return out if finite else None

    def _keep(self, x: Tensor) -> Tensor:
        self._alive.append(x)
        return x

    def _pointer(self, x: Tensor | None) -> int | None:
        return None if x is None else self._keep(x).data_ptr()

    def _float(self, x: Tensor | None) -> int | None:
        """A small vector in float32: itself, or a copy."""
        return None if x is None else self._pointer(x.detach().float().contiguous())


def _aligned(size: int) -> int:
    return (size + 63) // 64 * 64


def check_layout(kernels: ctypes.CDLL) -> None:
    """The structures here are those of the source."""
    found = (_I * 4)()
    kernels.headway_sizes(found)
    assert (ctypes.sizeof(_Operation), ctypes.sizeof(_Step)) == (found[0], found[1])
