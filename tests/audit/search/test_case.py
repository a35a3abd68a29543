"""Shrinking: a counter-example comes down to the least that still shows the fault."""

from dataclasses import replace

import pytest

from headway.audit.search.case import Case, shrink, smaller


def test_a_shrunk_case_is_minimal_in_every_direction() -> None:
    """The fault needs 5 places, one change after the third, two items and a piece of one: no simpler case shows it."""

    def breaks(case: Case) -> bool:
        return case.length >= 5 and any(place >= 3 for place in case.changed) and case.items >= 2

    big = Case(7, 60, 5, left=9, right=4, changed=(1, 30, 44, 59), source=12)
    found = shrink(big, breaks, tries=500)
    assert (found.length, found.items, found.left, found.right, found.source) == (5, 2, 0, 0, 1)
    assert len(found.changed) == 1
    assert not any(breaks(one) for one in smaller(found))


def test_a_text_is_cut_at_its_beginning_too() -> None:
    found = shrink(Case(0, 50, changed=(49,)), lambda case: case.changed == (case.length - 1,), tries=200)
    assert (found.length, found.changed) == (1, (0,))


@pytest.mark.parametrize("case", [Case(0, 9, chunks=(4, 1, 4)), Case(1, 8, 3, changed=(2, 5), left=2, right=1)])
def test_every_simpler_case_is_simpler_and_whole(case: Case) -> None:
    def size(one: Case) -> tuple[int, ...]:
        return (one.length, one.items, len(one.changed), one.left + one.right, len(one.chunks), one.source)

    for one in smaller(case):
        assert sum(size(one)) < sum(size(case)) or len(one.chunks) < len(case.chunks)
        assert all(0 <= place < one.length for place in one.changed)
        assert not one.chunks or sum(one.chunks) == one.length


def test_lengths_stay_multiples() -> None:
    assert {one.length for one in smaller(Case(0, 12), multiple=4) if one != replace(one, length=12)} == {4, 8}


def test_few_tries_give_the_best_so_far() -> None:
    assert shrink(Case(0, 64), lambda case: case.length > 3, tries=3).length in range(4, 64)
