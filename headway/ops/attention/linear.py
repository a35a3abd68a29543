"""Linear attention (Katharopoulos et al. 2020, arXiv:2006.16236): exp(q·k) replaced by g(q)·g(k).

    out_i = g(q_i) · Σ_j g(k_j) v_jᵀ  /  g(q_i) · Σ_j g(k_j)        j over the keys that i may see

The sums do not depend on i (or, under causality, grow with i), so time and memory are O(L). Three forms that agree:
all at once, causal in chunks, and one token at a time on a running total. A row whose normaliser is 0 gives 0.
"""

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headway.config import Linear, nearest
from headway.ops.attention.call import Call
from headway.ops.attention.cost import Workload, attention_operation
from headway.ops.attention.kernels.chunked import Feature, Stream, causal_stream, divide, read, whole_stream
from headway.ops.attention.kernels.eager import Row, expand, scores_of
from headway.ops.attention.kernels.guard import guarded_call
from headway.ops.attention.kernels.reference import reference_of
from headway.ops.attention.mechanism import CacheNeed, Mechanism, all_pairs
from headway.ops.mask import causal
from headway.ops.mask.kernel import Kernel, choose, is_causal, kept_keys
from headway.ops.mask.pairs import ALL, Pairs
from headway.ops.nonfinite_rows import at_least_float32
from headway.sizes import Cost, Number, Operation, Sizes
from headway.steps import POSITIONS, WIDTH, Each, Product, softmax_steps

# Tokens at once where order does not matter.
_WHOLE = 1024


def elu_plus_one(x: Tensor) -> Tensor:
    """elu(x) + 1 without its cancellation: x + 1 above 0, exp(x) below, which e⁻²⁰ - 1 + 1 would lose."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


FEATURES: dict[str, Feature] = {
    "elu": elu_plus_one,
    "relu": F.relu,
    "exp": lambda x: x.softmax(-1),  # exp, normalised over the width so that it cannot overflow
}


def feature_of(spec: Linear) -> Feature:
    if callable(spec.feature):
        return spec.feature
    if spec.feature not in FEATURES:
        hint = nearest(spec.feature, FEATURES)
        raise ValueError(
            f"there is no feature map {spec.feature!r}{hint}; there are {', '.join(FEATURES)}, or a function"
        )
    return FEATURES[spec.feature]


def reference(call: Call) -> Float[Tensor, "B H L W"]:
    """The equation, one query at a time, on the keys that query may see."""
    _kernel(call)
    return reference_of(call, row(call))


def row(call: Call) -> Row:
    """One query's computation."""
    heads, dtype, g = call.q.shape[1], call.dtype, feature_of(_spec(call))

    def one(pairs: Pairs, table: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        seen = table.mT  # B H M 1: hidden keys are zeroed before the map, and what the map makes of 0 after it
        keys = g(torch.where(seen, expand(k, heads).to(dtype), 0.0))
        scores = (g(q.to(dtype)) @ keys.mT).masked_fill(~table, 0)
        return divide(scores @ torch.where(seen, expand(v, heads).to(dtype), 0.0), scores.sum(-1, keepdim=True))

    return one


def weights(call: Call, rows: slice = ALL, heads: slice = ALL) -> Float[Tensor, "B h l M"]:
    """The matrix that is never formed: g(q_i)·g(k_j) over its row sum, where i may see j."""
    _kernel(call)
    call, g = call.quarantined(), feature_of(_spec(call))
    q, k = call.q[:, heads, rows].to(call.dtype), expand(call.k, call.q.shape[1])[:, heads].to(call.dtype)
    table = None
    if call.mask is not None:
        table = call.mask.at(call.pairs.at(ALL, rows, ALL))
        table = table if table.shape[1] == 1 else table[:, heads]
    scores = scores_of(lambda q, k: g(q) @ g(k).mT, q, k, table)
    if table is not None:
        scores = scores.masked_fill(~table, 0)
    return divide(scores, scores.sum(-1, keepdim=True))


def attend(call: Call) -> Float[Tensor, "B H L W"]:
    """A stream of chunks under causality, one total for all without; heads of a group share their totals."""
    kernel = call.once("kernel", lambda: _kernel(call))
    if call.total is not None:
        return _resumed(call)
    if not kernel.causal:
        return whole_stream(*_stream(call.quarantined(), _WHOLE))
    return guarded_call(call, lambda clean: causal_stream(*_stream(clean, _spec(call).chunk)), row)


def _resumed(call: Call) -> Float[Tensor, "B H L W"]:
    """The recurrent form: what new tokens gather after the total of all before them, which a cache holds."""
    if not is_causal(call.mask):
        raise ValueError("a running total reads tokens in order: linear attention with a cache needs causal()")
    # Token by token where something may not be finite: what comes later must not arrive in earlier rows.
    careful = call.guard is None or call.guard.careful
    stream, q, k, v = _stream(call.quarantined(), 1 if careful else _spec(call).chunk)
    return read(stream, q, k, v, call.total, [])[0]


def fold(spec: Linear, k: Tensor, v: Tensor, keep: Tensor | None) -> Float[Tensor, "B G F V"]:
    """Σ g(k_j) [v_j, 1]ᵀ over these keys: what a cache adds to the total that stands for all keys before."""
    stream = Stream(feature_of(spec), at_least_float32(k.dtype), keep, k.shape[2])
    features, values = stream.mapped(k, v, slice(0, k.shape[2]))
    return features.mT @ values


def cache(spec: Linear) -> CacheNeed:
    return CacheNeed("total", fold=partial(fold, spec))


def _stream(call: Call, chunk: int) -> tuple[Stream, Tensor, Tensor, Tensor]:
    """The stream and its inputs. A function of the user's may hold parameters: it is applied where autograd sees it."""
    g, q, k = feature_of(_spec(call)), call.q, call.k
    if callable(_spec(call).feature) and torch.is_grad_enabled():
        q, k, g = g(q.to(call.dtype)), g(k.to(call.dtype)), _same
    keep = None if call.mask is None else kept_keys(call.mask)
    return Stream(g, call.dtype, keep, chunk), q, k, call.v


def _same(x: Tensor) -> Tensor:
    return x


def _kernel(call: Call) -> Kernel:
    """What the sums can honour: all keys, padding, causality by order; anything else is refused."""
    for name in ("bias", "softcap", "scale"):
        if getattr(call, name) is not None:
            raise ValueError(f"linear attention has no score to change: {name}= belongs into the feature map")
    kernel = choose(call.mask, call.pairs)
    if kernel.tiles:
        raise ValueError(
            "linear attention sums over keys in order: it honours causal() with positions that rise from token to "
            "token, and padding(...), and no other mask; use mechanism='softmax' or 'local'"
        )
    return kernel


def _spec(call: Call) -> Linear:
    assert isinstance(call.spec, Linear)
    return call.spec


# FLOPs of a feature map, an entry, and how many of them follow one another: elu + 1 is a comparison and an addition
# beside a minimum and an exp; exp is the softmax over a width.
FEATURE_FLOPS = {"elu": (4, 2), "relu": (1, 1), "exp": (5, 5)}


def operation(spec: Linear, work: Workload) -> Operation:
    """(B G M + B H L) R (W + 1) multiply-adds, R features; other: the features, and one division for each output.

    executed adds, under causality, the triangle of each chunk, computed as a full square. Features of q and k are made
    at once; a sum over positions (causal: a scan, as deep), one over features, divide.
    """
    sizes = work.sizes
    features, width = feature_width(spec, sizes.key_width), sizes.value_width + 1
    entries = sizes.batch * (sizes.heads * sizes.queries + sizes.kv_heads * sizes.keys) * features
    dense = entries * width
    flops, deep = FEATURE_FLOPS.get(spec.feature, (1, 1)) if isinstance(spec.feature, str) else (1, 1)
    other = sizes.batch * sizes.heads * sizes.queries * sizes.value_width + flops * entries
    keep = None if work.mask is None else kept_keys(work.mask)
    gone = 0 if keep is None else sizes.kv_heads * int((~keep.expand(sizes.batch, -1)).sum()) * features * width
    forth, back = _executed_both(spec, work, dense) if sizes.whole else (None, None)
    forward = Cost(dense, dense - gone, forth, other)
    backward = replace(forward + forward, executed=back)
    mapped = softmax_steps(features, WIDTH) if spec.feature == "exp" else (Each(deep),)
    # At the end a comparison of the normaliser with 0, and the division.
    steps = (*mapped, Product(sizes.keys, POSITIONS), Product(features, WIDTH), Each(2))
    return attention_operation(sizes, forward=forward, backward=backward, steps=steps)


def _executed_both(spec: Linear, work: Workload, dense: int) -> tuple[int, int]:
    sizes, features = work.sizes, feature_width(spec, work.sizes.key_width)
    if not choose(work.mask, work.pairs).causal and not work.past:
        return dense, 2 * dense
    width = sizes.value_width + 1
    forward = _executed(sizes, spec.chunk, features, width)
    if work.past:  # the first chunk reads a total too
        forward += sizes.batch * sizes.heads * min(spec.chunk, sizes.queries) * features * width
    if work.cached:  # the cache takes the new keys into its own
        forward += sizes.batch * sizes.kv_heads * sizes.keys * features * width
    return forward, _executed_back(sizes, spec.chunk, features)


def _executed_back(sizes: Sizes, chunk: int, features: int) -> int:
    """Every chunk once more, and two products for each of its own but the last's total, which nobody reads."""
    width = sizes.value_width + 1
    forward = _executed(sizes, chunk, features, width)
    last = sizes.queries - (sizes.queries - 1) // chunk * chunk
    return 3 * forward - 2 * sizes.batch * sizes.kv_heads * last * features * width


def _executed(sizes: Sizes, chunk: int, features: int, width: int) -> int:
    """Chunks of c tokens: c² scores and their sums each, and the running total, which the first need not read."""
    parts = [min(chunk, sizes.queries - start) for start in range(0, sizes.queries, chunk)]
    squares = sizes.batch * sizes.heads * sum(part * part for part in parts) * (features + width)
    read = sizes.batch * sizes.heads * (sizes.queries - parts[0])
    return squares + (sizes.batch * sizes.kv_heads * sizes.keys + read) * features * width


def feature_width(spec: Linear, key_width: Number) -> Number:
    """R: how many features the map makes of K channels."""
    if not callable(spec.feature) or not isinstance(key_width, int):
        return key_width
    return spec.feature(torch.zeros(1, key_width)).shape[-1]


def products(call: Call) -> Float[Tensor, "B H L W"]:
    """g(q) · Σ g(k) [v, 1]ᵀ, the ones gathering the normaliser: of all keys, or the running total at each token."""
    g = feature_of(_spec(call))
    keep = None if call.mask is None else kept_keys(call.mask)
    q, k = g(call.q), g(call.k)
    k = k if keep is None else k.masked_fill(~keep[:, None, :, None], 0)
    v = torch.cat([call.v, torch.ones_like(call.v[..., :1])], -1)
    if not is_causal(call.mask):
        found = q @ expand(k.mT @ v, q.shape[1])
    else:
        totals = (k[..., None] @ v[..., None, :]).cumsum(2)  # B G M R V
        found = (q[..., None, :] @ totals.repeat_interleave(q.shape[1] // k.shape[1], 1)).squeeze(-2)
    return divide(found[..., :-1], found[..., -1:])


def variants(side: int) -> dict[str, dict[str, Any]]:
    return {"linear": {}, "linear, causal": {"mask": causal()}}


def examples(random: Random) -> dict[str, Any]:
    return {"feature": random.choice(["elu", "relu", "exp", torch.exp]), "chunk": random.choice([2, 3, 64])}


MECHANISM = Mechanism(
    "linear",
    Linear,
    reference,
    attend,
    weights,
    operation,
    laws=frozenset({
        "loop", "rows_sum", "groups", "batch", "padding", "quarantine", "empty_rows", "values_linear",
        "weights_are_output", "masked_is_deleted", "keys_permute", "queries_independent", "equivariant", "causal",
        "three_forms",
    }),
    pattern=all_pairs,
    cache=cache,
    masks="causal",
    modifiers=frozenset(),
    scales=False,
    products=products,
    examples=examples,
    variants=variants,
)  # fmt: skip
