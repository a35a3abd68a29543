"""Linear attention (Katharopoulos et al. 2020, arXiv:2006.16236): exp(q·k) replaced by g(q)·g(k).

    out_i = g(q_i) · Σ_j g(k_j) v_jᵀ  /  g(q_i) · Σ_j g(k_j)        j over the keys that i may see

The sums do not depend on i (or, under causality, grow with i), so time and memory are O(L). Three forms that agree:
all at once, causal in chunks, and one token at a time on a running total. A row whose normaliser is 0 gives 0.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headway.config import Linear, Spec, nearest
from headway.ops.attention.call import Call, Mechanism
from headway.ops.attention.explicit import Row, expand
from headway.ops.attention.guard import finite, guarded
from headway.ops.attention.loop import reference_of
from headway.ops.attention.price import Modifiers, attention_operation
from headway.ops.attention.scan import Feature, Stream, causal_stream, divide, read, whole_stream
from headway.ops.mask import Mask
from headway.ops.mask.kernel import Kernel, choose, is_causal, kept_keys
from headway.ops.mask.pairs import ALL, Pairs
from headway.sizes import Cost, Number, Operation, Sizes
from headway.steps import POSITIONS, WIDTH, Each, Product, softmax_steps

# Tokens at once where order does not matter.
_WHOLE = 1024
FEATURES: dict[str, Feature] = {
    "elu": lambda x: F.elu(x) + 1,
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
    return reference_of(call, _row_of(call))


def _row_of(call: Call) -> Row:
    heads, dtype, g = call.q.shape[1], call.dtype, feature_of(_spec(call))

    def row(pairs: Pairs, table: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        seen = table.mT  # B H M 1: hidden keys are zeroed before the map, and what the map makes of 0 after it
        keys = g(torch.where(seen, expand(k, heads).to(dtype), 0.0))
        scores = (g(q.to(dtype)) @ keys.mT).masked_fill(~table, 0)
        return divide(scores @ torch.where(seen, expand(v, heads).to(dtype), 0.0), scores.sum(-1, keepdim=True))

    return row


def weights(call: Call, rows: slice = ALL, heads: slice = ALL) -> Float[Tensor, "B h l M"]:
    """The matrix that is never formed: g(q_i)·g(k_j) over its row sum, where i may see j."""
    _kernel(call)
    call, g = call.quarantined(), feature_of(_spec(call))
    q, k = g(call.q[:, heads, rows].to(call.dtype)), g(expand(call.k, call.q.shape[1])[:, heads].to(call.dtype))
    scores = q @ k.mT
    if call.mask is not None:
        table = call.mask.at(call.pairs.at(ALL, rows, ALL))
        scores = scores.masked_fill(~(table if table.shape[1] == 1 else table[:, heads]), 0)
    return divide(scores, scores.sum(-1, keepdim=True))


def attend(call: Call) -> Float[Tensor, "B H L W"]:
    """A stream of chunks under causality, one total for all without; heads of a group share their totals."""
    kernel = _kernel(call)
    if not kernel.causal:
        return whole_stream(*_stream(call.quarantined(), _WHOLE))
    return guarded(call, lambda clean: causal_stream(*_stream(clean, _spec(call).chunk)), _row_of(call))


def running(call: Call, total: Tensor | None) -> tuple[Float[Tensor, "B H L W"], Float[Tensor, "B G F V"]]:
    """The recurrent form: what new tokens gather, after the total of all before them, and the total after them."""
    _kernel(call)
    if not is_causal(call.mask):
        raise ValueError("a running total reads tokens in order: linear attention with a state needs causal()")
    call = call.quarantined()
    # Token by token where something is not finite: what comes later must not arrive in earlier rows.
    chunk = _spec(call).chunk if all(finite(x) for x in (call.k, call.v)) else 1
    stream, q, k, v = _stream(call, chunk)
    out, total = read(stream, q, k, v, total, [])
    assert total is not None
    return out, total


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
    assert isinstance(call.options, Linear)
    return call.options


def cost(sizes: Sizes, mask: Mask | None, spec: Spec, pairs: Pairs) -> Cost:
    """(B G M + B H L) R (W + 1) multiply-adds, R features; other = one division for each output.

    executed adds, under causality, the triangle of each chunk, computed as a full square.
    """
    spec = spec if isinstance(spec, Linear) else Linear()
    features, width = feature_width(spec, sizes.key_width), sizes.value_width + 1
    dense = (sizes.batch * sizes.kv_heads * sizes.keys + sizes.batch * sizes.heads * sizes.queries) * features * width
    other = sizes.batch * sizes.heads * sizes.queries * sizes.value_width
    keep = None if mask is None else kept_keys(mask)
    gone = 0 if keep is None else sizes.kv_heads * int((~keep.expand(sizes.batch, -1)).sum()) * features * width
    executed = dense if sizes.whole else None
    if sizes.whole and choose(mask, pairs).causal:
        executed = _executed(sizes, spec.chunk, features, width)
    return Cost(dense, dense - gone, executed, other)


# FLOPs of a feature map, an entry: elu + 1 is exp, subtract, maximum, add; exp is the softmax over a width.
FEATURE_FLOPS = {"elu": 4, "relu": 1, "exp": 5}


def price(sizes: Sizes, mask: Mask | None, spec: Spec, pairs: Pairs, modifiers: Modifiers) -> Operation:
    """Features of q and k at once; a sum over positions (causal: a scan, as deep), one over features, divide."""
    spec = spec if isinstance(spec, Linear) else Linear()
    plain = cost(sizes, mask, spec, pairs)
    features = feature_width(spec, sizes.key_width)
    entries = sizes.batch * (sizes.heads * sizes.queries + sizes.kv_heads * sizes.keys) * features
    flops = FEATURE_FLOPS.get(spec.feature, 1) if isinstance(spec.feature, str) else 1
    forward = replace(plain, other=plain.other + flops * entries)
    causal = sizes.whole and choose(mask, pairs).causal
    again = _executed_back(sizes, spec.chunk, features) if causal else 2 * plain.executed if plain.executed else None
    backward = Cost(2 * forward.dense, 2 * forward.useful, again, 2 * forward.other)
    mapped = softmax_steps(features, WIDTH) if spec.feature == "exp" else (Each(flops),)
    # At the end a comparison of the normaliser with 0, and the division.
    steps = (*mapped, Product(sizes.keys, POSITIONS), Product(features, WIDTH), Each(2))
    return attention_operation(sizes, forward=forward, backward=backward, steps=steps)


def _executed_back(sizes: Sizes, chunk: int, features: int) -> int:
    """Every chunk once more, and two products for each of its own but the last's total, which nobody reads."""
    width = sizes.value_width + 1
    forward = _executed(sizes, chunk, features, width)
    last = sizes.queries - (sizes.queries - 1) // chunk * chunk
    return 3 * forward - 2 * sizes.batch * sizes.kv_heads * last * features * width


def resumed(sizes: Sizes, spec: Linear) -> int:
    """Multiply-adds of tokens that are read after others: every chunk reads the running total, the first one too."""
    features, width = feature_width(spec, sizes.key_width), sizes.value_width + 1
    first = sizes.batch * sizes.heads * min(spec.chunk, sizes.queries) * features * width
    return _executed(sizes, spec.chunk, features, width) + first


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


MECHANISM = Mechanism(
    "linear",
    Linear,
    reference,
    attend,
    weights,
    cost,
    laws=frozenset({
        "loop", "rows_sum", "groups", "batch", "padding", "quarantine", "empty_rows", "values_linear",
        "weights_are_output", "masked_is_deleted", "keys_permute", "queries_independent", "equivariant", "causal",
        "three_forms",
    }),
    price=price,
)  # fmt: skip
