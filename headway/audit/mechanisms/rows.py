"""Laws of rows: what may reach one query's output and gradients, and what may not."""

from dataclasses import replace

import torch
from torch import Tensor

from headway.audit.mechanisms.parts import distance, farthest, narrowed, outcome, part, ripple, visible
from headway.audit.mechanisms.trials import Trial, accepts
from headway.ops.attention import Call, Mechanism, record_of
from headway.ops.mask import allowed, causal, padding
from headway.ops.mask.pairs import ALL

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
    gone = _padded_keys(call, trial.seed)
    real = (~gone).nonzero()[:, 0]
    rows = real if call.q.shape[2] == call.k.shape[2] else torch.arange(call.q.shape[2])
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


def _padded_keys(call: Call, seed: int) -> Tensor:
    """Which keys to declare as padding: a few on one side; on a grid with windows, whole rows at its end."""
    gone, count, left = torch.zeros(call.k.shape[2], dtype=torch.bool), 3, seed % 2 == 0
    spec = call.spec
    if spec.fills_layout and spec.layout is not None:
        windows = record_of(spec).pattern_of(spec) is not None
        count, left = (2 if windows else 1) * spec.layout[1], left and not windows
    gone[slice(0, count) if left else slice(len(gone) - count, None)] = True
    return gone


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
