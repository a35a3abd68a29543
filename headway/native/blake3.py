"""BLAKE3 of tensors by the compiled kernels, several threads at once, and whether their numbers are finite.

The hash is cryptographic, as SHA-256 is, and a tree: threads take parts, and a vector has a chunk of 1024 bytes in each
lane. Where there is no kernel, NumPy computes the same.
"""

import ctypes
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headway.native.build import library

_P, _I, _L = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_PART = 2**22  # bytes that a thread takes at a time: a subtree, hence a power of 2
_KINDS = {torch.float64: 1, torch.float32: 2, torch.bfloat16: 3, torch.float16: 4}


class _Part(ctypes.Structure):
    _fields_ = [
        *(("data", _P), ("bytes", _L), ("first_chunk", _L)),
        *((name, _I) for name in ("kind", "root", "hashed", "finite")),
        ("hash", ctypes.c_uint8 * 32),
    ]


@dataclass(frozen=True)
class TensorScan:
    """What was found of one tensor: its hash, where one was asked for, and whether all its numbers are finite."""

    hash: str
    finite: bool


class Scan:
    """One pass over the bytes of tensors, each of which lies in one piece on the CPU.

    It starts in a thread of its own, without Python's lock; `results` takes part in the rest and waits for it. Whoever
    does not want the results calls `stop`.

    >>> Scan({"x": torch.tensor([1.0, float("inf")])}).results()["x"].finite
    False
    """

    def __init__(self, tensors: Mapping[str, Tensor], *, hashed: bool = True) -> None:
        self._tensors, self._hashed, self._kernels = dict(tensors), hashed, library()
        if self._kernels is None:
            return
        counts = [max(1, -(-x.nbytes // _PART)) for x in self._tensors.values()]
        self._parts = (_Part * sum(counts))()
        self._stage = (_L * 2)()
        self._first: dict[str, tuple[int, int]] = {}
        place = 0
        for (name, x), count in zip(self._tensors.items(), counts, strict=True):
            assert x.is_cpu and x.is_contiguous()
            start, kind = x.data_ptr(), _KINDS.get(x.dtype, 0)
            for i in range(count):
                size = min(_PART, x.nbytes - i * _PART)
                self._parts[place + i] = _Part(start + i * _PART, size, i * _PART // 1024, kind, count == 1, hashed)
            self._first[name] = place, count
            place += count
        self._thread = threading.Thread(target=self._work)  # no daemon: the system would end it in the middle at exit
        self._thread.start()

    def _work(self) -> None:
        assert self._kernels is not None
        self._kernels.headway_hash_parts(self._parts, _L(len(self._parts)), self._stage)

    def results(self) -> dict[str, TensorScan]:
        if self._kernels is None:
            return {
                name: TensorScan(blake3(x) if self._hashed else "", _is_finite(x)) for name, x in self._tensors.items()
            }
        self._work()
        self._thread.join()
        return {name: self._result(*place) for name, place in self._first.items()}

    def stop(self) -> None:
        """Leave what has not been begun; without effect after `results`."""
        if self._kernels is not None:
            self._stage[0] = self._stage[1] = 2**62  # as if all were claimed, and done
            self._thread.join()

    def _result(self, place: int, count: int) -> TensorScan:
        assert self._kernels is not None
        parts = self._parts[place : place + count]
        finite = all(part.finite for part in parts)
        if not self._hashed:
            return TensorScan("", finite)
        hashes = (ctypes.c_uint8 * (32 * count)).from_buffer_copy(b"".join(bytes(part.hash) for part in parts))
        if count > 1:
            self._kernels.headway_join_hashes(hashes, _L(count))
        return TensorScan(bytes(hashes[:32]).hex(), finite)


def _is_finite(x: Tensor) -> bool:
    """One pass without a copy: NaN is the least and the largest of all."""
    if not x.is_floating_point() or not x.numel():
        return True
    return all(bool(bound.isfinite()) for bound in torch.aminmax(x))


_IV = np.array(
    [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19], dtype=np.uint32
)
_ORDER = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
_COLUMNS = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
_DIAGONALS = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
_START, _END, _PARENT, _ROOT = 1, 2, 4, 8


def blake3(x: Tensor) -> str:
    """The hash of a tensor's bytes by NumPy: some hundred megabytes a second.

    >>> blake3(torch.tensor([], dtype=torch.uint8))[:16]
    'af1349b9f5f9a1a6'
    """
    data = x.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    chunks = max(1, -(-data.size // 1024))
    padded = np.zeros(chunks * 1024, np.uint8)
    padded[: data.size] = data
    blocks = padded.view("<u4").reshape(chunks, 16, 16)
    last = data.size - 1024 * (chunks - 1)  # bytes of the last chunk
    needed = max(1, -(-last // 64))  # its blocks
    hashes, number = np.tile(_IV, (chunks, 1)), np.arange(chunks, dtype=np.uint64)
    for i in range(16):
        real = slice(None) if i < needed else slice(chunks - 1)
        flags, lengths = (
            np.full(chunks, _START * (i == 0) + _END * (i == 15), np.uint32),
            np.full(chunks, 64, np.uint32),
        )
        if i == needed - 1:
            lengths[-1], flags[-1] = last - 64 * i, _START * (i == 0) + _END + (_ROOT if chunks == 1 else 0)
        given = (hashes[real], blocks[real, i], number[real], lengths[real], flags[real])
        hashes[real] = _compress(*given)
    while len(hashes) > 1:
        pairs = len(hashes) // 2
        flags = np.full(pairs, _PARENT + (_ROOT if len(hashes) == 2 else 0), np.uint32)
        words, zero = hashes[: 2 * pairs].reshape(pairs, 16), np.zeros(pairs, np.uint64)
        made = _compress(np.tile(_IV, (pairs, 1)), words, zero, np.full(pairs, 64, np.uint32), flags)
        hashes = np.concatenate([made, hashes[2 * pairs :]])
    return hashes[0].astype("<u4").tobytes().hex()


def _compress(
    h: np.ndarray, words: np.ndarray, number: np.ndarray, length: np.ndarray, flags: np.ndarray
) -> np.ndarray:
    """One block of every row into its hash."""
    counts = ((number & 0xFFFFFFFF).astype(np.uint32), (number >> np.uint64(32)).astype(np.uint32))
    s = [*h.T.copy(), *(np.full(len(h), iv) for iv in _IV[:4]), *counts, length, flags]
    m = list(words.T.copy())
    for _ in range(7):
        for i, (a, b, c, d) in enumerate(_COLUMNS + _DIAGONALS):
            for x, (first, second) in zip(m[2 * i : 2 * i + 2], ((16, 12), (8, 7)), strict=True):
                s[a] = s[a] + s[b] + x
                s[d] = _turned(s[d] ^ s[a], first)
                s[c] = s[c] + s[d]
                s[b] = _turned(s[b] ^ s[c], second)
        m = [m[i] for i in _ORDER]
    return np.stack([s[i] ^ s[i + 8] for i in range(8)], axis=1)


def _turned(x: np.ndarray, bits: int) -> np.ndarray:
    return (x >> np.uint32(bits)) | (x << np.uint32(32 - bits))
