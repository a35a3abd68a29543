"""How far a test looks: as every day, or as `make test-thorough` does (`pytest --hypothesis-profile=thorough`)."""

from hypothesis import settings

THOROUGH = settings().max_examples > 100


def examples(daily: int, thorough: int) -> settings:
    """For a property that is too slow for what its profile asks: how many examples it has daily and thoroughly."""
    return settings(max_examples=thorough if THOROUGH else daily)
