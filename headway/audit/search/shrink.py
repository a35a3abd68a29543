"""The smallest counter-example in reach: simpler cases as long as they still break the law."""

from collections.abc import Callable

from headway.audit.search.case import Case, smaller


def shrunk(case: Case, breaks: Callable[[Case], bool], *, tries: int, shortest: int = 1, multiple: int = 1) -> Case:
    """The last case that still breaks, after at most so many tries.

    >>> shrunk(Case(0, 9, changed=(3, 7)), lambda case: case.length > 4 and bool(case.changed), tries=99)
    Case(seed=0, length=5, items=1, left=0, right=0, changed=(3,), chunks=(), source=0, content='')
    """
    while tries > 0:
        for simpler in smaller(case, shortest=shortest, multiple=multiple):
            tries -= 1
            if breaks(simpler):
                case = simpler
                break
            if tries <= 0:
                return case
        else:
            return case
    return case
