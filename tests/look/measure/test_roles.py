"""Heads that were made to look at one thing are named after it, and measured as by hand."""

import pytest
import torch
from torch import Tensor

from headway.look.layer import layer_of
from headway.look.record import Kind, Look, Side, roles_table
from tests.look.measure.written import Written, looking

TOKENS = (
    "[CLS]",
    " the",
    " cat",
    " saw",
    " The",
    " cats",
    " tail",
    ".",
    "[SEP]",
    "a",
    " play",
    "##ing",
    " cat",
    "[SEP]",
)
WORDS = (-1, 0, 1, 2, 3, 4, 5, 6, -1, 7, 8, 8, 9, -1)
TEXT = Side("text", TOKENS, special=(0, 8, 13), words=WORDS)
ASKS, KEYS = torch.arange(14)[:, None], torch.arange(14)[None]


def same_word() -> Tensor:
    table = torch.zeros(14, 14, dtype=torch.bool)
    for one, other in ((1, 4), (2, 12), (10, 11)):
        table[one, other] = table[other, one] = True
    return table


RULES = {
    "previous": KEYS == ASKS - 1,
    "next": KEYS == ASKS + 1,
    "itself": KEYS == ASKS,
    "first": (KEYS == 0).expand(14, 14),
    "separators": ((KEYS == 8) | (KEYS == 13)).expand(14, 14),
    "same word": same_word(),
    "broad": torch.ones(14, 14, dtype=torch.bool),
}


def of(attention: Written, side: Side = TEXT, kind: Kind = "encoder"):
    return layer_of(attention, label="1", kind=kind, queries=0, keys=0, sides=(side,))


def test_a_head_is_named_after_what_it_looks_at() -> None:
    layer = of(looking(list(RULES.values())))
    assert [one.role for one in layer.measures] == list(RULES)
    layer = of(looking(list(RULES.values()), share=0.5))
    assert [one.role for one in layer.measures] == list(RULES)


def test_shares_and_chance_are_those_of_a_count_by_hand() -> None:
    measures = of(looking(list(RULES.values()), share=0.5)).measures
    words = dict(zip(RULES, measures, strict=True))
    assert words["previous"].views["previous"] == pytest.approx(0.5 + 0.5 / 14, abs=1e-12)
    assert words["previous"].chance["previous"] == pytest.approx(1 / 14, abs=1e-12)
    assert words["separators"].views["separators"] == pytest.approx(0.5 + 0.5 * 2 / 14, abs=1e-12)
    assert words["separators"].chance["separators"] == pytest.approx(2 / 14, abs=1e-12)
    # Of 14 rows, 13 have a previous token; the first spreads its weight over all.
    reach = (
        13 * 0.5 * 1
        + (ASKS - KEYS).abs().double().sum().item() * 0.5 / 14
        + 0.5 * (ASKS - KEYS)[0].abs().sum().item() / 14
    )
    assert words["previous"].reach == pytest.approx(reach / 14, abs=1e-12)
    assert words["broad"].entropy == pytest.approx(1, abs=1e-12)
    assert words["broad"].views == pytest.approx(words["broad"].chance, abs=1e-12)


def test_a_causal_head_is_measured_among_the_keys_that_it_may_see() -> None:
    rules = [RULES[name] for name in ("previous", "first", "broad")]
    previous, first, broad = of(looking(rules, causal=True), kind="decoder").measures
    assert (previous.role, first.role, broad.role) == ("previous", "first", "broad")
    assert broad.entropy == pytest.approx(1, abs=1e-12)
    assert "next" not in previous.views and previous.views["previous"] == 1.0
    # Row 0 has no choice; row i sees i + 1 keys.
    assert broad.views["first"] == pytest.approx(sum(1 / n for n in range(2, 15)) / 13, abs=1e-12)


def test_in_a_short_text_a_large_share_may_be_chance() -> None:
    """Of two or three keys, each holds a third or more."""
    side = Side("text", ("to", "be", "or"))
    found = of(looking([torch.ones(3, 3, dtype=torch.bool)], causal=True), side, "decoder").measures[0]
    assert found.views["first"] > 0.4 and found.role == "broad"


def test_a_view_that_few_rows_have_names_no_head() -> None:
    side = Side("text", tuple("abcdefghijklmnopqra"))
    table = torch.zeros(19, 19, dtype=torch.bool)
    table[0, 18] = table[18, 0] = True
    found = of(looking([table]), side).measures[0]
    assert found.views["same word"] == 1.0 and found.role == "mixed"


def test_a_head_that_goes_nowhere_in_particular_is_mixed() -> None:
    rule = torch.zeros(14, 14, dtype=torch.bool)
    rule[:, (3, 6, 9)] = True
    assert of(looking([rule])).measures[0].role == "mixed"


def test_between_two_texts() -> None:
    source, target = Side("source", ("ein", "Kind", "ruft", "Anna", "</s>"), special=(4,)), Side("target", tuple("abc"))
    target = Side("target", ("<s>", "a", "child", "calls", "Anna", "now", "."), special=(0,))
    i, j = torch.arange(7)[:, None], torch.arange(5)[None]
    rules = [(i * 4 / 6).round() == j, (j == 0).expand(7, 5), (j == 4).expand(7, 5)]
    layer = layer_of(looking(rules), label="1", kind="cross", queries=1, keys=0, sides=(source, target))
    assert [one.role for one in layer.measures] == ["diagonal", "first", "separators"]
    assert layer.measures[0].reach is None
    assert layer.measures[0].views["same word"] == 1.0  # one row of seven: Anna


def test_on_a_grid() -> None:
    rows, columns, extra = 3, 5, 1
    side = Side("image", tuple(map(str, range(16))), grid=(rows, columns), extra=extra)
    i, j = torch.arange(16)[:, None], torch.arange(16)[None]
    y, x, patch = (torch.arange(16) - 1) // columns, (torch.arange(16) - 1) % columns, (i > 0) & (j > 0)
    apart = torch.maximum((y[:, None] - y).abs(), (x[:, None] - x).abs())
    rules = {
        "itself": i == j,
        "neighbours": patch & (apart == 1),
        "same row": patch & (y[:, None] == y) & (i != j),
        "same column": patch & (x[:, None] == x) & (i != j),
        "class token": (j == 0).expand(16, 16),
    }
    layer = of(looking(list(rules.values())), side)
    assert [one.role for one in layer.measures] == list(rules)
    assert layer.measures[1].reach == pytest.approx(1.0, abs=1e-12)
    assert layer.measures[4].reach == 0.0


def test_between_channels_nothing_is_near() -> None:
    side = Side("channels", tuple("abcde"))
    found = of(looking([torch.eye(5, dtype=torch.bool)]), side, "channels").measures[0]
    assert (found.role, found.reach, list(found.views)) == ("itself", None, ["itself"])


def test_the_table_of_heads() -> None:
    layer = of(looking([RULES["next"], RULES["broad"]]))
    rows = roles_table(Look("a look", (TEXT,), (layer, layer)))
    assert [(row.layer, row.head, row.role) for row in rows] == [
        (0, 0, "next"), (0, 1, "broad"), (1, 0, "next"), (1, 1, "broad"),
    ]  # fmt: skip
    assert rows[0].share == 1.0 and rows[0].chance == pytest.approx(1 / 14, abs=1e-12)
    assert rows[1].share is None and rows[1].entropy == pytest.approx(1.0)
