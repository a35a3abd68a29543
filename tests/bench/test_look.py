"""What looking costs: rows of the usual form, and a page that really answers a pointer."""

from typing import Any

import pytest

from headway.bench import look as work
from headway.bench.look import missing
from headway.bench.machine import MachineLimits
from headway.bench.measure import Timing
from headway.bench.run import Bench
from headway.presets.gpt2 import gpt2

RUN = Bench(MachineLimits("toy", 1, {"float32": 1e12}, 1e12, Timing((1.0, 1.0))), quick=True, seconds=0.0)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    small = gpt2(width=12, heads=3, layers=2).model_copy(update={"vocabulary": 97, "length": 64})
    monkeypatch.setattr(work, "preset", lambda name: small)
    monkeypatch.setattr(work, "LENGTH", 4 * 29)
    monkeypatch.setattr(work, "HOVERS", 4 * 3)


def test_a_watched_pass_beside_one_that_is_not() -> None:
    time, memory = work.CASES["capture"](RUN)
    assert time.headway is not None and set(time.peers) == {"unwatched", "transformers, attentions"}, time.note
    assert memory.unit == "MB" and memory.headway is not None and 0 < memory.headway < 1
    assert memory.peers["transformers, attentions"] > 2 * 3 * 29 * 29 * 4 / 1e6, "every weight is in it"


def test_contenders_that_disagree_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*given: Any) -> Any:
        out, seen, rows = right(*given)
        return out + 1, seen, rows

    right = work.watched
    monkeypatch.setattr(work, "watched", wrong)
    assert next(work.CASES["capture"](RUN)).verdict == "not measured"


def test_the_page_in_a_browser() -> None:
    opened, hover = work.CASES["page"](RUN)
    if missing():
        assert opened.verdict == hover.verdict == "not measured" and "chromium" in opened.note + hover.note
        return
    assert opened.headway is not None and opened.headway > 0 and opened.note.endswith(" MB")
    assert hover.headway is not None and hover.headway > 0 and "the slowest of" in hover.note
    assert opened.verdict in ("met", "missed") and hover.verdict in ("met", "missed")


def test_without_a_browser_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    rows = list(work.CASES["page"](RUN))
    assert [row.verdict for row in rows] == ["not measured"] * 2 and all("no chromium" in row.note for row in rows)
