"""A record as JSON and back: nothing is lost, and what is no record is said."""

import json
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from headway.look.record import Look, as_json, from_json
from tests.look.example import SMALL, Shape, example


def same(one: Any, other: Any) -> bool:
    """Equal all the way down, arrays by their dtype too."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, part.name), getattr(other, part.name)) for part in fields(one))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


RECORDS = [
    example(lens=True),
    example(cross=True, shape=Shape(factors=True)),
    example(grid=(3, 5)),
    example(["</script>", "\u202e", "\ud800", "a\0b"]),
]


@pytest.mark.parametrize("look", RECORDS)
def test_there_and_back(look: Look) -> None:
    text = json.dumps(as_json(look))
    assert same(from_json(json.loads(text)), look)


def test_the_comparison_can_fail() -> None:
    changed = as_json(example())
    changed["layers"][1]["measures"][0]["entropy"] += 1e-9
    assert not same(from_json(changed), example())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: found.update(version=9), "version 9"),
        (lambda found: found.pop("sides"), "sides"),
        (lambda found: found["layers"][0].pop("maps"), "maps"),
        (lambda found: found["layers"][0].update(more=1), "more"),
    ],
)
def test_what_is_no_record_is_said(change: Any, said: str) -> None:
    found = as_json(example(shape=SMALL))
    change(found)
    with pytest.raises(ValueError, match=said):
        from_json(found)
