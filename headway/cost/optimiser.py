"""What an optimiser costs: FLOPs and bytes for each parameter.

adamw (arXiv:1711.05101), one FLOP for each operation of the formula:

    m = β₁ m + (1-β₁) g   3        v = β₂ v + (1-β₂) g²   4        m̂, v̂   2        p -= lr (m̂ / (√v̂ + ε) + λ p)   7

sgd with momentum: m = μ m + g, p -= lr m. muon keeps one moment of a matrix; its products depend on the shape, and are
not counted here (None).
"""

from headway.config import nearest
from headway.sizes import Cost, Number, other

FLOPS = {"adamw": 16, "adam": 14, "sgd": 4, "none": 0}
# Numbers kept beside each parameter, 4 bytes each.
KEPT = {"adamw": 2, "adam": 2, "sgd": 1, "none": 0, "muon": 1}


def optimiser_cost(name: str, parameters: Number) -> Cost:
    """The FLOPs of one update.

    >>> optimiser_cost("adamw", 10).other
    160
    """
    return other(_known(name, FLOPS) * parameters)


def optimiser_bytes(name: str, parameters: Number) -> Number:
    """The bytes of its state, in float32."""
    return 4 * _known(name, KEPT) * parameters


def _known(name: str, table: dict[str, int]) -> int:
    if name not in table:
        raise ValueError(f"there is no price of optimiser {name!r}{nearest(name, table)}; there are {', '.join(table)}")
    return table[name]
