"""Boxes of tensors: what they have in common, and reading just that."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.hub.safetensors_file import DTYPES, write
from headway.training.optim import total_norm
from headway.training.slices import Piece, Share, local_part, read

ROWS, COLUMNS = 7, 11


@st.composite
def pieces(draw: st.DrawFn) -> Piece:
    starts = draw(st.integers(0, ROWS)), draw(st.integers(0, COLUMNS))
    return Piece(starts, (draw(st.integers(0, ROWS - starts[0])), draw(st.integers(0, COLUMNS - starts[1]))))


def marked(piece: Piece) -> torch.Tensor:
    field = torch.zeros(ROWS, COLUMNS, dtype=torch.bool)
    field[piece.within(Piece((0, 0), (ROWS, COLUMNS)))] = True
    return field


@given(pieces(), pieces())
def test_the_common_box_is_what_both_cover(one: Piece, other: Piece) -> None:
    common = one.common(other)
    assert common == other.common(one)
    assert common.empty == (not (marked(one) & marked(other)).any())
    if not common.empty:
        assert marked(common).equal(marked(one) & marked(other))
        field = torch.arange(ROWS * COLUMNS).view(ROWS, COLUMNS)
        whole = Piece((0, 0), (ROWS, COLUMNS))
        assert field[one.within(whole)][common.within(one)].equal(field[common.within(whole)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_part_is_read_as_it_was_written(tmp_path: Path, dtype: torch.dtype) -> None:
    x = torch.arange(ROWS * COLUMNS).view(ROWS, COLUMNS).remainder(2 if dtype == torch.bool else 100).to(dtype)
    write(tmp_path / "x.safetensors", {"odd": torch.zeros(3, dtype=torch.uint8), "x": x, "one": x[1, 1]})
    assert read(tmp_path / "x.safetensors", "x", (slice(2, 5), slice(3, 10))).equal(x[2:5, 3:10])
    assert read(tmp_path / "x.safetensors", "one", ()).equal(x[1, 1])


def test_plain_tensors_are_whole() -> None:
    x = torch.randn(5, 7, requires_grad=True)
    share = Share.of(x)
    assert share.piece == Piece((0, 0), (5, 7)) and Share.of(torch.tensor(1.0)).piece == Piece((), ())
    assert share.held.data_ptr() == x.data_ptr() and share.shape == (5, 7)
    assert local_part(x).data_ptr() == x.data_ptr() and not local_part(x).requires_grad


@given(pieces(), st.integers(0, ROWS), st.integers(1, ROWS))
def test_rows_of_a_share_are_what_is_held_of_them(piece: Piece, start: int, count: int) -> None:
    field, whole = torch.arange(ROWS * COLUMNS).view(ROWS, COLUMNS), Piece((0, 0), (ROWS, COLUMNS))
    count = min(count, ROWS - start)
    found = Share(field[piece.within(whole)], piece, (ROWS, COLUMNS)).rows(start, count)
    assert found.shape == (count, COLUMNS) and found.held.shape == found.piece.shape
    if not found.piece.empty:
        part = Piece((0, 0), (count, COLUMNS))
        assert found.held.equal(field[start : start + count][found.piece.within(part)])
    assert found.piece.empty == (not marked(piece)[start : start + count].any())


def test_the_norm_of_all_is_the_norm_of_one_long_vector() -> None:
    parts = [torch.randn(5, 7), torch.randn(11), torch.randn(())]
    expected = torch.cat([part.flatten() for part in parts]).norm()
    assert total_norm(parts) == pytest.approx(float(expected))
    assert total_norm([]) == 0.0
