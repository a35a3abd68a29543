"""Random numbers without a state: one for each seed and position, so that a draw does not depend on those before it."""

_WORD, _GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) for a seed and a position: the position-th of SplitMix64 (Steele et al. 2014), 53 bits of it.

    The seed is mixed too, so that neighbouring seeds do not give shifted copies of one sequence.

    >>> uniform(0, 0), uniform(0, 1), uniform(1, 0)
    (0.65245, 0.70121, 0.36819)
    """
    return (mix(mix(seed) + position * _GOLDEN) >> 11) * 2.0**-53


def mix(word: int) -> int:
    """SplitMix64's output for a state: every bit of it depends on every bit of the word."""
    word = (word + _GOLDEN) & _WORD
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & _WORD
    return word ^ (word >> 31)
