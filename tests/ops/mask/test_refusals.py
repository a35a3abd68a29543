"""What a mask refuses, and the sentence that says what to pass instead."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from headway.ops.mask import (
    Mask,
    allowed,
    blocked,
    causal,
    dilated,
    padding,
    segments,
    selected,
    tiles,
    window,
)  # fmt: skip
from headway.ops.mask.pairs import Pairs
from tests.ops.mask.unchecked import outcomes
from tests.processes import Processes

TABLE = torch.ones(5, 7, dtype=torch.bool)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: allowed(TABLE.float()), ["torch.float32", "bias=", "table.bool()"]),
        (lambda: allowed(torch.zeros(5, 7).masked_fill(~TABLE, -torch.inf)), ["torch.float32", "additive", "bias="]),
        (lambda: allowed(TABLE.int()), ["torch.int32", "allowed(table == 1)", "blocked(table == 1)"]),
        (lambda: blocked(TABLE.int()), ["torch.int32", "blocked(table == 1)"]),
        (lambda: blocked(TABLE.double()), ["torch.float64"]),
        (lambda: allowed(TABLE[None, None, None]), ["(1, 1, 1, 5, 7)", "B H L M"]),
        (lambda: padding(), ["lengths", "keep", "ignore"]),
        (lambda: padding(keep=TABLE, ignore=TABLE), ["keep", "ignore", "True = real", "True = padding"]),
        (lambda: padding(keep=TABLE.float()), ["padding(keep=...)", "torch.float32"]),
        (lambda: padding(ignore=TABLE.long()), ["padding(ignore=...)", "torch.int64"]),
        (lambda: padding(keep=TABLE[0]), ["(7,)", "B M"]),
        (lambda: padding(lengths=[1, 9], total=7), ["[1, 9]", "7 keys"]),
        (lambda: padding(lengths=[-1, 2]), ["[-1, 2]"]),
        (lambda: padding(lengths=[]), ["one whole number per row"]),
        (lambda: padding(lengths=[3], side="top"), ["'top'", "left", "right"]),
        (lambda: segments(torch.zeros(2, 3, 5, dtype=torch.long)), ["(2, 3, 5)"]),
        (lambda: segments(torch.zeros(5)), ["torch.float32"]),
        (lambda: segments(TABLE), ["torch.bool"]),
        (lambda: selected(torch.zeros(2, 2, dtype=torch.long)), ["list of positions"]),
        (lambda: window(0), ["window", "at least 1", "0"]),
        (lambda: dilated(2, dilation=0), ["dilation", "0"]),
        (lambda: dilated(2, step=3), ["dilated(step=3)", "dilated(dilation=3)"]),
        (lambda: tiles(-1), ["tile", "-1"]),
        (lambda: window(2, grid=(0, 3)), ["grid", "(0, 3)"]),
        (lambda: causal() & TABLE, ["Tensor", "allowed(...)"]),
        (lambda: causal() | None, ["NoneType"]),
        (lambda: causal() and window(3), ["& | ~", "and, or, not"]),
        (lambda: not causal(), ["& | ~"]),
        (lambda: causal() or window(3), ["& | ~"]),
    ],
)  # fmt: skip
def test_a_mistake_is_a_sentence(make: Callable[[], Any], words: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (allowed(TABLE), ["1 x 1 x 5 x 7", "(2, 3, 5, 11)"]),
        (padding(lengths=[3, 4, 5], total=11), ["3 x 11", "batch of 2", "11 keys"]),
        (padding(lengths=[3, 4]), ["2 x 4", "11 keys"]),
        (segments(torch.zeros(7, dtype=torch.long)), ["1 x 7", "5 queries"]),
        (segments(torch.zeros(3, 5, dtype=torch.long), torch.zeros(3, 11, dtype=torch.long)), ["3 x 5", "batch of 2"]),
        (causal() & allowed(TABLE), ["1 x 1 x 5 x 7"]),
        (~(window(3) | padding(lengths=[3, 4])), ["2 x 4"]),
    ],
)
def test_a_mask_that_does_not_fit_names_both_sizes(mask: Mask, words: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        mask.check(2, 3, 5, 11)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "mask", [causal(), window(2), dilated(2, dilation=2), tiles(2), selected([1]), window(2, grid=(2, 3)), ~causal()]
)
def test_positions_are_not_guessed(mask: Mask) -> None:
    with pytest.raises(ValueError, match=r"3 queries against 5 keys.*query_positions and key_positions"):
        mask.at(Pairs.counting(3, 5))
    assert mask.at(Pairs.counting(5, 5)).shape[2:] == (5, 5)


def test_masks_of_places_need_no_positions() -> None:
    pairs = Pairs.counting(5, 7)
    assert padding(lengths=[3], total=7).at(pairs).sum() == 15
    assert allowed(TABLE).at(pairs).sum() == 35


# Expression -> words of the refusal, tried in a process without checked annotations.
WRONG_TYPES = {
    "padding(lengths=[1.5])": ["1.5"],
    "selected([1.5])": ["1.5"],
    "window((2, 3, 4), grid=(5, 7))": ["(2, 3, 4)"],
    "attend(q, k, v, mask=[[True]])": ["boolean tensor", "list"],
    "window('3')": ["window", "3"],
    "window(2.5)": ["window", "2.5"],
    "window(None)": ["window", "None"],
    "window(True)": ["window", "True"],
    "window((9, 2))": ["grid", "(9, 2)"],
}


@pytest.fixture(scope="module")
def found(processes: Processes) -> dict[str, str]:
    return outcomes(processes, list(WRONG_TYPES))


@pytest.mark.parametrize("expression", WRONG_TYPES)
def test_a_wrong_type_is_a_sentence(expression: str, found: dict[str, str]) -> None:
    assert found[expression].startswith("ValueError")
    for word in WRONG_TYPES[expression]:
        assert word in found[expression]


def test_no_selected_token_is_a_selection_too() -> None:
    assert selected([]).count(5) == 0


def test_one_row_of_segments_serves_a_batch() -> None:
    mask = segments(torch.zeros(2, 5, dtype=torch.long), torch.zeros(7, dtype=torch.long))
    assert mask.count(5, 7) == 70
