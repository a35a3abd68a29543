"""Trials: small calls, each a pure function of a mechanism's name and a whole number.

Every size is a different prime where the mechanism allows it, so that a swapped axis cannot pass; positions run,
jump, repeat or stand out of order; masks and options are drawn again until the mechanism can honour them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch
from torch import Tensor

from headway.config import Spec
from headway.ops.attention import MECHANISMS, Call, Mechanism
from headway.ops.bias import Alibi, Relative
from headway.ops.mask import (
    Mask,
    allowed,
    causal,
    dilated,
    everything,
    padding,
    segments,
    selected,
    tiles,
    window,
)  # fmt: skip
from headway.ops.mask.base import And, Not, Or
from headway.ops.mask.by_index import Given, Keep, Segments
from headway.ops.mask.pairs import ALL, Pairs, Where, take

BATCH, KEY_WIDTH, VALUE_WIDTH = 2, 7, 5
HEADS = ((3, 3), (3, 1), (6, 2))


@dataclass(frozen=True, eq=False)
class Trial:
    """One call to test a law on, and the seed that all its numbers come from."""

    seed: int
    call: Call

    @property
    def generator(self) -> torch.Generator:
        """A fresh source of the same numbers, for what a law draws itself."""
        return torch.Generator().manual_seed(1000 + self.seed)


def trials(mechanism: Mechanism | str, count: int, *, start: int = 0) -> Iterator[Trial]:
    """The trials of seeds start, start + 1, … for a mechanism by name, or for a record of your own."""
    record = MECHANISMS[mechanism] if isinstance(mechanism, str) else mechanism
    return (trial(record, seed) for seed in range(start, start + count))


def trial(mechanism: Mechanism, seed: int) -> Trial:
    """The trial of one seed.

    >>> trial(MECHANISMS["channel"], 3).call.q.shape
    torch.Size([2, 3, 11, 7])
    """
    random = Random(f"{mechanism.name} {seed}")
    generator = torch.Generator().manual_seed(random.getrandbits(40))
    spec = mechanism.spec(**mechanism.examples(random))
    call = _first(mechanism, (_tensors(mechanism, spec, random, generator, same) for same in (None, False, True)))
    call = _first(mechanism, (replace(call, mask=mask) for mask in _masks(call, random, generator)))
    return Trial(seed, _first(mechanism, _modified(call, random, generator)))


def _first(mechanism: Mechanism, calls: Iterator[Call]) -> Call:
    """The first call that the mechanism takes."""
    for call in calls:
        if accepts(mechanism, call):
            return call
    raise ValueError(f"{mechanism.name} refused every trial")


def accepts(mechanism: Mechanism, call: Call) -> bool:
    try:
        mechanism.weights(call, ALL, ALL)
    except ValueError:
        return False
    return True


def _tensors(mechanism: Mechanism, spec: Spec, random: Random, generator: torch.Generator, same: bool | None) -> Call:
    """q, k, v and positions: queries apart from keys (or drawn), widths apart unless they must be the `same`."""
    heads, kv_heads = random.choice(HEADS)
    positions = _positions(spec, random, generator, same)
    lengths = [11, 11] if positions is None else list(positions.shape)
    value_width = KEY_WIDTH if same else VALUE_WIDTH
    if spec.fills_layout and spec.layout is not None:
        lengths = [spec.layout[0] * spec.layout[1]] * 2
    q = _draw(generator, BATCH, heads, lengths[0], KEY_WIDTH)
    k = _draw(generator, BATCH, kv_heads, lengths[1], KEY_WIDTH)
    v = _draw(generator, BATCH, kv_heads, lengths[1], value_width)
    needed = mechanism.parameters(random.choice([1, heads]), KEY_WIDTH)
    parameters = {name: _draw(generator, *shape) for name, shape in needed.items()}
    return Call(q, k, v, spec, positions=positions, parameters=parameters)


def _positions(spec: Spec, random: Random, generator: torch.Generator, same: bool | None) -> Pairs | None:
    if spec.fills_layout:
        return None
    if spec.layout is not None or spec.knows_outside:
        first, count = -2 * spec.knows_outside, 11 if spec.layout is None else spec.layout[0] * spec.layout[1]
        rising = torch.arange(first, count)[None]
        mixed = rising[:, torch.randperm(rising.shape[1], generator=generator)]
        return Pairs.of(*random.choice([(rising, rising), (mixed, rising), (rising, mixed)]))
    rising = torch.randint(1, 3, (BATCH, 11), generator=generator).cumsum(1) - 3
    wild = torch.randint(-4, 13, (BATCH, 13), generator=generator), torch.randint(-4, 13, (1, 11), generator=generator)
    cross, one = (torch.arange(-4, 13)[None], torch.arange(13)[None]), (torch.tensor([[8]]), torch.arange(13)[None])
    own = [None, (rising, rising)]
    found = random.choice(own if same is not None else [*own, wild, cross, one])
    return None if found is None else Pairs.of(*found)


def _masks(call: Call, random: Random, generator: torch.Generator) -> Iterator[Mask | None]:
    """Masks in a drawn order, the plain ones again at the end: a mechanism that knows few of them finds one."""
    simple: list[Callable[[], Mask | None]] = [lambda: None, causal, lambda: _padding(call, random)]
    both: list[Callable[[], Mask]] = [lambda: causal() & _padding(call, random)]
    for make in random.sample(simple + both + _others(call, generator), 6) + random.sample(simple + both, 4):
        yield make()


def _others(call: Call, generator: torch.Generator) -> list[Callable[[], Mask]]:
    queries, keys = call.q.shape[2], call.k.shape[2]
    ids = (torch.randint(0, 3, (BATCH, size), generator=generator) for size in (queries, keys))
    table = torch.rand(BATCH, call.q.shape[1], queries, keys, generator=generator) < 0.6
    band, block = window(3), segments(*ids)
    return [
        lambda: band, lambda: block & causal(), lambda: allowed(table), lambda: (band | selected([0, 3])) & causal(),
        lambda: dilated(2, dilation=3), lambda: tiles(4) | ~window(6), lambda: ~block | band,
    ]  # fmt: skip


def _padding(call: Call, random: Random) -> Mask:
    keys = call.k.shape[2]
    lengths = [random.randrange(keys + 1), random.randrange(1, keys)]
    return padding(lengths=lengths, total=keys, side=random.choice(["left", "right"]))


def _modified(call: Call, random: Random, generator: torch.Generator) -> Iterator[Call]:
    """Scale, score cap and bias: all that was drawn, then less."""
    queries, keys, heads = call.q.shape[2], call.k.shape[2], call.q.shape[1]
    learned = Relative(_draw(generator, 8, heads), max_distance=11)
    fixed = Alibi(_draw(generator, heads).abs())
    scale = {"scale": random.choice([None, 0.3, -0.8])}
    cap = {"softcap": random.choice([None, None, 2.0])}
    tables = [_draw(generator, 1, heads, queries, keys), _draw(generator, BATCH, 1, 1, keys)]
    biases = [None, None, *tables, *([fixed, learned] if call.pairs.known else [])]
    extra: dict[str, Any] = {"bias": random.choice(biases)}
    yield from (replace(call, **some) for some in (scale | cap | extra, scale | cap, scale, {}))


def _draw(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


# The output of a call, and the gradients of its q, k, v.
Outcome = list[Tensor]


def part(call: Call, *, batch: slice = ALL, rows: Where = ALL, columns: Where = ALL) -> Call:
    """The same call for some rows of the batch, some queries and some keys, each where it stood before.

    A tensor of indices may also permute. Positions are written out, so that what is left keeps its own.
    """
    pairs = call.pairs.at(batch, rows, columns)
    bias = call.bias
    if isinstance(bias, Tensor):
        bias = take(take(take(bias, batch, 0), rows, 2), columns, 3)
    return replace(
        call,
        q=take(take(call.q, batch, 0), rows, 2),
        k=take(take(call.k, batch, 0), columns, 2),
        v=take(take(call.v, batch, 0), columns, 2),
        mask=None if call.mask is None else cut(call.mask, batch, rows, columns),
        positions=Pairs.of(pairs.query, pairs.key) if pairs.known else None,
        bias=bias,
    )


def cut(mask: Mask, batch: slice, rows: Where, columns: Where, heads: slice = ALL) -> Mask:
    """The mask of a part of the call; a relation between positions is the same everywhere."""
    match mask:
        case And(left, right):
            return cut(left, batch, rows, columns, heads) & cut(right, batch, rows, columns, heads)
        case Or(left, right):
            return cut(left, batch, rows, columns, heads) | cut(right, batch, rows, columns, heads)
        case Not(inner):
            return ~cut(inner, batch, rows, columns, heads)
        case Keep(keep):
            return Keep(take(take(keep, batch, 0), columns, 1))
        case Segments(query, key):
            return Segments(take(take(query, batch, 0), rows, 1), take(take(key, batch, 0), columns, 1))
        case Given(allow):
            return Given(take(take(take(take(allow, batch, 0), heads, 1), rows, 2), columns, 3))
        case _:
            return mask


def head(call: Call, index: int) -> Call:
    """One query head alone, with the key/value head it shares."""
    one, group = slice(index, index + 1), index * call.k.shape[1] // call.q.shape[1]
    bias = call.bias
    if bias is not None and not isinstance(bias, Tensor):
        bias = bias.table(bias.parameters, call.pairs)
    return replace(
        call,
        q=call.q[:, one],
        k=call.k[:, group : group + 1],
        v=call.v[:, group : group + 1],
        mask=None if call.mask is None else cut(call.mask, ALL, ALL, ALL, one),
        bias=None if bias is None else take(bias, one, 1),
        parameters={name: take(value, one, 0) for name, value in call.parameters.items()},
    )


def own_mask(mechanism: Mechanism, call: Call) -> Mask:
    """The pattern that the mechanism itself imposes, before any mask of the caller."""
    own = mechanism.pattern_of(call.spec)
    return everything() if own is None else own


def visible(mechanism: Mechanism, call: Call) -> Tensor:
    """Who may see whom, B H L M: the caller's mask within the mechanism's own pattern."""
    own = own_mask(mechanism, call)
    mask = own if call.mask is None else own & call.mask
    return mask.at(call.pairs).expand(*call.q.shape[:3], call.k.shape[2])


def narrowed(call: Call, mask: Mask) -> Call:
    """The same call under one mask more."""
    return replace(call, mask=mask if call.mask is None else call.mask & mask)


def outcome(attend: Callable[[Call], Tensor], call: Call, *, upstream: Tensor | None = None) -> Outcome:
    """The output, and the gradients of q, k, v under an upstream gradient (by default one that repeats nowhere)."""
    with torch.enable_grad():
        q, k, v = (x.detach().clone().requires_grad_() for x in (call.q, call.k, call.v))
        out = attend(replace(call, q=q, k=k, v=v))
        weight = ripple(out) if upstream is None else upstream
        gradients = torch.autograd.grad(out, (q, k, v), weight, materialize_grads=True)
    return [out.detach(), *gradients]


def ripple(x: Tensor) -> Tensor:
    """Numbers of one shape with x that are all different, so that no sum of gradients can hide a swap."""
    return torch.arange(1, x.numel() + 1, dtype=x.dtype, device=x.device).sin().view(x.shape)


def distance(one: Tensor, other: Tensor | float) -> float:
    """The largest absolute difference; NaN counts as infinitely far."""
    difference = (one - other).abs()
    return float(difference.nan_to_num(torch.inf, torch.inf).max()) if difference.numel() else 0.0


def farthest(one: Outcome, other: Outcome) -> float:
    return max(distance(x, y) for x, y in zip(one, other, strict=True))
