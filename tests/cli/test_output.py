"""The output options: one meaning wherever a verb prints a table."""

import csv
import inspect
import io
import json
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pytest

from headway.cli import main
from headway.cli.option_names import accepted, with_page
from headway.cli.output import Output
from headway.render import GENERATOR, Amount, Table
from tests.render.parsed import Parsed

TABLE = Table("Sizes", ("part", "bytes"), [("a", Amount(2048, "bytes")), ("b", None)])
RECORD = {"a": 2048, "b": float("nan")}


def written(capsys: pytest.CaptureFixture[str], output: Output) -> str:
    output.check()
    output.write([TABLE], record=RECORD, title="A model", notes=["It is small."])
    return capsys.readouterr().out


def test_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    text = written(capsys, Output())
    assert text.startswith("A model\n") and "2.0 kB" in text and text.endswith("It is small.\n")
    assert json.loads(written(capsys, Output(json=True))) == {"a": 2048, "b": None}
    assert list(csv.reader(io.StringIO(written(capsys, Output(csv=True))))) == [
        ["part", "bytes"],
        ["a", "2048"],
        ["b", ""],
    ]
    assert "| a | 2.0 kB |" in written(capsys, Output(markdown=True))
    assert r"\begin{tabular}{lr}" in written(capsys, Output(latex=True))
    page = Parsed(written(capsys, Output(html=Path("-"))))
    assert page.tags["table"] == 1 and "It is small." in page.text and "2.0 kB" in page.text


@pytest.mark.parametrize("name", ["text", "json", "csv", "markdown", "latex", "html"])
def test_a_file_has_what_stdout_would_have(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    flags = {"html": {"html": Path("-")}, "text": {}}.get(name, {name: True})
    place = tmp_path / "result.json"  # the options say the format, not the name of the file
    assert written(capsys, Output(**flags, out=place)) == ""
    assert place.read_text("utf-8") == written(capsys, Output(**flags))


def test_a_page_in_a_file_comes_besides(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place, page = tmp_path / "page.html", f"<html>{GENERATOR}</html>"
    for _ in range(2):  # its own page is replaced
        Output(json=True, html=place).check()
        Output(json=True, html=place).write([TABLE], record=RECORD, page=lambda: page)
        found = capsys.readouterr()
        assert json.loads(found.out) == {"a": 2048, "b": None} and found.err == f"page: {place}\n"


def test_a_page_replaces_no_other_file(tmp_path: Path) -> None:
    place = tmp_path / "notes.txt"
    place.write_text("my notes")
    with pytest.raises(ValueError, match="exists and is no page of headway's: choose another file"):
        Output(html=place).check()
    assert place.read_text() == "my notes"
    with pytest.raises(ValueError, match="is a directory: name a file in it"):
        Output(html=tmp_path).check()
    with pytest.raises(ValueError, match="nowhere does not exist"):
        Output(html=tmp_path / "nowhere" / "x.html").check()


def test_mistakes_are_said_before_anything_is_computed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^one format at a time: --json or --latex$"):
        Output(json=True, latex=True).check()
    with pytest.raises(ValueError, match="is a directory: name a file in it"):
        Output(out=tmp_path).check()


def test_another_spelling_is_accepted_or_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert accepted(["cost", "gpt2", "--output", "x.json"]) == ["cost", "gpt2", "--out", "x.json"]
    assert main(["info", "--output", "x.json"]) == 2
    assert "did you mean --out?" in capsys.readouterr().err


def test_html_takes_a_file_only_if_one_follows() -> None:
    assert with_page(["info", "--html", "--json"]) == ["info", "--html", "-", "--json"]
    assert with_page(["info", "--html"]) == ["info", "--html", "-"]
    assert with_page(["info", "--html=x"]) == ["info", "--html=x"]
    assert with_page(["generate", "--", "--html"]) == ["generate", "--", "--html"]


@pytest.mark.parametrize("verb", ["cost", "plan", "runs", "audit", "bench", "eval", "info", "mechanisms"])
def test_verbs_that_print_tables_have_the_same_options(verb: str) -> None:
    function = getattr(import_module(f"headway.cli.{verb}"), verb)
    assert get_type_hints(function)["output"] is Output
    assert not set(inspect.signature(function).parameters) & {"json", "csv", "markdown", "latex", "html", "out"}


def test_a_command_in_every_format(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def said(*words: str) -> str:
        assert main(["info", *words]) == 0
        return capsys.readouterr().out

    names = [row["name"] for row in json.loads(said("--json"))]
    assert [row[0] for row in csv.reader(io.StringIO(said("--csv")))] == ["name", *names]
    assert "| gpt2 | language |" in said("--markdown") and r"gpt2 & language \\" in said("--latex")
    assert Parsed(said("--html")).tags["tr"] == len(names) + 1
    for option in ("-o", "--out"):
        assert said("--json", option, str(tmp_path / option)) == ""
        assert json.loads((tmp_path / option).read_text())[0] == {"name": "gpt2", "kind": "language"}
