"""What is done to logits before a token is chosen, and what is read off them."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK = 2**17  # numbers at once: temporaries that stay in the processor's cache are several times faster


def penalise(
    logits: Float[Tensor, "B V"], seen: Int[Tensor, "B T"], penalty: Float[Tensor, " B"]
) -> Float[Tensor, "B V"]:
    """Logits of tokens seen before, each divided once by the penalty (Keskar et al. 2019, arXiv:1909.05858).

    The paper writes it for positive logits; a negative one is multiplied, so that it falls as well.

    >>> penalise(torch.tensor([[2.0, -2.0, 1.0]]), torch.tensor([[0, 1, 0]]), torch.tensor([4.0]))
    tensor([[ 0.5000, -8.0000,  1.0000]])
    """
    found, factor = logits.gather(1, seen), penalty.to(logits.dtype)[:, None]
    return logits.scatter(1, seen, torch.where(found > 0, found / factor, found * factor))


def steer(
    scores: Float[Tensor, "B V"], never: Sequence[int], forced: Sequence[int | None] = ()
) -> Float[Tensor, "B V"]:
    """-∞ for tokens that may never come; where a token is forced, it has 0 and all others -∞.

    >>> steer(torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]), [2], [None, 1])
    tensor([[1., 2., -inf],
            [-inf, 0., -inf]])
    """
    if never:
        scores = scores.index_fill(1, torch.tensor(never, device=scores.device), -math.inf)
    rows = [row for row, token in enumerate(forced) if token is not None]
    if not rows:
        return scores
    scores = scores.index_fill(0, torch.tensor(rows, device=scores.device), -math.inf)
    scores[rows, [forced[row] for row in rows]] = 0.0
    return scores


def log_total(logits: Float[Tensor, "B V"]) -> Float[Tensor, " B"]:
    """log Σ exp(logits) in float64: a token's log-probability is its logit less this.

    >>> log_total(torch.tensor([[0.0, 0.0]])).item()
    0.6931
    """
    wide, size = torch.promote_types(logits.dtype, torch.float32), max(1, CHUNK // logits.shape[1])
    best = logits.amax(-1, keepdim=True)
    check_finite(best[:, 0])
    parts = zip(logits.split(size), best.split(size), strict=True)
    totals = [(part.to(wide) - most.to(wide)).exp_().sum(-1, dtype=torch.float64) for part, most in parts]
    return best[:, 0].double() + torch.cat(totals).log()


def weights(logits: Float[Tensor, "B V"], heat: Float[Tensor, "b 1"]) -> Float[Tensor, "B V"]:
    """exp((logits - max) / temperature); float32 stays float32, whose rounding moves a bound less than noise does."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    best = logits.amax(-1, keepdim=True)
    check_finite(best[:, 0])
    return ((logits - best) / heat.to(logits.dtype).clamp(min=1e-30)).exp_()


def check_finite(best: Float[Tensor, " B"]) -> None:
    """One look at the largest logit finds NaN and infinity anywhere in a row."""
    if not bool(best.isfinite().all()):
        row = int((~best.isfinite()).int().argmax())
        raise ValueError(
            f"the model's largest logit in row {row} is {float(best[row])}: its weights or inputs are broken"
        )
