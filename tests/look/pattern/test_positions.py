"""Embeddings as they are drawn: the numbers are the formulas', and a page and a text can be made of each."""

import math
import re

import numpy as np
import pytest

from headway.look.pattern.figures import POSITIONS, Curves, Heat, position_plots
from headway.look.pattern.figures_page import coloured, document, text


def heat(kind: str, place: int, **said: int) -> Heat:
    found = position_plots(kind, **said).parts[place]
    assert isinstance(found, Heat)
    return found


def curves(kind: str, place: int, **said: int | bool) -> Curves:
    found = position_plots(kind, **said).parts[place]
    assert isinstance(found, Curves)
    return found


def test_sinusoidal_values_and_how_alike_they_are() -> None:
    values = heat("sinusoidal", 0, length=7, width=6).values
    assert values.shape == (7, 6)
    assert values[5, 2] == pytest.approx(math.sin(5 / 10000 ** (2 / 6)), abs=1e-12)
    assert values[5, 3] == pytest.approx(math.cos(5 / 10000 ** (2 / 6)), abs=1e-12)
    alike = heat("sinusoidal", 1, length=7, width=6).values
    # sin a sin b + cos a cos b is the cosine of the difference, so a mean of cosines by distance.
    mean = np.mean([math.cos(3 / 10000 ** (i / 6)) for i in (0, 2, 4)])
    assert alike[1, 4] == pytest.approx(mean, abs=1e-12)
    _, distance, share = curves("sinusoidal", 2, length=7, width=6).series[0]
    assert share[3] == pytest.approx(mean, abs=1e-12) and distance[3] == 3


def test_rotary_mean_cosine_by_distance() -> None:
    _, _, mean = curves("rotary", 1, length=11, width=6).series[0]
    assert mean[5] == pytest.approx(np.mean([math.cos(5 / 10000 ** (i / 6)) for i in (0, 2, 4)]), abs=1e-12)


def test_alibi_has_a_line_for_each_head() -> None:
    found = curves("alibi", 1, length=5, bias_heads=2).series
    assert [name for name, _, _ in found] == ["head 0", "head 1"]
    assert found[0][2].tolist() == [-d / 16 for d in range(5)]
    assert found[1][2].tolist() == [-d / 256 for d in range(5)]


def test_relative_buckets_by_difference() -> None:
    _, differences, buckets = curves("relative", 0, length=20).series[0]
    at = dict(zip(differences.tolist(), buckets.tolist(), strict=True))
    assert (at[-16], at[-3], at[0], at[3], at[16]) == (10, 3, 0, 19, 26)
    pairs = heat("relative", 1, length=20).values
    assert (pairs[16, 0], pairs[3, 0], pairs[0, 3], pairs[4, 4]) == (10, 3, -3, 0)
    one_way = curves("relative", 0, length=20, causal=True).series[0]
    assert one_way[1].max() == 0 and one_way[2][0] == 17  # distance 19: 16 + ⌊16 · log(19/16) / log(128/16)⌋


def test_grid_embedding_is_most_like_itself() -> None:
    made = position_plots("grid", grid=(3, 5), width=8)
    values, near = made.parts
    assert isinstance(values, Heat) and isinstance(near, Heat)
    assert values.values.shape == (15, 8) and near.values.shape == (3, 5)
    assert np.unravel_index(near.values.argmax(), (3, 5)) == (1, 2)


def test_zero_is_white_and_the_sides_differ() -> None:
    part = heat("alibi", 0, length=5, bias_heads=2)
    pixels = coloured(part, np.array([[-part.largest, 0.0, part.largest]]))
    assert pixels[0, 1].min() >= 250
    assert pixels[0, 0, 0] > pixels[0, 0, 2] and pixels[0, 2, 2] > pixels[0, 2, 0]


def test_a_side_of_0_that_never_occurs_is_not_on_the_scale() -> None:
    assert heat("alibi", 0, length=5, bias_heads=2).ends == (-0.25, 0.0)
    assert heat("alibi", 0, length=1).ends == (0.0, 1.0)
    assert heat("relative", 1, length=20).ends == (-15.0, 15.0)
    page = document(position_plots("alibi", length=5, bias_heads=2))
    assert "<span>-0.25</span>" in page and "<span>0.25</span>" not in page


def test_the_arrow_beside_a_table_points_down_as_its_rows_go() -> None:
    """Letters that run down the page have it so; turned by half a circle it would point up."""
    page = document(position_plots("sinusoidal", length=5, width=6))
    (style,) = re.findall(r"\.heat \.down\{([^}]*)\}", page)
    assert "vertical-rl" in style and "rotate" not in style


@pytest.mark.parametrize("width", [40, 80])
def test_columns_of_numbers_stay_apart(width: int) -> None:
    lines = text(position_plots("alibi", bias_heads=3, length=6), width=width).splitlines()[-4:]
    assert max(map(len, lines)) <= width and lines[0].split()[:2] == ["distance", "0"]
    assert {len(line.split("  ", 1)[1].split()) for line in lines} == {len(lines[0].split()) - 1}
    assert lines[2].split()[-1] == "-0.0195"


@pytest.mark.parametrize("kind", POSITIONS)
def test_page_and_text(kind: str) -> None:
    made = position_plots(kind)
    page = document(made)
    assert page.count("<section") == len(made.parts)
    assert page.count('src="data:image/png;base64,') == 2 * sum(isinstance(part, Heat) for part in made.parts)
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    drawn = text(made, width=70)
    assert max(map(len, drawn.splitlines()[2:])) <= 70 and all(part.title in drawn for part in made.parts)


@pytest.mark.parametrize(
    ("kind", "said", "sentence"),
    [
        ("alibi", {"width": 8}, "--width is no option of --positions alibi, which takes --bias-heads, --length"),
        ("sinus", {}, "there are no positions 'sinus' (did you mean sinusoidal?)"),
        ("rotary", {"width": 7}, "width 7 is not a positive even number"),
        ("sinusoidal", {"length": 0}, "--length is from 1 to 4,096, not 0"),
        ("sinusoidal", {"base": -1.0}, "--base is from 0.001 to 1e30, not -1.0"),
        ("rotary", {"base": float("nan")}, "--base is from 0.001 to 1e30, not nan"),
        ("sinusoidal", {"width": 1}, "--width is an even number, a sine and a cosine for each wave, not 1"),
        ("grid", {"width": 6}, "--width is a multiple of 4"),
        ("relative", {"buckets": 7}, "take an even number"),
    ],
)
def test_mistakes(kind: str, said: dict, sentence: str) -> None:
    with pytest.raises(ValueError) as found:
        position_plots(kind, **said)
    assert sentence in str(found.value)
