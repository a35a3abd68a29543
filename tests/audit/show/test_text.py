"""The audit in a terminal: every verdict in its row, marks beneath their tokens, nothing that breaks a line."""

import re

import pytest
from rich.cells import cell_len

from headway.audit.report import HOLDS, Finding, Report
from headway.audit.text import LEFT_TO_RIGHT, explain, lines, row
from headway.render import Token
from tests.audit.show.reports_by_hand import SENTENCES, deep, everything, hostile


def test_the_table_has_a_row_for_each_law() -> None:
    found = lines(everything(), SENTENCES)
    rows = {line.split()[0]: re.split(r"  +", line) for line in found[2:9]}
    assert rows["causal"] == ["causal", "broken", "48", "3.1e-01", "1.2e-06", "stack.blocks.3.attention"]
    assert rows["padding"] == ["padding", "broken", "12", "NaN", "2.0e-06", "–"]
    assert rows["batch"] == ["batch", "holds", "30", "3.2e-16", "–", "–"]
    assert rows["cache"] == ["cache", "not applicable", "0", "–", "–", "–"]
    assert rows["reflection"] == ["reflection", "not claimed", "5", "0", "–", "–"]


def test_the_last_line_sums_up() -> None:
    told = "7 laws: 2 hold, 2 broken (causal, padding), 1 not applicable, 2 not claimed; 104 trials in 14 s"
    assert lines(everything(), SENTENCES)[-1] == told
    assert lines(Report("t", "m", [Finding("batch", HOLDS, 1)]), {})[-1] == "1 law: 1 holds; 1 trial in 0 s"
    assert lines(Report("t", "m", []), {})[-1] == "no law was examined"


def test_a_broken_law_is_drawn_on_its_tokens() -> None:
    found = lines(everything(), SENTENCES)
    start = found.index(f"causal is broken: {SENTENCES['causal']}")
    assert found[start + 1] == "  Results before place 5 change with the input at 5."
    assert found[start + 6 : start + 11] == [
        "  with another token at place 5:",
        "    0    1     2     3    4     5",
        "    The  ␣cat  ␣sat  ␣on  ␣the  ␣dog",
        "               !     !    !     ^!",
        "  ^ changed   ! result deviates",
    ]
    assert "  The first module that went wrong: stack.blocks.3.attention (SelfAttention)." in found
    assert "  Drawn with seed 7, length 6, items 1, changed [5]." in found


def test_reasons_notes_and_details_are_said() -> None:
    text = "\n".join(lines(everything(), SENTENCES))
    assert "  cache: The model takes no cache: its forward has no argument for one." in text
    assert "  reflection: the model need not obey it, and no counter-example was found" in text
    assert "  Masks were passed as attention_mask, 1 = real" in text
    assert re.search(r"^  bfloat16  inf +–  x$", text, re.MULTILINE)
    assert "The deviation is NaN: one of two results that should be equal is no number." in text


@pytest.mark.parametrize("width", [40, 60, 100])
@pytest.mark.parametrize("report", [everything(), deep()], ids=["everything", "deep"])
def test_lines_keep_to_the_width(report: Report, width: int) -> None:
    # The headline is the model's own and may be longer, as may the last line.
    found = lines(report, {}, width=width)[1:-1]
    assert [line for line in found if cell_len(line) > width] == []


def test_long_stretches_are_left_out_and_counted() -> None:
    found = lines(deep(), SENTENCES)
    assert sum("word" in line for line in found) == 2
    assert any("… 688 more" in line for line in found)


def test_hostile_text_stays_in_its_line() -> None:
    text = "\n".join(lines(hostile(), SENTENCES))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    assert "\\u202e" in text and "␛[31m␀↵" in text
    text.encode("utf-8")


def test_marks_stand_beneath_wide_and_right_to_left_tokens() -> None:
    tokens = [Token("猫猫"), Token("שלום", place=1), Token("x", ("broken",), place=2)]
    places, texts, marks = row(tokens, width=80)
    assert (places, marks) == ("0     1     2", "            !")
    assert texts == f"猫猫  שלום{LEFT_TO_RIGHT}  x"
    assert cell_len(texts.replace(LEFT_TO_RIGHT, "")[:-1]) == marks.index("!")


def test_colour_changes_no_word() -> None:
    coloured = lines(everything(), SENTENCES, colour=True)
    assert "causal      \x1b[1;31mbroken\x1b[0m" in coloured[2] and "\x1b[32mholds" in coloured[4]
    assert [re.sub(r"\x1b\[[\d;]*m", "", line) for line in coloured] == lines(everything(), SENTENCES)
    assert "\x1b" not in "\n".join(lines(everything(), SENTENCES))


def test_one_law_can_be_told_alone() -> None:
    found = explain(everything()["causal"], {}, seed=3)
    assert found[0] == "causal is broken" and "               !     !    !     ^!" in found
