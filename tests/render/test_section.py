"""Pages: whole, escaped, and told to fetch nothing."""

import re

import pytest

from headway.render import (
    Branch,
    Fact,
    Html,
    Section,
    Series,
    Table,
    commands,
    facts,
    folded,
    html_table,
    joined,
    line_chart,
    page,
    paragraph,
    preformatted,
    sample,
    tree,
    visible,
)
from tests.app.runs_by_hand import HOSTILE
from tests.render.parsed import Parsed

PARTS = {
    "paragraph": lambda text: paragraph(text),
    "preformatted": lambda text: preformatted(text, label=text),
    "sample": lambda text: sample(text, text, label=text),
    "folded": lambda text: folded(text, Html("")),
    "facts": lambda text: facts(text, [Fact(text, text, text)]),
    "commands": lambda text: commands([(text, text)]),
    "table": lambda text: html_table(Table(text, [text, "b"], [[text, 1.0], [text, 2.0]])),
    "tree": lambda text: tree(text, [Branch(text, text, text, 0.5, (Branch(text),))]),
    "chart": lambda text: line_chart(text, [Series(text, [(0, 1.0), (1, 2.0)]), Series("b", [(0, 1.0)])], x=text),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("text", [HOSTILE, "'\"><svg onload=x>", "<!--", "]]>", "&lt;", "\ud800 \x00"])
def test_no_text_becomes_a_tag_or_an_attribute(part: str, text: str) -> None:
    hostile, harmless = Parsed(PARTS[part](text)), Parsed(PARTS[part]("word"))
    assert hostile.tags == harmless.tags
    assert [name for name, _ in hostile.attributes] == [name for name, _ in harmless.attributes]
    assert visible(text) in hostile.text  # and the reader sees all of it
    PARTS[part](text).encode("utf-8")


def test_a_page_has_its_sections_and_a_way_to_each() -> None:
    sections = [Section(f"Part {one}", paragraph(HOSTILE), f"part-{one}") for one in range(3)]
    text = page(HOSTILE, sections, HOSTILE)
    found = Parsed(text)
    assert found.tags["section"] == 3 and found.tags["script"] == 1 and found.tags["h1"] == 1
    assert found.values("href") == ["data:,", "#part-0", "#part-1", "#part-2"]
    assert text.startswith("<!DOCTYPE html>") and "<title>&lt;/script&gt;" in text


def test_a_page_names_nothing_outside_itself() -> None:
    text = page("A", [Section("B", PARTS["chart"]("x"), "b")])
    assert re.findall(r"https?:|//[a-z]|url\(|@import|src=", text) == []
    assert "default-src 'none'" in text


def test_a_script_of_a_section_is_taken_once_and_allowed_by_its_hash() -> None:
    part = Section("A", Html(""), "a", script="let x = 1;")
    text = page("t", [part, Section("B", Html(""), "b", script="let x = 1;")])
    assert text.count("let x = 1;") == 1
    assert text.count("'sha256-") == 2 and "script-src 'unsafe-inline'" not in text


def test_mistakes_are_said() -> None:
    with pytest.raises(ValueError, match=r"^two sections have the id 'a'$"):
        page("t", [Section("A", Html(""), "a"), Section("B", Html(""), "a")])
    with pytest.raises(ValueError, match="lower-case letters, digits and hyphens, not 'A b'"):
        Section("A", Html(""), "A b")
    with pytest.raises(ValueError, match=r"^a row of 3 cells does not fit 2 columns: \[1, 2, 3\]$"):
        Table("t", ["a", "b"], [[1, 2, 3]])


def test_a_table_can_be_read_aloud() -> None:
    text = html_table(
        Table("Losses", ["step", "loss", "what"], [[200, 1.75, "a"], [400, None, "b"], [600, 1.5, "c"]]), best=600
    )
    found = Parsed(text)
    assert found.tags["caption"] == 1 and found.values("scope") == ["col"] * 3 + ["row"] * 3
    assert '<td class="number">1.50</td>' in text and '<td class="number">–</td>' in text
    assert text.count("class=best") == 1 and "<tr class=best><th" in text


def test_joined_leaves_out_what_is_empty() -> None:
    assert joined(Html("a"), Html(""), Html("b")) == "a\nb"


@pytest.mark.parametrize("text", ["\nline", "line\n", "\n\n"])
def test_line_breaks_at_the_start_are_kept(text: str) -> None:
    """HTML drops one line break after <pre>."""
    for html in (preformatted(text, label="x"), sample("", text, label="x"), sample(text, "more", label="x")):
        inside = re.sub(r"</?b>", "", html[html.index(">") + 1 : html.index("</pre>")])
        seen = inside[1:] if inside.startswith("\n") and not html[html.index(">") + 1 :].startswith("<") else inside
        assert seen.startswith(text)
