"""Views that share entries, against all their entries written out."""

from itertools import product
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.cost.trace.storages import Depths, Region


def entries(region: Region) -> set[int]:
    steps = product(*(range(0, size * stride, stride) for size, stride in region.axes))
    return {region.offset + sum(step) for step in steps}


views = st.tuples(st.integers(0, 40), st.lists(st.tuples(st.integers(2, 4), st.integers(1, 17)), max_size=3).map(tuple))


@given(views, views)
def test_two_views_meet_where_they_have_an_entry_in_common(first: Any, second: Any) -> None:
    one, other = Region(*first), Region(*second)
    assert one.meets(other) == bool(entries(one) & entries(other)) == other.meets(one)


def test_a_part_that_is_written_is_deep_and_the_rest_is_not() -> None:
    x = torch.zeros(2, 6)
    left, right, middle = x[:, :3], x[:, 3:], x[:, 2:4]
    known = Depths((1, 1, 1))
    known.write(left, (9, 9, 9))
    assert [known.read(view) for view in (left, right, middle, x)] == [(9, 9, 9), (1, 1, 1), (9, 9, 9), (9, 9, 9)]
    known.write(x, None)
    assert known.read(left) is None
