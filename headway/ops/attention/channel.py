"""Channel attention (DaViT, Ding et al. 2022, arXiv:2204.03645).

    A = softmax(qᵀ k · scale)   (channels x channels)        out = (A vᵀ)ᵀ

Channels attend to channels; the sum of a score runs over positions. Heads are the channel groups. It needs as many
queries as keys. Padding is the one mask it knows: a padded position takes no part in the sums and gets 0.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from headway.config import Channel, Spec
from headway.ops.attention.call import Call
from headway.ops.attention.cost import PER_SCORE, Workload, attention_operation
from headway.ops.attention.kernels.eager import expand
from headway.ops.attention.mechanism import CacheNeed, Mechanism, all_pairs
from headway.ops.mask.kernel import kept_keys, without_padding
from headway.ops.mask.pairs import ALL
from headway.sizes import Cost, Operation
from headway.steps import POSITIONS, WIDTH, Each, Product, softmax_steps


def reference(call: Call) -> Float[Tensor, "B H L W"]:
    """out_lc = Σ_d A_cd v_ld, one channel c at a time."""
    q, k, v = _prepared(call)
    scale = _scale(call)
    rows = [
        torch.einsum("BHLd,BHd->BHL", v, (torch.einsum("BHL,BHLd->BHd", q[..., c], k) * scale).softmax(-1))
        for c in range(q.shape[3])
    ]
    return torch.stack(rows, -1).to(call.q.dtype)


def weights(call: Call, rows: slice = ALL, heads: slice = ALL) -> Float[Tensor, "B h k K"]:
    """A between channels, for the channels (rows) and groups (heads) asked."""
    q, k, _ = _prepared(call)
    return (q[:, heads, :, rows].mT @ k[:, heads] * _scale(call)).softmax(-1)


def attend(call: Call) -> Float[Tensor, "B H L W"]:
    """Two products, K x K weights per group: linear in the number of positions."""
    q, k, v = _prepared(call)
    scores, scale = q.mT @ k, _scale(call)
    scores = scores if scale == 1.0 else scores * scale
    return (v @ scores.softmax(-1).mT).to(call.q.dtype)


def _prepared(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """Padding zeroed, heads expanded, at least float32 — or a refusal of what this mechanism cannot mean."""
    _refuse(call)
    keep = None if call.mask is None else kept_keys(call.mask)
    heads = call.q.shape[1]
    tensors = [x.to(call.dtype) for x in (call.q, expand(call.k, heads), expand(call.v, heads))]
    if keep is not None:
        tensors = [x.masked_fill(~keep[:, None, :, None], 0) for x in tensors]
    q, k, v = tensors
    return q, k, v


def _refuse(call: Call) -> None:
    sizes = call.sizes
    if sizes.queries != sizes.keys:
        raise ValueError(
            f"channel attention sums over positions: {sizes.queries} queries cannot meet {sizes.keys} keys"
        )
    if sizes.key_width != sizes.value_width:
        raise ValueError(
            f"channel attention averages value channels by key channels: K = {sizes.key_width} and W = "
            f"{sizes.value_width} must be equal"
        )
    if call.mask is not None and without_padding(call.mask) is not None:
        raise ValueError("channel attention mixes all positions into every score: of masks it can honour padding alone")
    if call.bias is not None or call.softcap is not None:
        raise ValueError("channel attention has scores between channels: it takes no bias and no softcap")


def _scale(call: Call) -> float:
    return call.q.shape[3] ** -0.5 if call.scale is None else call.scale


def cache(spec: Spec) -> CacheNeed:
    return CacheNeed("none", why="channel attention sums over all positions: it cannot be read token by token")


def operation(spec: Spec, work: Workload) -> Operation:
    """dense = 2 B H L K² multiply-adds, K channels a group; other = 6 FLOPs for each of B H K² scores.

    A score sums over positions, its softmax and what it weighs over the channels of a group.
    """
    sizes, width = work.sizes, work.sizes.key_width
    per_position = 2 * sizes.heads * width * width
    dense = sizes.batch * sizes.queries * per_position
    keep = None if work.mask is None else kept_keys(work.mask)
    useful = dense if keep is None else int(keep.expand(sizes.batch, -1).sum()) * per_position
    flops = PER_SCORE if work.modifiers.scaled else PER_SCORE - 1
    forward = Cost(dense, useful, dense, flops * sizes.batch * sizes.heads * width * width)
    scaled = (Each(1),) if work.modifiers.scaled else ()
    steps = (Product(sizes.queries, POSITIONS), *scaled, *softmax_steps(width, WIDTH), Product(width, WIDTH))
    return attention_operation(sizes, forward=forward, backward=forward + forward, steps=steps)


MECHANISM = Mechanism(
    "channel",
    Channel,
    reference,
    attend,
    weights,
    operation,
    laws=frozenset({
        "loop", "rows_sum", "groups", "batch", "padding", "quarantine", "empty_rows", "values_linear", "equivariant",
    }),
    pattern=all_pairs,
    cache=cache,
    masks="padding",
    modifiers=frozenset({"scale"}),
    between="channels",
    products=attend,
)  # fmt: skip
