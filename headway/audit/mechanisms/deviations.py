"""How far a mechanism strays from each law on one trial: equalities between calls, and what rows may depend on."""

from dataclasses import replace

import torch
from torch import Tensor

from headway.audit.mechanisms.trials import (
    Trial,
    accepts,
    distance,
    farthest,
    head,
    narrowed,
    outcome,
    own_mask,
    part,
    ripple,
    visible,
)
from headway.config import read_spec
from headway.config.base import option_names
from headway.ops.attention import MECHANISMS, Call, Mechanism, record_of
from headway.ops.attention.kernels.eager import average, expand
from headway.ops.mask import allowed, causal, padding, window
from headway.ops.mask.kernel import kept_keys
from headway.ops.mask.pairs import ALL

SOFTMAX = MECHANISMS["softmax"]


def loop(mechanism: Mechanism, trial: Trial) -> float:
    """The fast path, all at once, equals the reference, a loop."""
    return farthest(outcome(mechanism.attend, trial.call), outcome(mechanism.reference, trial.call))


def rows_sum(mechanism: Mechanism, trial: Trial) -> float:
    """Each row of weights sums to 1, or to 0 where nothing is seen."""
    sums = mechanism.weights(trial.call, ALL, ALL).sum(-1)
    return distance(torch.minimum(sums.abs(), (sums - 1).abs()), 0.0)


def weights_are_output(mechanism: Mechanism, trial: Trial) -> float:
    """The weights one would draw, times the values, are the output."""
    weights = mechanism.weights(trial.call, ALL, ALL)
    if weights.shape[2:] != trial.call.pairs.shape:
        raise ValueError(f"{mechanism.name} has weights between channels, not between positions")
    return distance(average(weights, trial.call.v), mechanism.attend(trial.call))


def masked_is_deleted(mechanism: Mechanism, trial: Trial) -> float:
    """A key that is masked equals a key that is not there."""
    call = trial.call
    gone = torch.rand(call.k.shape[2], generator=trial.generator) < 0.4
    left = (~gone).nonzero()[:, 0]
    out, q, k, v = outcome(mechanism.attend, narrowed(call, padding(keep=~gone[None])))
    deleted = outcome(mechanism.attend, part(call, columns=left))
    return farthest([out, q, k[:, :, left], v[:, :, left]], deleted)


def keys_permute(mechanism: Mechanism, trial: Trial) -> float:
    """Keys and values permuted together, with their positions, change nothing."""
    order = torch.randperm(trial.call.k.shape[2], generator=trial.generator)
    out, q, k, v = outcome(mechanism.attend, trial.call)
    return farthest(
        [out, q, k[:, :, order], v[:, :, order]], outcome(mechanism.attend, part(trial.call, columns=order))
    )


def equivariant(mechanism: Mechanism, trial: Trial) -> float:
    """Without mask, bias and positions, permuted tokens give permuted outputs."""
    call = _bare(trial.call)
    order = torch.randperm(call.q.shape[2], generator=trial.generator)
    if call.q.shape[2] != call.k.shape[2]:
        raise ValueError(f"{call.q.shape[2]} queries and {call.k.shape[2]} keys are not the same tokens")
    before = outcome(mechanism.attend, call)
    moved = _bare(part(call, rows=order, columns=order))
    after = outcome(mechanism.attend, moved, upstream=ripple(before[0])[:, :, order])
    return farthest([x[:, :, order] for x in before], after)


def keys_shift(mechanism: Mechanism, trial: Trial) -> float:
    """One vector added to every key changes nothing, since every score of a row moves by the same amount."""
    call = replace(trial.call, softcap=None)
    shift = torch.randn(call.k.shape[3], generator=trial.generator, dtype=call.k.dtype)
    return distance(mechanism.attend(call), mechanism.attend(replace(call, k=call.k + shift)))


def values_linear(mechanism: Mechanism, trial: Trial) -> float:
    """The output is linear in the values."""
    call, other = trial.call, torch.randn(trial.call.v.shape, generator=trial.generator, dtype=trial.call.v.dtype)
    one, two, both = (mechanism.attend(replace(call, v=v)) for v in (call.v, other, 2 * call.v - 3 * other))
    return distance(2 * one - 3 * two, both)


def window_is_full(mechanism: Mechanism, trial: Trial) -> float:
    """A window as large as the whole is no window: as an option where there is one, as a mask elsewhere."""
    call, options = trial.call, option_names(type(trial.call.spec))
    if "window" not in options:
        return farthest(outcome(mechanism.attend, narrowed(call, window(100))), outcome(mechanism.attend, call))
    farther = int((call.pairs.query[:, :, None] - call.pairs.key[:, None]).abs().max()) + 1
    wide = {"window": call.spec.layout or farther} | ({"dilation": 1} if "dilation" in options else {})
    found = outcome(mechanism.attend, replace(call, spec=call.spec.replace(**wide)))
    return farthest(found, outcome(SOFTMAX.attend, _as_softmax(call)))


def groups(mechanism: Mechanism, trial: Trial) -> float:
    """Heads that share keys and values equal heads that each have a copy, and each head equals itself alone."""
    call, heads = trial.call, trial.call.q.shape[1]
    copies = replace(call, k=expand(call.k, heads), v=expand(call.v, heads))
    shared, (out, q, k, v) = outcome(mechanism.attend, call), outcome(mechanism.attend, copies)
    k, v = (x.unflatten(1, (call.k.shape[1], -1)).sum(2) for x in (k, v))
    alone = torch.cat([mechanism.attend(head(call, index)) for index in range(heads)], 1)
    return max(farthest(shared, [out, q, k, v]), distance(out, alone))


def batch(mechanism: Mechanism, trial: Trial) -> float:
    """A batch equals its rows, one by one."""
    rows = [mechanism.attend(part(trial.call, batch=slice(row, row + 1))) for row in range(len(trial.call.q))]
    return distance(torch.cat(rows), mechanism.attend(trial.call))


def flattened(mechanism: Mechanism, trial: Trial) -> float:
    """On a grid it equals softmax on the flattened grid, its windows written as a mask."""
    spec = trial.call.spec
    if mechanism.scores != "dot" or (mechanism.pattern_of(spec) is None and spec.layout is None):
        raise ValueError(f"{mechanism.name} knows no grid")
    flat = _as_softmax(narrowed(trial.call, own_mask(mechanism, trial.call)))
    return farthest(outcome(mechanism.attend, trial.call), outcome(SOFTMAX.attend, flat))


def three_forms(mechanism: Mechanism, trial: Trial) -> float:
    """All at once, in chunks, and one token at a time on a running total: the same output."""
    if mechanism.cache_of(trial.call.spec).kind != "total":
        raise ValueError(f"{mechanism.name} has no running total")
    call = narrowed(trial.call, causal())
    chunks = (call.q.shape[2], 2) if "chunk" in option_names(type(call.spec)) else (None,)
    specs = [call.spec if chunk is None else call.spec.replace(chunk=chunk) for chunk in chunks]
    whole, *others = (outcome(mechanism.attend, replace(call, spec=spec)) for spec in specs)
    step = outcome(lambda call: _token_by_token(mechanism, call), call)
    return max(farthest(whole, other) for other in (*others, step))


def _token_by_token(mechanism: Mechanism, call: Call) -> Tensor:
    fold, total, outputs = mechanism.cache_of(call.spec).fold, None, []
    assert fold is not None
    for token in range(call.q.shape[2]):
        here = slice(token, token + 1)
        one = part(call, rows=here, columns=here)
        keep = None if one.mask is None else kept_keys(one.mask)
        outputs.append(mechanism.attend(replace(one, total=total)))
        new = fold(one.quarantined().k, one.quarantined().v, keep)
        total = new if total is None else total + new
    return torch.cat(outputs, 2)


def _as_softmax(call: Call) -> Call:
    return replace(call, spec=read_spec("softmax"))


def _bare(call: Call) -> Call:
    return replace(call, mask=None, bias=None, positions=None)


# What a hidden key may hold: nothing of it arrives, neither as it is nor by overflow.
POISONS = (float("nan"), float("inf"), float("-inf"), 1e200)


def queries_independent(mechanism: Mechanism, trial: Trial) -> float:
    """A change of q_i changes row i of the output and no other, and no other row has a gradient there."""
    call, row = trial.call, trial.seed % trial.call.q.shape[2]
    other = replace(call, q=_disturbed(call.q, torch.arange(call.q.shape[2])[None] == row, trial))
    before, after = mechanism.attend(call), mechanism.attend(other)
    others = (torch.arange(call.q.shape[2]) != row)[:, None]
    gradient = outcome(mechanism.attend, call, upstream=ripple(before) * others)[1][:, :, row]
    return max(distance(before * others, after * others), distance(gradient, 0.0))


def causality(mechanism: Mechanism, trial: Trial) -> float:
    """Under causal(), no output and no gradient of it depends on a token at a later position."""
    call = narrowed(trial.call, causal())
    call.pairs.require()
    query, key = (x.expand(len(call.q), -1) for x in (call.pairs.query, call.pairs.key))
    now = query.float().median()
    late = [query > now, key > now, key > now]
    q, k, v = (_disturbed(x, where, trial) for x, where in zip((call.q, call.k, call.v), late, strict=True))
    early = ~late[0][:, None, :, None]
    before, after = mechanism.attend(call), mechanism.attend(replace(call, q=q, k=k, v=v))
    gradients = outcome(mechanism.attend, call, upstream=ripple(before) * early)[1:]
    leaks = [distance(x * where[:, None, :, None], 0.0) for x, where in zip(gradients, late, strict=True)]
    return max(distance(before * early, after * early), *leaks)


def padding_is_nothing(mechanism: Mechanism, trial: Trial) -> float:
    """Padding on the left or on the right, of any content, declared by padding(), changes nothing at real positions."""
    call = trial.call
    gone = _padded_keys(call, left=trial.seed % 2 == 0)
    rows, real = _kept(call, gone)
    if not torch.equal(visible(mechanism, call)[:, :, rows][..., real], visible(mechanism, _alone(call, rows, real))):
        # A grid without its first row counts its positions anew: a mask that names positions would mean others.
        gone = _padded_keys(call, left=False)
        rows, real = _kept(call, gone)
    short = outcome(mechanism.attend, _alone(call, rows, real))
    upstream = torch.zeros(*call.q.shape[:3], call.v.shape[3], dtype=call.v.dtype).index_copy(2, rows, ripple(short[0]))
    dirty = narrowed(_poisoned(call, gone[None], trial.seed), padding(keep=~gone[None]))
    out, q, k, v = outcome(mechanism.attend, dirty, upstream=upstream)
    at_padding = max(distance(x[:, :, gone], 0.0) for x in (k, v))
    return max(at_padding, farthest([out[:, :, rows], q[:, :, rows], k[:, :, real], v[:, :, real]], short))


def quarantine(mechanism: Mechanism, trial: Trial) -> float:
    """NaN, inf or an overflow in a key and its value arrives in no row that may not see it, nor in its gradients."""
    call, (batch, _, keys, _) = trial.call, trial.call.k.shape
    drawn = torch.rand(batch, keys, generator=trial.generator)
    padded = narrowed(call, padding(keep=drawn > 0.3))
    some = (drawn < 0.2) & ~visible(mechanism, call).all(2).all(1)
    return max(_leak(mechanism, padded, drawn <= 0.3, trial.seed), _leak(mechanism, call, some, trial.seed))


def _leak(mechanism: Mechanism, call: Call, gone: Tensor, seed: int) -> float:
    """How far poison in these keys gets, where it has no right to."""
    rows = ~(visible(mechanism, call) & gone[:, None, None, :]).any(-1, keepdim=True)
    # Rows that see the poison may hold anything, but without an upstream gradient they have no say in any gradient.
    upstream = ripple(mechanism.attend(call)) * rows
    poisoned = _poisoned(call, gone, seed)
    before, *clean = outcome(mechanism.attend, call, upstream=upstream)
    after, *dirty = outcome(mechanism.attend, poisoned, upstream=upstream)
    # Without gradients a mechanism may take another path.
    ways = (after, mechanism.attend(poisoned))
    values = max(distance(before.where(rows, 0), x.where(rows, 0)) for x in ways)
    return max(values, farthest(clean, dirty))


def empty_rows(mechanism: Mechanism, trial: Trial) -> float:
    """A row that may see nothing has weights, output and gradients 0, and no other gradient suffers from it."""
    call = _with_empty_rows(mechanism, trial)
    seen = visible(mechanism, call)
    empty, unseen = ~seen.any(-1, keepdim=True), ~seen.any(2).any(1)[:, None, :, None]
    out, q, k, v = outcome(mechanism.attend, call)
    nothing = [out * empty, q * empty, k * unseen, v * unseen]
    weights = mechanism.weights(call, ALL, ALL)
    # Weights between channels have no row of a position.
    if weights.shape == seen.shape:
        nothing.append(weights * empty)
    return max(distance(x, 0.0) for x in nothing)


def _with_empty_rows(mechanism: Mechanism, trial: Trial) -> Call:
    call, (queries, keys) = trial.call, trial.call.pairs.shape
    table = torch.rand(len(call.q), 1, queries, 1, generator=trial.generator) < 0.7
    nobody = padding(lengths=[0] + [keys] * (len(call.q) - 1), total=keys)
    calls = (narrowed(call, mask) for mask in (allowed(table), nobody))
    return next(call for call in calls if accepts(mechanism, call))


def _padded_keys(call: Call, *, left: bool) -> Tensor:
    """Which keys to declare as padding: a few on one side; on a grid with windows, whole rows at its end."""
    gone, count = torch.zeros(call.k.shape[2], dtype=torch.bool), 3
    spec = call.spec
    if spec.fills_layout and spec.layout is not None:
        windows = record_of(spec).pattern_of(spec) is not None
        count, left = (2 if windows else 1) * spec.layout[1], left and not windows
    gone[slice(0, count) if left else slice(len(gone) - count, None)] = True
    return gone


def _kept(call: Call, gone: Tensor) -> tuple[Tensor, Tensor]:
    """The rows and the keys that stay; queries that are no keys all stay."""
    real = (~gone).nonzero()[:, 0]
    return real if call.q.shape[2] == call.k.shape[2] else torch.arange(call.q.shape[2]), real


def _alone(call: Call, rows: Tensor, real: Tensor) -> Call:
    alone = part(call, rows=rows, columns=real)
    if not call.spec.fills_layout or call.spec.layout is None:
        return alone
    columns = call.spec.layout[1]
    # Whole rows of a grid are a smaller grid, whose positions nobody need say.
    return replace(alone, spec=call.spec.replace(grid=(len(real) // columns, columns)), positions=None)


def _poisoned(call: Call, where: Tensor, seed: int) -> Call:
    gone = where[:, None, :, None]
    content = POISONS[seed % len(POISONS)]
    return replace(call, k=call.k.masked_fill(gone, content), v=call.v.masked_fill(gone, content))


def _disturbed(x: Tensor, where: Tensor, trial: Trial) -> Tensor:
    noise = torch.randn(x.shape, generator=trial.generator, dtype=x.dtype)
    return torch.where(where[:, None, :, None], noise, x)
