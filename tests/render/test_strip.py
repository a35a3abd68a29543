"""Rows of tokens: all escaped, marks as signs and words, and long stretches left out."""

import re
from math import inf, nan

import pytest

from headway.render import Token, keys, legible, strip, visible
from headway.render.tokens import shortened
from tests.app.runs_by_hand import HOSTILE
from tests.render.parsed import Parsed


@pytest.mark.parametrize("text", [HOSTILE, "'\"><svg onload=x>", "<!--", "&lt;", "\ud800 \x00"])
def test_no_text_becomes_a_tag_or_an_attribute(text: str) -> None:
    def made(word: str) -> Parsed:
        return Parsed(strip(word, [Token(word, ("changed", word)), Token(word, ("broken",), nan, 1)]))

    hostile, harmless = made(text), made("word")
    assert hostile.tags == harmless.tags
    assert [name for name, _ in hostile.attributes] == [name for name, _ in harmless.attributes]
    assert visible(text) in hostile.text  # the title tells all of it


def test_a_token_has_its_marks_as_words_and_signs() -> None:
    text = strip("a row", [Token("a", ("broken", "changed"), 0.25, 3)])
    assert 'class="box changed broken"' in text and "<small>3 <b>^!</b></small>" in text
    assert 'title="3: a (changed, result deviates, deviation 2.5e-01)"' in text


def test_the_colour_is_stronger_the_worse_it_is() -> None:
    values = [1e-12, 1e-4, 1e-2, 1.0, inf, nan]
    text = strip("a row", [Token("a", ("broken",), value) for value in values], keep=9)
    heats = [int(one) for one in re.findall(r"--heat:(\d+)%", text)]
    assert heats == [15, 30, 45, 60, 60, 60]
    assert "--heat" not in strip("a row", [Token("a", (), 1.0)])


def test_the_legend_has_the_marks_that_are_there() -> None:
    assert Parsed(keys([Token("a", ("padding",)), Token("b", ("broken",))])).text == "ppadding!result deviates"
    assert keys([Token("a")]) == ""


def test_a_stretch_keeps_its_ends_its_marks_and_its_worst() -> None:
    tokens = [Token("p", ("padding",), None, place) for place in range(9)]
    tokens += [Token("x", ("broken",), nan if place == 12 else 0.5, place) for place in range(9, 18)]
    found = shortened(tokens, keep=2)
    assert [one.place for one in found] == [0, 1, 2, 7, 8, 9, 10, 11, 16, 17]
    gaps = [one for one in found if one.more]
    assert [(one.text, one.more, one.marks) for one in gaps] == [
        ("… 5 more", 5, ("padding",)), ("… 5 more", 5, ("broken",)),
    ]  # fmt: skip
    assert gaps[0].deviation is None and gaps[1].deviation != gaps[1].deviation
    assert shortened(tokens[:6], keep=2) == tokens[:6]
    assert "2–6" in Parsed(strip("", tokens, keep=2)).text


def test_tokens_are_legible() -> None:
    assert [legible(one) for one in ("\u202eab", "a b\n\t", "\u0301", "", "e\u0301")] == [
        "\\u202eab", "a␣b↵⇥", "◌\u0301", "∅", "e\u0301",
    ]  # fmt: skip
    assert len(legible("x" * 999)) == 32
