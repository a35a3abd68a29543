"""A softmax and how it answers to its scores: weights, the Jacobian diag(a) − a aᵀ, and both as the scores grow.

A saturated softmax is *in*sensitive: one weight is almost 1, the Jacobian is almost 0, and no gradient passes. Scores
q·k of independent entries of variance 1 have the variance K of a head's width, so wide heads saturate more often (in
probability: it takes one score well above the others), which the scale 1/√K prevents.
"""

import numpy as np
import torch
from jaxtyping import Float

from headway.look.pattern.positions import Curves, Embedding, Heat
from headway.ops.jacobian import jacobian_norm, softmax_jacobian

GAP = 12.0  # between the two largest scores: beyond it the largest weight is 1 but for 1e-5
POINTS = 61
SATURATED, KEYS, ROWS = 0.99, 16, 2000  # a weight above this; keys of a row; rows that are drawn by chance
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def softmax_drawn(scores: tuple[float, ...]) -> Embedding:
    """
    >>> softmax_drawn((0.0, 1.0)).parts[1].values.round(4).tolist()
    [[0.1966, -0.1966], [-0.1966, 0.1966]]
    """
    if not 2 <= len(scores) <= 64 or not np.isfinite(scores).all():
        raise ValueError(f"a softmax is drawn of 2 to 64 finite scores, as 1,5,-1; there are {len(scores)}")
    z = torch.tensor(scores, dtype=torch.float64)
    weights, jacobian = z.softmax(-1).numpy(), softmax_jacobian(z).numpy()
    largest = float(np.abs(jacobian).max())
    return Embedding(
        f"Softmax of {', '.join(f'{one:g}' for one in scores)}",
        f"largest weight {weights.max():.6g}, norm of the Jacobian {float(jacobian_norm(z)):.6g} (never above 0.5)",
        (
            Heat("Weights a", "weights", "key", weights[None], 1.0, both=False),
            Heat("Jacobian ∂a/∂z = diag(a) − a aᵀ", "weight", "score", jacobian, largest or 1.0),
            _growing(z),
            _by_width(),
        ),
    )


def _growing(z: Float[torch.Tensor, " n"]) -> Curves:
    """As the scores are multiplied by more and more: first the softmax decides, then it no longer listens."""
    first, second = z.topk(2).values.tolist()
    most = min(max(GAP / (first - second), 1e-3), 1e3) if first > second else 1.0
    factors = torch.linspace(0, most, POINTS, dtype=torch.float64)
    rows = factors[:, None] * z
    series = (
        ("largest weight", factors.numpy(), rows.softmax(-1).amax(-1).numpy()),
        ("norm of the Jacobian", factors.numpy(), jacobian_norm(rows).numpy()),
    )
    return Curves("Both, as all scores are multiplied", "factor", series)


def _by_width() -> Curves:
    draw = torch.Generator().manual_seed(0)
    shares = np.array([_saturated(width, draw) for width in WIDTHS])
    across = np.log2(np.array(WIDTHS, dtype=np.float64))
    title = f"Rows with a weight above {SATURATED}, of {ROWS:,} with {KEYS} random keys, by width of the head"
    return Curves(title, "log2 of the width K", (("q·k", across, shares[:, 0]), ("q·k / √K", across, shares[:, 1])))


def _saturated(width: int, draw: torch.Generator) -> tuple[float, float]:
    q = torch.randn(ROWS, 1, width, generator=draw, dtype=torch.float64)
    k = torch.randn(ROWS, KEYS, width, generator=draw, dtype=torch.float64)
    scores = (q * k).sum(-1)
    plain, scaled = (one.softmax(-1).amax(-1) > SATURATED for one in (scores, scores / width**0.5))
    return plain.double().mean().item(), scaled.double().mean().item()
