"""Records drawn with letters: within the width, the same numbers, and nothing that a token could do to a terminal."""

import re

import numpy as np
import pytest

from headway.look.packed import weights
from headway.look.pattern import PatternOptions, look_of, rules_of_mask, rules_of_set
from headway.look.record import Layer, Look, Measures, Side
from headway.look.terminal import draw, fit_text, heads_table, pool_cells

HOSTILE = ("<b>", "\x1b[31mred\x1b[0m", "שלום", "😀", "日本語", "\u202e", "\r\n", "a" * 40, "", "é", "\t")


def look(tokens: tuple[str, ...], *, layers: int, heads: int) -> Look:
    """Heads that look at the token before, in all layers alike."""
    count = len(tokens)
    values = np.zeros((heads, count, count))
    values[:, np.arange(count), np.maximum(np.arange(count) - 1, 0)] = 1.0
    maps = np.rint(255 * values).astype(np.uint8)
    measures = tuple(Measures(0.1, 1.0, 1.0, role="previous") for _ in range(heads))
    made = [
        Layer(f"blocks.{n}", str(n + 1), "decoder", "softmax", 0, 0, tuple(range(heads)), (0, count),
              weights(values), maps, measures)
        for n in range(layers)
    ]  # fmt: skip
    return Look("a model", (Side("text", tokens),), tuple(made))


@pytest.mark.parametrize("width", [40, 80, 133])
@pytest.mark.parametrize(("layers", "heads"), [(4, 4), (2, 12), (1, 3)])
def test_overview_fits_the_width_and_names_every_head(width: int, layers: int, heads: int) -> None:
    drawn = draw(look(tuple("abcdefghijk"), layers=layers, heads=heads), width=width)
    assert max(map(len, drawn.splitlines())) <= width
    assert len(re.findall(r"\b\d+ previous", drawn)) == layers * heads
    assert [line for line in drawn.splitlines() if line.startswith("decoder")] == [
        f"decoder {n + 1}" for n in range(layers)
    ]
    assert "\x1b" not in drawn


def test_a_map_shows_the_head() -> None:
    """A head that looks at the token before has its dark cells below the diagonal, two letters each."""
    drawn = draw(look(tuple("abcde"), layers=1, heads=2), width=24).splitlines()
    assert [line[:10].rstrip() for line in drawn[1:6]] == ["██", "██", "  ██", "    ██", "      ██"]


def test_one_head_has_its_tokens_and_numbers() -> None:
    drawn = draw(look(("to", " be", "or"), layers=1, heads=1)).splitlines()
    assert drawn[0] == "decoder 1, head 0: previous"
    assert drawn[2].split() == ["␣be", "██", "to", "100", "%"]
    assert drawn[3].split() == ["or", "██", "␣be", "100", "%"]


def test_tokens_cannot_do_anything_to_a_terminal() -> None:
    drawn = draw(look(HOSTILE, layers=1, heads=1))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", drawn)
    assert len(drawn.splitlines()) == len(HOSTILE) + 1


def test_colour_only_where_it_is_asked_for() -> None:
    found = look(tuple("abcdefg"), layers=1, heads=3)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", draw(found, colour=True))
    assert "\x1b[38;2;" in draw(found, colour=True)
    assert max(map(len, plain.splitlines())) <= 80


def test_a_pattern_has_a_square_for_each_pair() -> None:
    drawn = draw(look_of("x", rules_of_mask("window", PatternOptions(length=3, window=2)))).splitlines()
    assert drawn == ["window (77.8 % of pairs)", "■ ■ ·", "■ ■ ■", "· ■ ■"]


def test_patterns_stand_side_by_side_as_far_as_they_fit() -> None:
    drawn = draw(look_of("x", rules_of_set("textbook", PatternOptions(length=7))), width=80).splitlines()
    assert "full (100 % of pairs)" in drawn[0] and "local" in drawn[0]
    assert max(map(len, drawn)) <= 80
    long = draw(look_of("x", rules_of_mask("causal", PatternOptions(length=300))), width=60)
    assert max(map(len, long.splitlines())) <= 60 and "█" in long


def test_pooling_keeps_thin_lines() -> None:
    line = np.eye(48)
    assert (pool_cells(line, 9, 18).max(1) > 0.15).all()
    assert pool_cells(np.array([[1.0, 0.0]]), 2, 4).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0]]


def test_texts_are_cut_to_columns() -> None:
    assert fit_text("日本語", 4) == "日… " and fit_text("abc", 3) == "abc" and fit_text("abcd", 3) == "ab…"


def test_table_of_heads_within_a_width() -> None:
    row = {"layer": 0, "label": "10", "kind": "decoder", "head": 3, "role": "begin of word", "share": 0.5}
    rows = [row | {"chance": 0.25, "entropy": 0.5, "reach": 1.5}]
    assert max(map(len, heads_table(rows).splitlines())) > 53
    drawn = heads_table(rows, width=40).splitlines()
    assert max(map(len, drawn)) <= 40 and drawn[0].split() == ["layer", "head", "role", "share"]
    assert drawn[-1] == "no room for chance, entropy, reach"
    assert heads_table(rows, width=63) == heads_table(rows)


def test_table_of_heads() -> None:
    rows = [
        {"layer": 0, "label": "1", "kind": "decoder", "head": 10, "role": "previous", "share": 0.5, "reach": None},
        {"layer": 1, "label": "2", "kind": "cross", "head": 2, "role": "broad", "share": None, "reach": 12.3456},
    ]
    assert heads_table(rows).splitlines() == [
        "layer      head  role       share   reach",
        "decoder 1    10  previous  50.0 %       –",
        "cross 2       2  broad          –  12.346",
    ]
