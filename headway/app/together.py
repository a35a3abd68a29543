"""Work that one process does before the others may go on."""

from collections.abc import Callable
from typing import TypeVar

from headway.training.world import World

T = TypeVar("T")


def first_alone(world: World, job: Callable[[], T]) -> T | None:
    """What the first process finds, and None in the others, which wait; where it fails all end, and one says why."""
    found: T | None = None
    problem: Exception | None = None
    if world.first:
        try:
            found = job()
        except (ValueError, OSError) as error:
            problem = error
    failed = world.share(problem is not None)
    if problem is not None:
        raise problem
    if failed:
        raise SystemExit(2)
    return found
