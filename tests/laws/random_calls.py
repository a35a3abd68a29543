"""Random attention calls, and each mechanism once more as dense torch in float64: no code of headway's mechanisms.

A `RandomCall` is drawn from a number. Its mask is drawn together with a table of who may see whom, which is worked out
here from positions and places. `expected` is the equation on that table, differentiable.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import Tensor

from headway.ops.mask import (
    Mask,
    allowed,
    blocked,
    causal,
    dilated,
    everything,
    padding,
    segments,
    selected,
    tiles,
    window,
)

DTYPES = [torch.float64, torch.float64, torch.float32, torch.bfloat16, torch.float16]
NAN, INF = float("nan"), float("inf")


@dataclass
class RandomCall:
    """The arguments of a call, who may see whom (`B H L M`), and what the equation needs to know besides."""

    mechanism: str
    q: Tensor
    k: Tensor
    v: Tensor
    options: dict[str, Any]
    table: Tensor
    spoilt: Tensor = field(default_factory=lambda: torch.zeros(0))  # B G M: keys that hold NaN or inf

    @property
    def lost(self) -> tuple[Tensor, Tensor]:
        """Rows that see a spoilt key, `B H L`, and keys that such a row sees, `B G M`: of these nothing is expected."""
        batch, heads, queries, keys = self.table.shape
        grouped = self.table.view(batch, self.k.shape[1], heads // self.k.shape[1], queries, keys)
        rows = (grouped & self.spoilt[:, :, None, None]).any(-1, keepdim=True)
        return rows.view(batch, heads, queries), (grouped & rows).any(3).any(2)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Everything that a gradient is asked of."""
        more = {name: value for name, value in self.options.items() if name in ("bias", "vector")}
        return {"q": self.q, "k": self.k, "v": self.v, **more}


@dataclass(frozen=True)
class Sizes:
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    width: int
    values: int


def draw(number: int) -> RandomCall:
    """The call of a number; one mechanism after the other."""
    chance, generator = Random(f"call {number}"), torch.Generator().manual_seed(number)
    name = list(EXPECTED)[number % len(EXPECTED)]
    dtype, grid = chance.choice(DTYPES), (chance.choice([1, 2, 3]), chance.choice([2, 3, 5]))
    sizes = _sizes(chance, name, grid)
    query, key, options = _positions(chance, sizes, name, grid)
    mask, table = _mask(chance, generator, sizes, name, query, key)
    options |= {} if mask is None and chance.random() < 0.5 else {"mask": mask}
    own, table = _own_options(chance, name, grid, query, key, table)
    options |= own
    loud, faint = chance.choice([0.0, 0.0, 0.0, 1.0, 2.0]), chance.choice([0.0, 0.0, 0.0, -3.0, -18.0])
    power = 0.0 if dtype in (torch.float16, torch.bfloat16) or name == "linear" else loud + faint
    q = _tensor(chance, generator, dtype, 10**power, (sizes.batch, sizes.heads, sizes.queries, sizes.width))
    k = _tensor(chance, generator, dtype, 10**loud, (sizes.batch, sizes.kv_heads, sizes.keys, sizes.width))
    v = _tensor(chance, generator, dtype, 10**faint, (sizes.batch, sizes.kv_heads, sizes.keys, sizes.values))
    made = RandomCall(name, q, k, v, options, table)
    _modify(chance, generator, made, sizes)
    _spoil(chance, made, sizes)
    return made


def _sizes(chance: Random, name: str, grid: tuple[int, int]) -> Sizes:
    kv_heads, share = chance.choice([1, 1, 2, 3]), chance.choice([1, 1, 2, 3])
    queries, keys = chance.choice([1, 2, 5, 7, 11, 17]), chance.choice([1, 2, 3, 7, 13, 19])
    keys = queries if chance.random() < 0.5 or name in ("linear", "channel") else keys
    if name == "spatial":
        queries = keys = grid[0] * grid[1]
    width, values = chance.choice([1, 2, 3, 5, 8, 16]), chance.choice([1, 2, 7, 8])
    batch = chance.choice([1, 2, 3])
    if chance.random() < 0.06 and name != "spatial":  # an axis of nothing
        which = chance.choice(["batch", "queries", "keys", "values"])
        batch, values = (0 if which == "batch" else batch), (0 if which == "values" else values)
        both = name in ("linear", "channel") and which in ("queries", "keys")
        queries = 0 if which == "queries" or both else queries
        keys = 0 if which == "keys" or both else keys
    width = max(1, values) if name == "channel" else width
    return Sizes(batch, kv_heads * share, kv_heads, queries, keys, width, width if name == "channel" else values)


def _positions(
    chance: Random, sizes: Sizes, name: str, grid: tuple[int, int]
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Where queries and keys stand, `B L` and `B M`; and what the call is told of it."""
    counted = sizes.queries == sizes.keys and (chance.random() < 0.5 or name in ("spatial", "channel", "linear"))
    if counted:
        query = torch.arange(sizes.queries).expand(sizes.batch, -1)
        return query, query, {}
    low, high = chance.choice([(0, 30), (-4, 25)])
    rows = sizes.batch if chance.random() < 0.4 and sizes.batch else 1

    def some(count: int) -> Tensor:
        found = [chance.sample(range(low, high), count) for _ in range(rows)]
        found = [sorted(one) for one in found] if chance.random() < 0.7 else found
        return torch.tensor(found, dtype=torch.long).reshape(rows, count)

    query, key = some(sizes.queries), some(sizes.keys)
    told = {"query_positions": query if rows > 1 else query[0], "key_positions": key if rows > 1 else key[0]}
    return query.expand(sizes.batch, -1), key.expand(sizes.batch, -1), told


def _mask(
    chance: Random, generator: torch.Generator, sizes: Sizes, name: str, query: Tensor, key: Tensor
) -> tuple[Mask | None, Tensor]:
    """A mask that the mechanism takes, and the same as a table."""
    whole = torch.ones(sizes.batch, sizes.heads, sizes.queries, sizes.keys, dtype=torch.bool)
    if chance.random() < 0.15:
        return None, whole
    if name in ("linear", "channel"):
        made, table = _padding(chance, sizes)
        if name == "linear" and chance.random() < 0.6:
            order = (key[:, None] <= query[:, :, None])[:, None]
            both = chance.random() < 0.5
            return (causal() & made, whole & table & order) if both else (causal(), whole & order)
        return made, whole & table
    made, table = _one(chance, generator, sizes, query, key)
    for _ in range(chance.choice([0, 0, 1, 2])):
        other, also = _one(chance, generator, sizes, query, key)
        made, table = (made & other, table & also) if chance.random() < 0.6 else (made | other, table | also)
    if chance.random() < 0.1:
        made, table = ~made, ~table
    return made, whole & table


def _padding(chance: Random, sizes: Sizes) -> tuple[Mask, Tensor]:
    lengths = [chance.randrange(sizes.keys + 1) for _ in range(sizes.batch)]
    side, places = chance.choice(["left", "right"]), torch.arange(sizes.keys)
    count = torch.tensor(lengths, dtype=torch.long)[:, None]
    keep = places < count if side == "right" else places >= sizes.keys - count
    if chance.random() < 0.5 and sizes.batch:
        return padding(lengths=lengths, total=sizes.keys, side=side), keep[:, None, None]
    return (padding(keep=keep) if chance.random() < 0.5 else padding(ignore=~keep)), keep[:, None, None]


def _one(chance: Random, generator: torch.Generator, sizes: Sizes, query: Tensor, key: Tensor) -> tuple[Mask, Tensor]:
    far = (query[:, :, None] - key[:, None])[:, None]
    size, step = chance.choice([1, 2, 3, 5]), chance.choice([1, 2, 3])
    match chance.randrange(9):
        case 0:
            return everything(), torch.ones_like(far, dtype=torch.bool)
        case 1:
            return causal(), far >= 0
        case 2:
            return window(size), far.abs() < size
        case 3:
            return dilated(size, dilation=step), (far.abs() % step == 0) & (far.abs() // step < size)
        case 4:
            points = chance.sample(range(-2, 20), 3)
            known = torch.tensor(points)
            seen = torch.isin(query, known)[:, None, :, None] | torch.isin(key, known)[:, None, None]
            return selected(points), seen
        case 5:
            return _padding(chance, sizes)
        case 6:
            first, second = (torch.randint(0, 3, (sizes.batch, n), generator=generator) for n in
                             (sizes.queries, sizes.keys))  # fmt: skip
            return segments(first, second), (first[:, :, None] == second[:, None])[:, None]
        case 7:
            same = query.div(size, rounding_mode="floor")[:, :, None] == key.div(size, rounding_mode="floor")[:, None]
            return tiles(size), same[:, None]
        case _:
            heads = chance.choice([1, sizes.heads])
            table = torch.rand(sizes.batch, heads, sizes.queries, sizes.keys, generator=generator) < 0.6
            return (allowed(table) if chance.random() < 0.5 else blocked(~table)), table


def _own_options(
    chance: Random, name: str, grid: tuple[int, int], query: Tensor, key: Tensor, table: Tensor
) -> tuple[dict[str, Any], Tensor]:
    """Options of the mechanism; the table under the pattern that they imply."""
    far = (query[:, :, None] - key[:, None])[:, None].abs()
    if name == "linear":
        return {"feature": chance.choice(["elu", "relu", "exp"]), "chunk": chance.choice([1, 3, 64])}, table
    if name == "local":
        size, step, points = chance.choice([1, 2, 4]), chance.choice([1, 1, 2]), chance.choice([(), (), (0,), (2, 5)])
        outside = chance.random() < 0.3
        near = (far % step == 0) & (far // step < size)
        known = torch.tensor(points, dtype=torch.long)
        seen = torch.isin(query, known)[:, None, :, None] | torch.isin(key, known)[:, None, None]
        seen = seen | ((query < 0)[:, None, :, None] | (key < 0)[:, None, None]) if outside else seen
        return {"window": size, "dilation": step, "selected": points, "global_tokens": outside}, table & (near | seen)
    if name == "spatial":
        side = (chance.choice([1, 2, 3]), chance.choice([1, 2, 3]))
        if chance.random() < 0.4:
            return {"grid": grid}, table
        places = torch.stack([query // grid[1] // side[0], query % grid[1] // side[1]], -1)
        return {"grid": grid, "window": side}, table & (places[:, :, None] == places[:, None]).all(-1)[:, None]
    return {}, table


def _tensor(
    chance: Random, generator: torch.Generator, dtype: torch.dtype, size: float, shape: tuple[int, ...]
) -> Tensor:
    """Numbers of one size in any strides."""

    def plain(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=generator, dtype=torch.float64) * size).to(dtype)

    batch, heads, length, width = shape
    match chance.randrange(7):
        case 0:
            return plain(batch, heads, width, length).mT
        case 1:
            return plain(batch, length, heads, width).transpose(1, 2)
        case 2:
            return plain(batch, heads, length, 2 * width)[..., ::2]
        case 3:
            return plain(1, heads, length, width).expand(shape)
        case 4:
            return plain(batch, heads, 1, width).expand(shape)
        case 5:
            return plain(batch, heads, length + 3, width + 1)[:, :, 3:, 1:]
        case _:
            return plain(*shape)


def _modify(chance: Random, generator: torch.Generator, made: RandomCall, sizes: Sizes) -> None:
    """A scale, a cap of the scores, a bias, the vector of additive attention."""
    if made.mechanism == "additive":
        rows = chance.choice([1, sizes.heads])
        vector = torch.randn(rows, sizes.width, generator=generator, dtype=torch.float64)
        made.options["vector"] = vector.to(made.q.dtype)
    if made.mechanism != "linear" and chance.random() < 0.3:
        made.options["scale"] = chance.choice([0.1, 1.0, -0.5])
    if made.mechanism in ("linear", "channel"):
        return
    if chance.random() < 0.2:
        made.options["softcap"] = chance.choice([0.5, 5.0, 30.0])
    if chance.random() < 0.3:
        shape = [chance.choice([1, size]) for size in (sizes.batch, sizes.heads, sizes.queries, sizes.keys)]
        made.options["bias"] = torch.randn(shape, generator=generator, dtype=torch.float64).to(made.q.dtype)


def _spoil(chance: Random, made: RandomCall, sizes: Sizes) -> None:
    """NaN and inf in keys that no query sees, or that some see; the equation is asked without them."""
    seen = (
        made.table.reshape(sizes.batch, sizes.kv_heads, sizes.heads // sizes.kv_heads, sizes.queries, sizes.keys)
        .any(3)
        .any(2)
    )
    made.spoilt = torch.zeros_like(seen)
    if chance.random() < 0.5 and made.k.numel() and made.v.numel():
        made.spoilt = ~seen
        if made.mechanism != "channel" and chance.random() < 0.3:  # or one that some rows see
            made.spoilt[:, :, chance.randrange(sizes.keys)] = True
        for name in ("k", "v"):
            value = chance.choice([NAN, INF, -INF, torch.finfo(made.q.dtype).max])
            setattr(made, name, getattr(made, name).masked_fill(made.spoilt[..., None], value))
        if made.mechanism == "channel":  # there a position is padded as a query, too
            gone = made.spoilt.repeat_interleave(sizes.heads // sizes.kv_heads, 1)
            made.q = made.q.masked_fill(gone[..., None], NAN)


def expected(made: RandomCall, tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """(output, weights, largest score) of the equation, with these tensors in place of the call's own."""
    share = made.q.shape[1] // made.k.shape[1]
    q, k, v = tensors["q"], *(tensors[name].masked_fill(made.spoilt[..., None], 0) for name in ("k", "v"))
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    return EXPECTED[made.mechanism](made, q, k, v, tensors)


Equation = Callable[[RandomCall, Tensor, Tensor, Tensor, dict[str, Tensor]], tuple[Tensor, Tensor, Tensor]]


def _dot(
    made: RandomCall, q: Tensor, k: Tensor, v: Tensor, tensors: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    scores = torch.einsum("bhik,bhjk->bhij", q, k) * made.options.get("scale", 1 / math.sqrt(q.shape[3]))
    return _softmax(made, scores, v, tensors)


def _additive(
    made: RandomCall, q: Tensor, k: Tensor, v: Tensor, tensors: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    vector = tensors["vector"].expand(q.shape[1], -1)[None, :, None, None]
    scores = ((q[:, :, :, None] + k[:, :, None]).tanh() * vector).sum(-1) * made.options.get("scale", 1.0)
    return _softmax(made, scores, v, tensors)


def _softmax(made: RandomCall, scores: Tensor, v: Tensor, tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    largest = _largest(scores.detach()[made.table])
    if "softcap" in made.options:
        scores = made.options["softcap"] * (scores / made.options["softcap"]).tanh()
    scores = scores + tensors["bias"] if "bias" in tensors else scores
    top = scores.detach().masked_fill(~made.table, -INF).amax(-1, keepdim=True).clamp(min=-1e300) if v.shape[2] else 0.0
    weights = (scores - top).masked_fill(~made.table, -INF).exp()
    total = weights.sum(-1, keepdim=True)
    weights = weights / total.masked_fill(total == 0, 1)
    return weights @ v, weights, largest


def _linear(
    made: RandomCall, q: Tensor, k: Tensor, v: Tensor, tensors: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    g: Callable[[Tensor], Tensor] = {
        "elu": lambda x: torch.where(x > 0, x + 1, x.clamp(max=0).exp()),
        "relu": lambda x: x.clamp(min=0),
        "exp": lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
    }[made.options["feature"]]
    raw = torch.einsum("bhik,bhjk->bhij", g(q), g(k)).masked_fill(~made.table, 0)
    total = raw.sum(-1, keepdim=True)
    weights = raw / total.masked_fill(total == 0, 1)
    return weights @ v, weights, torch.zeros(())


def _channel(
    made: RandomCall, q: Tensor, k: Tensor, v: Tensor, tensors: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    keep = made.table.any(2)[..., None]  # B H M 1: of padding, every row is the same
    q, k, v = (x.masked_fill(~keep, 0) for x in (q, k, v))
    scores = torch.einsum("bhic,bhid->bhcd", q, k) * made.options.get("scale", 1 / math.sqrt(q.shape[3]))
    weights = scores.softmax(-1)
    return torch.einsum("bhcd,bhid->bhic", weights, v), weights, _largest(scores.detach())


def _largest(scores: Tensor) -> Tensor:
    return scores.abs().max() if scores.numel() else torch.zeros(())


EXPECTED: dict[str, Equation] = {
    "softmax": _dot,
    "linear": _linear,
    "local": _dot,
    "spatial": _dot,
    "channel": _channel,
    "additive": _additive,
}
