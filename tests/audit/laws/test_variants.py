"""Several findings of one law become one: nothing that was not tried is said to hold."""

from headway.audit.laws.variants import combine
from headway.audit.report import BROKEN, HOLDS, NOT_APPLICABLE, Finding

HELD, FAILED = Finding("a", HOLDS, 3, 1e-9), Finding("b", NOT_APPLICABLE, why="a trial failed")


def test_what_could_not_be_tried_is_named_beside_what_holds() -> None:
    found = combine([HELD, FAILED], "masks")
    assert (found.law, found.status, found.trials, found.why) == ("masks", HOLDS, 3, "a trial failed")


def test_nothing_tried_does_not_hold() -> None:
    found = combine([FAILED, FAILED], "masks")
    assert (found.status, found.trials, found.why) == (NOT_APPLICABLE, 0, "a trial failed")
    assert combine([], "masks").status == NOT_APPLICABLE


def test_the_first_broken_one_ends_it() -> None:
    def findings():
        yield HELD
        yield Finding("c", BROKEN, 2, 0.5)
        raise AssertionError("nothing is tried after it")

    found = combine(findings(), "determinism")
    assert (found.status, found.trials, found.deviation) == (BROKEN, 5, 0.5)
