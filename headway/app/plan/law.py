"""How good a model gets: the law that a plan ranks sizes by.

    L = E + A / Nᵅ + B / Dᵝ        A = 482.01, α = 0.3478, B = 2085.43, β = 0.3658

of N parameters and D tokens (Hoffmann et al. 2022, arXiv:2203.15556, with the constants that Besiroglu et al. 2024,
arXiv:2404.10102, fitted to their runs), where tokens that are seen again count less (Muennighoff et al. 2023,
arXiv:2305.16264): of U tokens seen R more times

    D' = U + U R* (1 - exp(-R / R*))        R* = 15.39

Its numbers are those of large models and of another text; what is used of it is the order of sizes, no loss.
"""

from math import exp

A, ALPHA = 482.01, 0.3478
B, BETA = 2085.43, 0.3658
REPEATS = 15.387756


def excess(parameters: int, tokens: int | float, different: int | float) -> float:
    """L - E of so many parameters after so many tokens, of which so many are different; the lower the better.

    >>> round(excess(70_000_000_000, 1.4e12, 1.4e12), 4)  # Chinchilla
    0.1567
    """
    return A / max(parameters, 1) ** ALPHA + B / max(worth(tokens, different), 1.0) ** BETA


def worth(tokens: int | float, different: int | float) -> float:
    """Tokens as if each were new.

    >>> round(worth(50.0, 100.0)), round(worth(400.0, 100.0)), round(worth(1e9, 100.0))
    (50, 373, 1639)
    """
    if tokens <= different:
        return float(tokens)
    return different * (1 + REPEATS * (1 - exp(-(tokens / different - 1) / REPEATS)))
