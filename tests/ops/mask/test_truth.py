"""Every mask and every composition means what a loop over pairs of positions says."""

from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.ops.mask import causal, padding, window
from headway.ops.mask.pairs import ALL, Pairs
from tests.ops.mask.brute import (
    BATCH,
    HEADS,
    KEYS,
    KINDS,
    LEAVES,
    QUERIES,
    case,
    cases,
    leaf,
    positions,
    tabulate,
)

SHAPE = (BATCH, HEADS, QUERIES, KEYS)


@pytest.mark.parametrize("name", LEAVES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_mask_at_every_kind_of_position(name: str, kind: str) -> None:
    for seed in range(3):
        mask, truth = leaf(name, Random(seed))
        where = positions(kind, Random(seed + 100))
        assert torch.equal(mask.table(*where.given).expand(SHAPE), tabulate(truth, where))


@given(cases)
def test_compositions(drawn: tuple[int, str]) -> None:
    mask, truth, where = case(drawn)
    assert torch.equal(mask.table(*where.given).expand(SHAPE), tabulate(truth, where))


@given(cases, st.integers(0, 10**6))
def test_a_part_of_the_call_is_a_part_of_the_table(drawn: tuple[int, str], seed: int) -> None:
    mask, _, where = case(drawn)
    random = Random(seed)
    whole, pairs = mask.table(*where.given).expand(SHAPE), Pairs.of(*where.given)
    batch = random.choice([ALL, slice(0, 1), slice(1, 2)])
    rows, columns = (_part(size, random) for size in (QUERIES, KEYS))
    found = mask.at(pairs.at(batch, rows, columns))
    expected = whole[batch][:, :, rows][..., columns]
    assert torch.equal(found.expand(expected.shape), expected)


def _part(size: int, random: Random) -> slice | torch.Tensor:
    first, last = sorted(random.sample(range(size + 1), 2))
    some = torch.tensor(random.sample(range(size), random.randrange(1, 4)))
    return random.choice([ALL, slice(first, last), slice(first, last, 2), some])


def test_two_tables_drawn_by_hand() -> None:
    # Positions 10, 11, 12 ask; 9, 10, 13, 11 answer: causality and windows are about these, not about indices.
    table = (causal() & window(3)).table(torch.tensor([10, 11, 12]), torch.tensor([9, 10, 13, 11]))
    assert table[0, 0].int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 1], [0, 1, 0, 1]]
    assert padding(lengths=[2, 0], total=3).table(1, 3)[:, 0, 0].int().tolist() == [[1, 1, 0], [0, 0, 0]]


def test_a_row_appended_to_a_cache_sees_all_of_it() -> None:
    # One new token at position 6 against seven keys: a mask by index would let it see the first key alone.
    assert causal().table(torch.tensor([6]), torch.arange(7)).all()
