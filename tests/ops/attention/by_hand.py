"""Every mechanism once more, in NumPy and float64, from its equation: no torch, no code of headway's mechanisms.

What may be seen comes in as a table (the masks have tests of their own); patterns of local and spatial attention are
worked out here, pair by pair.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headway.config import Linear, Local, Spatial
from headway.ops.attention.call import Call
from headway.ops.bias import Alibi, Relative

Array = NDArray[np.float64]
FEATURES: dict[str, Callable[[Array], Array]] = {
    "elu": lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))),
    "relu": lambda x: np.maximum(x, 0),
    "exp": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
}


def attend(call: Call) -> tuple[Array, Array]:
    """(output, weights) of a call, head by head and row by row."""
    q, k, v = (x.detach().double().numpy() for x in (call.q, call.k, call.v))
    if call.spec.kind == "channel":
        return _channel(call, q, k, v)
    weights = np.zeros((*q.shape[:3], k.shape[2]))
    output = np.zeros((*q.shape[:3], v.shape[3]))
    allow, bias = _allow(call), _bias(call)
    share = q.shape[1] // k.shape[1]
    for b, h, i in np.ndindex(*q.shape[:3]):
        seen = np.flatnonzero(allow[b, h, i])
        if len(seen):
            row = _row(call, h, q[b, h, i], k[b, h // share, seen], bias[b, h, i, seen])
            weights[b, h, i, seen] = row
            output[b, h, i] = row @ v[b, h // share, seen]
    return output, weights


def _row(call: Call, head: int, q: Array, keys: Array, bias: Array) -> Array:
    """The weights of one query over the keys it may see."""
    if isinstance(call.spec, Linear):
        name = call.spec.feature
        g = FEATURES[name] if isinstance(name, str) else np.exp
        raw = g(keys) @ g(q)
        return raw / raw.sum() if raw.sum() != 0 else raw * 0
    if "vector" in call.parameters:
        vector = call.parameters["vector"].detach().double().numpy()
        scores = np.tanh(q + keys) @ vector[head % len(vector)] * (1.0 if call.scale is None else call.scale)
    else:
        scores = keys @ q * (1 / math.sqrt(len(q)) if call.scale is None else call.scale)
    if call.softcap is not None:
        scores = call.softcap * np.tanh(scores / call.softcap)
    exps = np.exp(scores + bias - (scores + bias).max())
    return exps / exps.sum()


def _channel(call: Call, q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    keep = _allow(call)[:, 0, 0]
    scale = 1 / math.sqrt(q.shape[3]) if call.scale is None else call.scale
    share, width = q.shape[1] // k.shape[1], q.shape[3]
    weights, output = np.zeros((*q.shape[:2], width, width)), np.zeros_like(q)
    for b, h, c in np.ndindex(*q.shape[:2], width):
        scores = np.array([(q[b, h, keep[b], c] * k[b, h // share, keep[b], d]).sum() for d in range(width)]) * scale
        exps = np.exp(scores - scores.max())
        weights[b, h, c] = exps / exps.sum()
        output[b, h, :, c] = (v[b, h // share] @ weights[b, h, c]) * keep[b]
    return output, weights


def _positions(call: Call) -> tuple[list[list[int]], list[list[int]]]:
    batch = len(call.q)
    return (call.pairs.query.expand(batch, -1).tolist(), call.pairs.key.expand(batch, -1).tolist())


def _allow(call: Call) -> NDArray[np.bool_]:
    shape = (*call.q.shape[:3], call.k.shape[2])
    table = np.ones(shape, dtype=bool)
    if call.mask is not None:
        table = np.broadcast_to(call.mask.at(call.pairs).numpy(), shape)
    own = _own(call)
    if own is None:
        return table
    queries, keys = _positions(call)
    pattern = [[[own(i, j) for j in keys[b]] for i in queries[b]] for b in range(shape[0])]
    return table & np.array(pattern)[:, None]


def _own(call: Call) -> Callable[[int, int], bool] | None:
    """What local and spatial attention let a query at position i see, before any mask."""
    match call.spec:
        case Local(window=window, dilation=step, selected=points, global_tokens=extra, grid=grid):
            sizes, steps = _pair(window), _pair(step)

            def local(i: int, j: int) -> bool:
                if i in points or j in points or (extra and (i < 0 or j < 0)):
                    return True
                return _near(i, j, sizes, steps, grid)

            return local
        case Spatial(window=window, grid=grid) if window is not None:
            size = _pair(window)

            def tile(p: int) -> tuple[int, int]:
                return p // grid[1] // size[0], p % grid[1] // size[1]

            return lambda i, j: tile(i) == tile(j)
        case _:
            return None


def _near(i: int, j: int, sizes: tuple[int, int], steps: tuple[int, int], grid: tuple[int, int] | None) -> bool:
    if grid is None:
        return abs(i - j) % steps[1] == 0 and abs(i - j) // steps[1] < sizes[1]
    if not (0 <= i < grid[0] * grid[1] and 0 <= j < grid[0] * grid[1]):
        return False
    far = (abs(i // grid[1] - j // grid[1]), abs(i % grid[1] - j % grid[1]))
    return all(d % step == 0 and d // step < size for d, size, step in zip(far, sizes, steps, strict=True))


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def _bias(call: Call) -> Array:
    shape = (*call.q.shape[:3], call.k.shape[2])
    queries, keys = _positions(call)
    match call.bias:
        case None:
            return np.zeros(shape)
        case Alibi(slopes):
            far = np.abs(np.array(keys)[:, None, :] - np.array(queries)[:, :, None])
            return -slopes.detach().double().numpy()[:, None, None] * far[:, None]
        case Relative(weight, _, far):
            table = weight.detach().double().numpy()
            rows = [[[_bucket(j - i, len(table), far) for j in keys[b]] for i in queries[b]] for b in range(shape[0])]
            return np.moveaxis(table[np.array(rows)], -1, 1)
        case tensor:
            return np.broadcast_to(tensor.detach().double().numpy(), shape)


def _bucket(difference: int, buckets: int, far: int) -> int:
    """Both directions: near distances one by one, the others by the logarithm."""
    side = buckets // 2
    exact, distance = side // 2, abs(difference)
    if distance >= exact:
        share = math.log(distance / exact) / math.log(far / exact)
        distance = min(exact + math.floor(share * (side - exact) + 1e-9), side - 1)
    return distance + side * (difference > 0)
