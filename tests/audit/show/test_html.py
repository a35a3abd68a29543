"""The page of an audit: words for every colour, strips and bars in place, hostile text as text, no torch needed."""

import json
import re
import subprocess
import sys
from math import inf, nan

import pytest

from headway.audit.html import MOST, by_layer, document
from headway.audit.report import BROKEN, Finding, ModuleDeviation, Report, read
from headway.render import Section, paragraph
from tests.audit.show.reports_by_hand import HOSTILE, SENTENCES, deep, everything, hostile
from tests.render.parsed import Parsed


def test_every_verdict_is_a_word() -> None:
    text = document(everything(), SENTENCES)
    found = re.findall(r'<b class="pill ([a-z-]+)">([a-z ]+)</b><span class="law" dir="auto">(?:<a [^>]*>)?(\w+)', text)
    assert [(word, law) for _, word, law in found] == [(one.status, one.law) for one in everything()]
    assert all(look == word.replace(" ", "-") for look, word, _ in found)


def test_the_page_has_its_sections_and_health() -> None:
    health = Section("Health", paragraph("Well."), "health")
    found = Parsed(document(everything(), SENTENCES, health=health))
    links = [one for one in found.values("href") if one.startswith("#")]
    for place in ("#verdict", "#law-causal", "#law-padding", "#others", "#health"):
        assert place in links and place[1:] in found.values("id")
    assert SENTENCES["causal"] in found.text and "The model takes no cache" in found.text
    assert "Results before place 5 change" in found.text and "Turned around, place 0 differs." in found.text


def test_the_first_module_and_the_tolerance_are_said() -> None:
    text = by_layer(everything()["causal"])
    assert re.findall(r'<li class="first" title="([^;]*);', text) == ["stack.blocks.3.attention: 1.7e-02"]
    assert text.count("first to go wrong") == 1 and "1.2e-06" in text
    assert text.count('<li class="after"') == 3


def test_bars_are_logarithmic() -> None:
    layers = [
        ModuleDeviation(name, "", value, True) for name, value in (("a", 1e-6), ("b", 1e-4), ("c", 1e-2), ("d", 0.0))
    ]
    text = by_layer(Finding("causal", BROKEN, layers=layers))
    assert re.findall(r"--share:([\d.]+)%", text) == ["20.0", "60.0", "100.0", "0.0"]


@pytest.mark.parametrize("values", [[nan, inf], [0.0, 0.0], [1e-300, 1e300], [nan, 0.0, 3.0]])
def test_bars_bear_any_numbers(values: list[float]) -> None:
    layers = [ModuleDeviation("m", "k", value, True) for value in values]
    for tolerance in (None, 0.0, 1e-7, nan, inf):
        text = by_layer(Finding("causal", BROKEN, tolerance=tolerance, module="m", layers=layers))
        shares = [float(one) for one in re.findall(r"--share:([^%]*)%", text)]
        assert len(shares) == len(values) and all(0 <= one <= 100 for one in shares)


def test_a_deep_model_shows_where_it_begins_and_folds_the_rest() -> None:
    text = document(deep(), SENTENCES)
    near, everything_else = text.split('<ol class="bars"')[1:]
    assert near.count('<span class="track"') == MOST and "first to go wrong" in near
    assert everything_else.count('<span class="track"') == 480 and "All 480 modules" in text
    assert len(text) < 400_000


def test_hostile_text_becomes_no_tag() -> None:
    text = document(hostile(), SENTENCES)
    found = Parsed(text)
    assert found.tags["script"] == 1 and found.tags["img"] == 0
    assert not {"onerror", "onload"} & {name for name, _ in found.attributes}
    assert HOSTILE[0][:31] in found.text
    assert "\u202e" not in text.split("<main>")[0]  # the headline is not turned around
    text.encode("utf-8")


def test_an_audit_without_findings_says_so() -> None:
    text = document(Report("t", "m", []), {})
    assert "No law was examined." in text and "Broken" not in text


@pytest.mark.parametrize("report", [everything(), hostile(), deep(), Report("t", "m", [], quick=True)])
def test_a_report_is_read_back_as_it_was_written(report: Report) -> None:
    back = read(json.loads(json.dumps(report.as_json())))
    assert document(back, SENTENCES) == document(report, SENTENCES)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"findings": None}, "not a report of an audit: 'NoneType' object is not iterable"),
        ({"findings": [{"law": "causal"}]}, "a report of an audit has 'status'"),
        ({"seconds": "soon"}, "'soon' stands where a number is expected"),
        ({"target": 3}, "3 stands where a text is expected"),
        ({"findings": [{"status": "fine"}]}, "a law is holds, broken, not applicable, not claimed, not 'fine'"),
    ],
)
def test_another_file_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        read(everything().as_json() | change)


def test_tokens_without_marks_are_refused() -> None:
    found = everything().as_json()
    found["findings"][0]["example"]["strips"][0]["marks"].pop()
    with pytest.raises(ValueError, match=r"^6 tokens have 5 marks and 6 deviations$"):
        read(found)


def test_nothing_of_it_needs_torch() -> None:
    names = "headway.app.audit_section, headway.audit.text, headway.audit.html"
    code = f"import sys, {names}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
