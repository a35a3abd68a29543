"""A pattern that is drawn equals its mask's own table, and a rule written out pair by pair."""

from pathlib import Path

import numpy as np
import pytest
import torch

from headway.look.pattern import PatternOptions, PatternRule, look_of, rules_of_mask, rules_of_mechanism, rules_of_set
from headway.look.pattern.rules import MASKS, OPTIONS
from headway.ops.attention import MECHANISMS
from tests.look.pattern import rules as written

LENGTH, KEYS, GRID, COLUMNS = 13, 11, (5, 7), 7
SEQUENCE, PATCHES = range(LENGTH), range(35)

# A mask -> its options, the pairs written out, where queries and keys stand.
CASES = {
    "everything": (PatternOptions(length=LENGTH), written.everything, SEQUENCE, SEQUENCE),
    "causal": (PatternOptions(length=LENGTH, keys=KEYS), written.earlier, SEQUENCE, range(KEYS)),
    "window": (PatternOptions(length=LENGTH, window=3), written.near(3), SEQUENCE, SEQUENCE),
    "dilated": (PatternOptions(length=LENGTH, window=3, dilation=2), written.near(3, 2), SEQUENCE, SEQUENCE),
    "tiles": (PatternOptions(length=LENGTH, tile=5), lambda i, j: i // 5 == j // 5, SEQUENCE, SEQUENCE),
    "selected": (
        PatternOptions(length=LENGTH, keys=KEYS, selected=(0, 7)),
        written.one_of((0, 7)),
        SEQUENCE,
        range(KEYS),
    ),
    "global_tokens": (
        PatternOptions(length=LENGTH, global_tokens=3),
        written.outside,
        range(-3, LENGTH),
        range(-3, LENGTH),
    ),
    "segments": (PatternOptions(segments=(5, 7, 1)), written.parted((5, 7, 1)), SEQUENCE, SEQUENCE),
    "packed": (PatternOptions(segments=(5, 7, 1)), written.parted((5, 7, 1)), SEQUENCE, SEQUENCE),
    "padding": (PatternOptions(length=LENGTH, keys=KEYS, lengths=(7,)), lambda i, j: j < 7, SEQUENCE, range(KEYS)),
}
ON_GRID = {
    "window": (PatternOptions(grid=GRID, window=(2, 3)), written.near_patches((2, 3), COLUMNS)),
    "dilated": (PatternOptions(grid=GRID, window=2, dilation=3), written.near_patches((2, 2), COLUMNS, 3)),
    "tiles": (PatternOptions(grid=GRID, tile=(2, 3)), written.tiled((2, 3), COLUMNS)),
}


def test_every_mask_has_a_case() -> None:
    assert {*CASES, "allowed"} == set(MASKS)
    assert set(OPTIONS) == set(MECHANISMS)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_mask(name: str, causal: bool) -> None:
    asked, may, queries, keys = CASES[name]
    (rule,) = rules_of_mask(name.replace("_", "-"), PatternOptions(**{**vars(asked), "causal": causal}))
    expected = written.table(written.both(may, written.earlier) if causal else may, queries, keys)
    assert_drawn(rule, expected)


@pytest.mark.parametrize("name", ON_GRID)
def test_mask_on_a_grid(name: str) -> None:
    asked, may = ON_GRID[name]
    (rule,) = rules_of_mask(name, asked)
    assert_drawn(rule, written.table(may, PATCHES, PATCHES))
    assert look_of("grid", [rule]).sides[0].grid == GRID


def assert_drawn(rule: PatternRule, expected: np.ndarray) -> None:
    """The record holds uniform weights over just these keys, and the mask says the same."""
    assert rule.mask is not None
    own = rule.mask.table(rule.places.query, rule.places.key)[rule.item, 0].numpy()
    assert (own == expected).all()
    assert_pattern(rule, expected)


def assert_pattern(rule: PatternRule, expected: np.ndarray) -> None:
    (layer,) = look_of("one", [rule]).layers
    drawn = np.stack([layer.data.row(0, row) for row in range(layer.rows[1])])
    seen = expected.sum(1, keepdims=True)
    uniform = expected / np.maximum(seen, 1)
    assert drawn.shape == expected.shape
    assert np.abs(drawn - uniform).max() < 1e-3  # half precision
    assert ((drawn > 0) == expected).all()
    assert ((layer.maps[0] > 0) == expected).all()


def test_padding_of_a_batch_has_a_pattern_for_each_item() -> None:
    found = rules_of_mask("padding", PatternOptions(length=LENGTH, lengths=(3, 11)))
    assert [rule.label for rule in found] == ["padding, item 0", "padding, item 1"]
    for rule, real in zip(found, (3, 11), strict=True):
        assert_drawn(rule, written.table(lambda i, j, real=real: j < real, SEQUENCE, SEQUENCE))


@pytest.mark.parametrize("text", ["1,0,1\n0,1,1\n", "1 0 1\n\n0 1 1", "\ufeff1;0;1\n0;1;1\n"])
def test_a_table_of_ones_own(tmp_path: Path, text: str) -> None:
    path = tmp_path / "graph.csv"
    path.write_text(text, encoding="utf-8")
    (rule,) = rules_of_mask("allowed", PatternOptions(table=path))
    assert_drawn(rule, np.array([[1, 0, 1], [0, 1, 1]], dtype=bool))


MECHANISM_CASES = {
    "softmax": (PatternOptions(length=LENGTH, keys=KEYS), written.everything, SEQUENCE, range(KEYS)),
    "linear": (PatternOptions(length=LENGTH, causal=True), written.earlier, SEQUENCE, SEQUENCE),
    "additive": (PatternOptions(length=LENGTH, causal=True), written.earlier, SEQUENCE, SEQUENCE),
    "local": (
        PatternOptions(length=LENGTH, window=3, dilation=2, selected=(4,), global_tokens=2, causal=True),
        written.both(written.either(written.near(3, 2), written.one_of((4,)), written.outside), written.earlier),
        range(-2, LENGTH),
        range(-2, LENGTH),
    ),
    "spatial": (PatternOptions(grid=GRID, window=(2, 3)), written.tiled((2, 3), COLUMNS), PATCHES, PATCHES),
    "channel": (PatternOptions(channels=15, groups=3), written.parted((5, 5, 5)), range(15), range(15)),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanism(name: str) -> None:
    asked, may, queries, keys = MECHANISM_CASES[name]
    (rule,) = rules_of_mechanism(name, asked)
    assert_pattern(rule, written.table(may, queries, keys))


def test_textbook_on_a_sequence_and_on_patches() -> None:
    sizes = {"window": 3, "dilation": 2, "selected": (0, 7), "global_tokens": 2}
    for asked, positions, near, spread in (
        (PatternOptions(length=LENGTH, **sizes), SEQUENCE, written.near(3), written.near(3, 2)),
        (
            PatternOptions(grid=GRID, **sizes),
            PATCHES,
            written.near_patches((3, 3), 7),
            written.near_patches((3, 3), 7, 2),
        ),
    ):
        outer = range(-2, len(positions))
        expected = [
            written.table(written.everything, positions, positions),
            written.table(written.earlier, positions, positions),
            written.table(near, positions, positions),
            written.table(spread, positions, positions),
            written.table(written.either(near, written.one_of((0, 7))), positions, positions),
            written.table(written.either(near, written.outside), outer, outer),
        ]
        found = rules_of_set("textbook", asked)
        for rule, table in zip(found, expected, strict=True):
            assert_pattern(rule, table)


def test_davit_attends_between_patches_and_between_channels() -> None:
    windows, channels = rules_of_set("davit", PatternOptions(grid=GRID, window=2, channels=10, groups=2))
    assert_pattern(windows, written.table(written.tiled((2, 2), COLUMNS), PATCHES, PATCHES))
    assert_pattern(channels, written.table(written.parted((5, 5)), range(10), range(10)))
    # MISSION M6: 256 patches of width 512, one group: the products of one score and one sum each.
    one = rules_of_set("davit", PatternOptions(grid=(16, 16), window=16, channels=512, groups=1))[1]
    assert (one.dense, one.executed) == (67_108_864, 134_217_728)


def test_a_long_pattern_is_packed_as_bits() -> None:
    (rule,) = rules_of_mask("window", PatternOptions(length=601, window=3))
    (layer,) = look_of("long", [rule]).layers
    assert layer.data.nbytes < 60_000
    assert layer.data.row(0, 300).nonzero()[0].tolist() == [298, 299, 300, 301, 302]
    assert layer.maps.shape == (1, 48, 48)
    assert (np.diagonal(layer.maps[0]) == 255).all()  # every query of a cell sees one of its keys


def test_all_draws_every_one_on_the_same_positions() -> None:
    found = rules_of_mask("all", PatternOptions(grid=(3, 5)))
    assert [rule.label.replace(" ", "_") for rule in found] == [name for name in MASKS if name != "allowed"]
    assert {len(rule.places.query) - rule.places.extra for rule in found} == {15}
    assert [rule.label for rule in rules_of_mechanism("all", PatternOptions(length=LENGTH))] == list(MECHANISMS)
    assert "channel" not in [
        rule.label for rule in rules_of_mechanism("all", PatternOptions(length=LENGTH, causal=True))
    ]


def test_the_price_is_that_of_the_pairs() -> None:
    (rule,) = rules_of_mechanism("local", PatternOptions(length=24, window=4))
    look = look_of("local", [rule])
    assert "|i − j| < 4. 156 of 576 pairs (27.1 %)" in look.notes[0]  # 24 · 7 − 2 · (3 + 2 + 1)
    assert rule.price.useful == 2 * 64 * 156
    assert rule.dense == 2 * 64 * 576
    assert rule.longer is not None and rule.longer().executed < 0.2 * rule.longer().dense


def test_a_fast_path_that_executes_more_says_so() -> None:
    (rule,) = rules_of_mechanism("linear", PatternOptions(length=4, causal=True))
    (note, _) = look_of("x", [rule]).notes
    assert rule.executed > rule.dense == 2048
    assert f"{rule.executed:,} multiply-adds, more than the 2,048 of softmax attention; at 1,024 positions" in note


def test_the_largest_window_is_drawn_at_once() -> None:
    (rule,) = rules_of_mask("dilated", PatternOptions(grid=(2, 3), window=2**20, dilation=2**20))
    assert rule.allowed.sum() == 6 and rule.executed <= rule.dense


def test_reach_is_the_mean_distance() -> None:
    (layer,) = look_of("x", rules_of_mask("window", PatternOptions(length=5, window=2))).layers
    expected = np.mean([1 / 2, 2 / 3, 2 / 3, 2 / 3, 1 / 2])
    assert layer.measures[0].reach == pytest.approx(expected, abs=1e-6)
    (layer,) = look_of("x", rules_of_mask("everything", PatternOptions(grid=(2, 3)))).layers
    rows, columns = torch.arange(6) // 3, torch.arange(6) % 3
    far = torch.maximum((rows[:, None] - rows).abs(), (columns[:, None] - columns).abs()).double()
    assert layer.measures[0].reach == pytest.approx(float(far.mean()), abs=1e-6)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: rules_of_mechanism("softmax", PatternOptions(window=3)),
            "--window is no option of --mechanism softmax: it belongs to",
        ),
        (lambda: rules_of_mechanism("locl", PatternOptions()), "there is no mechanism 'locl' (did you mean local?)"),
        (lambda: rules_of_mask("windw", PatternOptions()), "did you mean window?"),
        (lambda: rules_of_set("tetbook", PatternOptions()), "did you mean textbook?"),
        (
            lambda: rules_of_mask("tiles", PatternOptions(grid=(2, 3), length=7)),
            "--grid 2x3 has 6 positions, and --length says 7",
        ),
        (
            lambda: rules_of_mask("segments", PatternOptions(segments=(2, 3), length=7)),
            "--segments has 5 positions together",
        ),
        (lambda: rules_of_mask("window", PatternOptions(length=0)), "--length is at least 1, not 0"),
        (
            lambda: rules_of_mask("selected", PatternOptions(length=5, selected=(5,))),
            "--selected 5 is none of the positions 0 … 4",
        ),
        (lambda: rules_of_mask("window", PatternOptions(length=9999)), "more than a page can hold"),
        (lambda: rules_of_mask("allowed", PatternOptions()), "needs --table FILE"),
        (
            lambda: rules_of_mask("padding", PatternOptions(length=3, lengths=(7,))),
            "--lengths 7 does not fit into 3 keys: give at most 3",
        ),
        (lambda: rules_of_mask("padding", PatternOptions(lengths=(10**20,))), "does not fit into 24 keys"),
        (lambda: rules_of_mask("window", PatternOptions(window=10**20)), "--window is at most 1,048,576"),
        (lambda: rules_of_mask("dilated", PatternOptions(dilation=10**20)), "--dilation is at most 1,048,576"),
        (lambda: rules_of_mask("tiles", PatternOptions(grid=(2, 3), tile=(1, 10**20))), "--tile is at most 1,048,576"),
        (lambda: rules_of_mechanism("spatial", PatternOptions(window=10**20)), "--window is at most 1,048,576"),
        (
            lambda: rules_of_mask("global_tokens", PatternOptions(global_tokens=9999)),
            "can hold: take fewer --global-tokens",
        ),
        (lambda: rules_of_mechanism("channel", PatternOptions(channels=9 * 10**20)), "--channels is at most 4,096"),
        (
            lambda: rules_of_mechanism("channel", PatternOptions(channels=7, groups=3)),
            "cannot be shared evenly by --groups 3",
        ),
        (lambda: rules_of_mask("window", PatternOptions(window=(2, 3))), "--window 2x3 has two sides: give --grid too"),
        (
            lambda: rules_of_mechanism("local", PatternOptions(dilation=(2, 3))),
            "--dilation 2x3 has two sides: give --grid too",
        ),
    ],
)
def test_mistakes(make, said: str) -> None:
    with pytest.raises(ValueError) as found:
        make()
    assert said in str(found.value)


def test_a_table_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "graph.bin"
    path.write_bytes(b"1 0\n\xff\xfe")
    with pytest.raises(ValueError, match=r"graph.bin is not UTF-8 text"):
        rules_of_mask("allowed", PatternOptions(table=path))


@pytest.mark.parametrize(
    ("text", "said"), [("1,0\n1\n", "1 cells in row 2"), ("1,x\n", "'x' in row 1"), ("\n", "holds no table")]
)
def test_tables_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "graph.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        rules_of_mask("allowed", PatternOptions(table=path))
