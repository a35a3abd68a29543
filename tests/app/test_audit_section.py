"""The section "Audit" of report.html, from the file that an audit leaves in a run's directory."""

import json
from pathlib import Path

import pytest

from headway.app.audit_section import audit
from headway.app.run import read_run
from headway.render import page
from tests.app.runs_by_hand import make_run
from tests.audit.show.reports_by_hand import SENTENCES, everything
from tests.render.parsed import Parsed


def test_a_run_that_was_not_audited_has_no_section(tmp_path: Path) -> None:
    assert audit(read_run(make_run(tmp_path))) is None


def test_the_section_has_the_parts_of_the_page(tmp_path: Path) -> None:
    path = make_run(tmp_path)
    (path / "audit.json").write_text(json.dumps(everything().as_json() | {"sentences": SENTENCES}))
    section = audit(read_run(path))
    assert section is not None and (section.title, section.id) == ("Audit", "audit")
    found = Parsed(page("A run", [section]))
    assert "#law-causal" in found.values("href") and "law-causal" in found.values("id")
    assert found.tags["h3"] == 2 and "first to go wrong" in found.text and SENTENCES["batch"] in found.text


def test_the_laws_need_not_be_said_in_words(tmp_path: Path) -> None:
    path = make_run(tmp_path)
    (path / "audit.json").write_text(json.dumps(everything().as_json()))
    section = audit(read_run(path))
    assert section is not None and SENTENCES["batch"] not in section.html and "broken" in section.html


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{", "is not valid JSON"),
        ('{"a": 1}', r"^audit.json is not as `headway audit` writes it \(a report of an audit has 'target'\)$"),
        (json.dumps(everything().as_json() | {"sentences": 3}), "the sentences of the laws are int"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, written: str, said: str) -> None:
    path = make_run(tmp_path)
    (path / "audit.json").write_text(written)
    with pytest.raises(ValueError, match=said):
        audit(read_run(path))
