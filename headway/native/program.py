"""A step program: a list of operations with their pointers, which one call runs for one token of every row.

Whoever knows a model writes it down once (`Program.embed`, `linear`, `normalise`, `attend`). Weights are packed in the
order in which the kernels read them; floats after `FIRST_STEPS` steps, before which they are read where they lie, with
the same result. Activations are float32 throughout; weights are float32, bfloat16, int8 or int4.
"""

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.native.activation import KINDS
from headway.native.build import threads
from headway.native.linear import Arena, LinearOperation, LinearWeights, PackedLinear, room_widths

MOST_ROWS = 64
FIRST_STEPS = 32  # one without packed weights takes two to three times as long; packing, as 60 packed ones
_SPARE = 12  # rows of the largest group of a kernel
_EMBED, _LINEAR, _ATTEND, _NORMALISE = range(4)
_NORMS = {"none": 0, "layer": 1, "rms": 2}
_P, _I, _L, _F = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_float


class _Embedding(ctypes.Structure):
    _fields_ = [("width", _L), ("tokens", _P), ("positions", _P), ("bfloat16", _I), ("scale", _F), ("out", _P)]


class _Attention(ctypes.Structure):
    _fields_ = [
        *((name, _I) for name in ("heads", "groups", "key_width", "value_width")),
        *((name, _I) for name in ("rotary_width", "interleaved", "bfloat16", "layer")),
        *(("scale", _F), ("source", _I), ("cosine", _P), ("sine", _P), ("in_", _P), ("out", _P)),
    ]


class _Any(ctypes.Union):
    _fields_ = [("embedding", _Embedding), ("linear", LinearOperation), ("attention", _Attention)]


class _Operation(ctypes.Structure):
    _fields_ = [("kind", _I), ("unused", _I), ("of", _Any)]


class _Step(ctypes.Structure):
    _fields_ = [
        *((name, _I) for name in ("rows", "threads", "finite", "unused")),
        *(("columns", _L), ("capacity", _L), ("tokens", _P), ("positions", _P), ("real", _P), ("real_stride", _L)),
        *((name, _P) for name in ("keys", "values")),
        *(("source_columns", _L), ("source_capacity", _L), ("source_real", _P), ("source_real_stride", _L)),
        *((name, _P) for name in ("source_keys", "source_values", "entries", "sums")),
    ]


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

    def fields(self, prefix: str = "") -> dict[str, Any]:
        """Those of a step, whose names begin so; the arrays of pointers live as long as what is returned."""
        found: dict[str, Any] = {"columns": self.columns, "capacity": self.keys[0].shape[2] if self.keys else 0}
        for name, parts in (("keys", self.keys), ("values", self.values)):
            found[name] = ctypes.cast((_P * len(parts))(*(x.data_ptr() for x in parts)), _P)
        if self.real is not None:
            found |= {"real": self.real.data_ptr(), "real_stride": self.real.stride(0)}
        return {prefix + name: value for name, value in found.items()}


class Program:
    """Operations over buffers of float32; the last one is a linear map, and gives the result."""

    def __init__(self, kernels: ctypes.CDLL) -> None:
        self._kernels, self._lock = kernels, threading.Lock()
        self._operations: list[_Operation] = []
        self._weights: dict[int, LinearWeights] = {}
        self._alive: list[Tensor] = []  # whatever a pointer points to
        self._packed: list[PackedLinear] = []
        self._layers = self._crossings = self._steps = 0
        self.nbytes = 0

    def buffer(self, width: int) -> Tensor:
        """Rows of this width."""
        return self._keep(torch.zeros(MOST_ROWS, width))

    def embed(self, tokens: Tensor, positions: Tensor | None, out: Tensor, *, scale: float = 1.0) -> None:
        """out = scale · tokens[t] + positions[p]."""
        found = _Operation(kind=_EMBED)
        found.of.embedding = _Embedding(
            width=tokens.shape[1], tokens=self._pointer(tokens), positions=self._pointer(positions),
            bfloat16=tokens.dtype == torch.bfloat16, scale=scale, out=self._pointer(out),
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
        found.of.linear = LinearOperation(
            **weights.layout, norm=_NORMS[norm.kind], activation=KINDS[activation], reuse=reuse, check=check,
            bias=self._float(weights.bias), norm_weight=self._float(norm.weight), norm_bias=self._float(norm.bias),
            in_=self._pointer(x), factor=self._pointer(factor), residual=self._pointer(residual),
            out=self._pointer(out), eps=norm.eps,
        )  # fmt: skip
        self._weights[len(self._operations)] = weights
        self._operations.append(found)

    def normalise(self, norm: RowNorm, x: Tensor) -> None:
        """x = norm(x)."""
        found = _Operation(kind=_NORMALISE)
        found.of.linear = LinearOperation(
            norm=_NORMS[norm.kind], inputs=x.shape[1], norm_weight=self._float(norm.weight),
            norm_bias=self._float(norm.bias), in_=self._pointer(x), out=self._pointer(x), eps=norm.eps,
        )  # fmt: skip
        self._operations.append(found)

    def attend(self, heads: Heads, qkv: Tensor, out: Tensor, *, stored: torch.dtype, source: bool = False) -> None:
        """out = the heads of qkv's rows over the next layer's cache, which takes in their keys and values.

        `source`: over what the next layer keeps of a source; there are queries alone.
        """
        found = _Operation(kind=_ATTEND)
        found.of.attention = _Attention(
            heads=heads.heads, groups=heads.groups, key_width=heads.key_width, value_width=heads.value_width,
            rotary_width=0 if heads.cosine is None else 2 * heads.cosine.shape[1], interleaved=heads.interleaved,
            bfloat16=stored == torch.bfloat16, layer=self._crossings if source else self._layers,
            scale=heads.scale, source=source,
            cosine=self._float(heads.cosine), sine=self._float(heads.sine),
            in_=self._pointer(qkv), out=self._pointer(out),
        )  # fmt: skip
        self._layers, self._crossings = self._layers + (not source), self._crossings + source
        self._operations.append(found)

    def seal(self) -> None:
        """Afterwards the program can run."""
        self._made = (_Operation * len(self._operations))(*self._operations)
        rows, widest = MOST_ROWS + _SPARE, max(weights.inputs for weights in self._weights.values())
        self._room = [self._keep(torch.zeros(rows, width)) for width in room_widths(widest)]
        readable = {place: weights for place, weights in self._weights.items() if weights.readable}
        for place, weights in readable.items():
            op = self._made[place].of.linear
            op.stored, op.weight = True, weights.weight.data_ptr()
        self._pack({place: weights for place, weights in self._weights.items() if place not in readable})
        self._weights = readable

    def _pack(self, weights: dict[int, LinearWeights]) -> None:
        """These maps are read packed from here on, and the tensors that they came from no longer."""
        own = [one for one in weights.values() if one.packed is None]
        arena = Arena(self._kernels, [one.sizes(self._kernels) for one in own])
        for place, one in weights.items():
            packed = one.packed or PackedLinear(self._kernels, one, arena)
            packed.lend(self._made[place].of.linear)
            self._packed.append(packed)
        self.nbytes = sum(packed.nbytes for packed in self._packed)

    def run(self, tokens: Tensor, positions: Tensor, caches: Caches, source: Caches | None = None) -> Tensor | None:
        """The result for one token of every row, whose keys and values are then in column `columns` of the caches.

        `source`: keys and values of what the rows attend to, which stay as they are. None where something
        that was checked is not finite; the caches' other columns are as before.
        """
        rows = len(tokens)
        assert rows <= MOST_ROWS and len(caches.keys) == self._layers
        assert self._crossings == (0 if source is None else len(source.keys))
        tokens, positions = tokens.to(torch.long).contiguous(), positions.to(torch.long).contiguous()
        last = self._made[-1].of.linear
        out = torch.empty(rows, last.outputs)
        entries, sums = (x.data_ptr() for x in self._room)
        step = _Step(
            rows=rows, threads=threads(), tokens=tokens.data_ptr(), positions=positions.data_ptr(),
            entries=entries, sums=sums,
        )  # fmt: skip
        held = caches.fields() | ({} if source is None else source.fields("source_"))
        for name, value in held.items():
            setattr(step, name, value)
        with self._lock:  # the buffers serve one call at a time
            last.out = out.data_ptr()
            if self._weights and self._steps >= FIRST_STEPS:
                self._pack(self._weights)
                self._weights = {}
            self._steps += 1
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


def check_layout(kernels: ctypes.CDLL) -> None:
    """The structures here are those of the source."""
    found = (_I * 4)()
    kernels.headway_sizes(found)
    assert (ctypes.sizeof(_Operation), ctypes.sizeof(_Step)) == (found[0], found[1])
