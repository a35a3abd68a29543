"""Laws that set one call equal to another: permuted, cut, grouped, flattened, computed another way."""

from dataclasses import replace

import torch
from torch import Tensor

from headway.audit.mechanisms.parts import distance, farthest, head, narrowed, outcome, own_mask, part, ripple
from headway.audit.mechanisms.trials import Trial
from headway.config import read_spec
from headway.config.base import option_names
from headway.ops.attention import MECHANISMS, Call, Mechanism
from headway.ops.attention.kernels.eager import average, expand
from headway.ops.mask import causal, padding, window
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
