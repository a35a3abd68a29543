"""The ranges that a blockwise computation trusts, and the kernel that a mask allows."""

from random import Random

import pytest
import torch
from hypothesis import given

from headway.ops.mask import (
    Mask,
    allowed,
    causal,
    dilated,
    everything,
    global_tokens,
    padding,
    segments,
    selected,
    tiles,
    window,
)  # fmt: skip
from headway.ops.mask.kernel import choose, kept_keys, without_padding
from headway.ops.mask.pairs import Pairs
from tests.ops.mask.brute import BATCH, HEADS, KEYS, KINDS, QUERIES, Where, case, cases, leaf, positions, tabulate


def ranges(mask: Mask, where: Where) -> tuple[torch.Tensor, bool]:
    """What the spans say, as a table B L M, and whether they call it exact."""
    spans = mask.spans(Pairs.of(*where.given))
    column = torch.arange(KEYS)
    table = (column >= spans.low[..., None]) & (column < spans.high[..., None])
    if spans.extra is not None:
        table = table | torch.isin(column, spans.extra)
    return table.expand(BATCH, QUERIES, KEYS), spans.exact


@given(cases)
def test_spans_bound_the_table(drawn: tuple[int, str]) -> None:
    mask, truth, where = case(drawn)
    table, exact = ranges(mask, where)
    allows = tabulate(truth, where)
    assert not (allows & ~table[:, None]).any()
    if exact:
        assert torch.equal(allows, table[:, None].expand_as(allows))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("rows", "unsorted")])
@pytest.mark.parametrize("name", ["everything", "causal", "window", "tiles", "lengths"])
def test_spans_of_simple_masks_are_exact(name: str, kind: str) -> None:
    mask, truth = leaf(name, Random(3))
    where = positions(kind, Random(3))
    table, exact = ranges(mask, where)
    assert exact
    assert torch.equal(tabulate(truth, where), table[:, None].expand(-1, HEADS, -1, -1))


def test_unsorted_keys_have_no_ranges() -> None:
    spans = causal().spans(Pairs.of(torch.arange(3), torch.tensor([2, 0, 1])))
    assert not spans.exact
    assert spans.low.tolist() == [[0, 0, 0]]
    assert spans.high.tolist() == [[3, 3, 3]]


@given(cases)
def test_a_fused_kernel_honours_its_mask_exactly(drawn: tuple[int, str]) -> None:
    mask, truth, where = case(drawn)
    kernel = choose(mask, Pairs.of(*where.given))
    if not kernel.tiles:
        table = torch.ones(BATCH, HEADS, QUERIES, KEYS, dtype=torch.bool)
        table = table.tril() if kernel.causal else table
        table = table if kernel.keep is None else table & kernel.keep[:, None, None, :]
        assert torch.equal(table, tabulate(truth, where))


@given(cases)
def test_padding_and_the_rest_make_the_whole(drawn: tuple[int, str]) -> None:
    mask, truth, where = case(drawn)
    rest, keep = without_padding(mask), kept_keys(mask)
    table = torch.ones(BATCH, HEADS, QUERIES, KEYS, dtype=torch.bool)
    table = table if rest is None else table & rest.table(*where.given)
    table = table if keep is None else table & keep[:, None, None, :]
    assert torch.equal(table, tabulate(truth, where))


KEEP = padding(lengths=[3, 5], total=5)


@pytest.mark.parametrize(
    ("mask", "name"),
    [
        (everything(), "plain"),
        (causal(), "causal"),
        (everything() & causal() & causal(), "causal"),
        (KEEP, "padding"),
        (KEEP & causal() & KEEP, "causal+padding"),
        (~causal(), "tiles"),
        (causal() | KEEP, "tiles"),
        (causal() & window(2), "tiles"),
        (dilated(2, dilation=2), "tiles"),
        (tiles(2), "tiles"),
        (selected([1]), "tiles"),
        (global_tokens(), "tiles"),
        (segments(torch.zeros(5, dtype=torch.long)), "tiles"),
        (allowed(torch.ones(5, 5, dtype=torch.bool)), "tiles"),
    ],
)
def test_kernel_names(mask: Mask, name: str) -> None:
    assert mask.kernel(5) == name


def test_causality_by_index_is_used_only_where_positions_agree() -> None:
    five = torch.arange(5)
    assert causal().kernel(five + 7, five + 7) == "causal"
    assert causal().kernel(five * 3 - 4, five * 3 - 4) == "causal"
    assert causal().kernel(five + 1, five) == "tiles"
    assert causal().kernel(five.flip(0), five.flip(0)) == "tiles"
    assert causal().kernel(torch.tensor([0, 1, 1, 2, 3]), torch.tensor([0, 1, 1, 2, 3])) == "tiles"
    # One query after all keys sees all of them; one query among them does not.
    assert causal().kernel(torch.tensor([4]), five) == "plain"
    assert causal().kernel(torch.tensor([3]), five) == "tiles"
