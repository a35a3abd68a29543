"""Hard attention: each head looks at one key alone, the one that scores best.

    out_i = v_j        j = argmax_j q_i·k_j · scale        over the keys that i may see, the first of equals

The limit of softmax attention as the scale grows. Gradients flow through the values alone, so nothing would learn where
to look: it is no mechanism of MECHANISMS, but a means to ask how far attention can see at least and at most.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.config import Spec
from headway.ops.attention.call import Call
from headway.ops.attention.kernels.eager import bias_at, dot, expand, modify


class Hard(Spec):
    """The options of hard attention: none."""

    kind: str = "hard"


def reference(call: Call) -> Float[Tensor, "B H L W"]:
    """The matrix times the values."""
    v = expand(call.v, call.q.shape[1])
    # Where the one weight of a row is 0 or 1, a NaN elsewhere must not arrive: 0 x NaN would be NaN.
    kept = torch.where(weights(call)[..., None] > 0, v[:, :, None], 0.0)
    return kept.sum(3)


def weights(call: Call) -> Float[Tensor, "B H L M"]:
    """One 1 in each row; none in a row that may see nothing."""
    chosen, seen = _chosen(call)
    return (F.one_hot(chosen, call.k.shape[2]) * seen[..., None]).to(call.q.dtype)


def attend(call: Call) -> Float[Tensor, "B H L W"]:
    """The values looked up; 0 in a row that may see nothing."""
    chosen, seen = _chosen(call)
    v = expand(call.v, call.q.shape[1])
    found = v.gather(2, chosen[..., None].expand(-1, -1, -1, v.shape[3]))
    return found.masked_fill(~seen[..., None], 0)


def _chosen(call: Call) -> tuple[Int[Tensor, "B H L"], Bool[Tensor, "B H L"]]:
    """The key of each row, and whether the row may see any."""
    with torch.no_grad():
        parameters = tuple(extra.value for extra in call.extras)
        scores = dot(call, call.q.to(call.dtype), call.k.to(call.dtype))
        scores = modify(scores, call, bias_at(call.bias, parameters, call.pairs))
        if call.mask is not None:
            scores = scores.masked_fill(~call.mask.at(call.pairs), float("-inf"))
        return scores.argmax(-1), scores.amax(-1) > float("-inf")
