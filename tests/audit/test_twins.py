"""Every bug is found by its law, at its module, and by no other law; the same model without the bug obeys that law.

Daily each sick twin meets its own law, every fourth another one too, and every second sound one is looked at;
`make test-thorough` tries every law on all that are sick, and looks at all that are sound.
"""

from collections import Counter

import pytest

from headway.audit.examination import examine
from headway.audit.laws import LAWS
from tests.audit.twins import TWINS
from tests.audit.twins.twin import Twin
from tests.thorough import THOROUGH

# Many bugs have the same model without them; one look at it is enough for each law.
SOUND = list({(twin.law, twin.sound): twin for twin in TWINS}.values())[:: 1 if THOROUGH else 2]
OFTEN = 4


def each(twins: list[Twin]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("twin", twins, ids=[twin.name for twin in twins])


def others(twin: Twin) -> list[str]:
    """Laws that the bug must not break: all, or now and then one of them, another each time."""
    free, place = [law for law in LAWS if law != twin.law and law not in twin.also], TWINS.index(twin)
    if THOROUGH:
        return free
    return [] if place % OFTEN else [free[place // OFTEN % len(free)]]


@each(TWINS)
def test_the_bug_is_found_where_it_is(twin: Twin) -> None:
    model, adapter = twin.build()
    report = examine(model, adapter, laws=[twin.law, *others(twin)])
    assert [one.law for one in report.broken] == [twin.law]
    found = report[twin.law]
    assert found.module == twin.module
    assert found.trials > 0 and found.example is not None


@each(SOUND)
def test_without_the_bug_the_law_holds(twin: Twin) -> None:
    model, adapter = twin.sound()
    found = examine(model, adapter, laws=twin.law)[twin.law]
    assert (found.status, found.example) == ("holds", None)
    assert found.trials > 0


def test_every_law_has_twins_enough() -> None:
    counts = Counter(twin.law for twin in TWINS)
    assert set(counts) == set(LAWS) and min(counts.values()) >= 2
    assert len({twin.name for twin in TWINS}) == len(TWINS) >= 48
