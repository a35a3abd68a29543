"""Pictures for papers: every kind of record, whatever its tokens, without a warning."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from headway.look.packed import factors, weights
from headway.look.pattern import PatternOptions, look_of, rules_of_mask, rules_of_mechanism
from headway.look.pattern.figures import position_plots
from headway.look.picture import draw_picture
from headway.look.picture.patches import attention_over_patches
from headway.look.picture.patterns import positions_picture
from headway.look.picture.style import token_label
from headway.look.record import Kind, Layer, Look, Measures, Side, matrix
from headway.render.png import data_address, png

HOSTILE = ("<b>", "\x1b[31m", "שלום", "😀", "日本語", "\u202e", "$x$", "a" * 40, "", "^_{", "\n")
RNG = np.random.default_rng(7)


def layer(
    heads: int, queries: int, keys: int, *, kind: Kind = "encoder", label: str = "1", sides: tuple[int, int] = (0, 0)
) -> Layer:
    values = RNG.dirichlet(np.ones(keys), size=(heads, queries))
    maps = np.rint(255 * values / values.max()).astype(np.uint8)
    measures = tuple(Measures(0.5, 1.0, 0.5, role="mixed") for _ in range(heads))
    return Layer("blocks", label, kind, "softmax", *sides, tuple(range(heads)), (0, queries), weights(values), maps,
                 measures)  # fmt: skip


@pytest.fixture(autouse=True)
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG."""
    data = path.read_bytes()
    assert data[:4] == b"\x89PNG"
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def test_overview_of_layers_of_different_kinds(tmp_path: Path) -> None:
    text, source = Side("text", HOSTILE), Side("source", ("a", "b", "c"))
    look = Look("x", (text, source), (
        layer(3, 11, 11, kind="decoder"), layer(2, 11, 3, kind="cross", sides=(0, 1)),
    ))  # fmt: skip
    path = draw_picture(look, tmp_path / "overview.png")
    width, height = size(path)
    assert 900 < width < 2200 and 600 < height < 2000  # 300 dots an inch, not wider than a page
    assert [one.name for one in tmp_path.iterdir()] == ["overview.png"]  # nothing half-written beside it


def test_several_heads_carry_their_tokens_in_legible_letters(tmp_path: Path) -> None:
    text, source = Side("text", tuple(f"word{place}" for place in range(11))), Side("source", ("das", "Haus", "dort"))
    look = Look("x", (text, source), (
        layer(3, 11, 11, kind="decoder"), layer(2, 11, 3, kind="cross", sides=(0, 1)),
    ))  # fmt: skip
    drawn = draw_picture(look, tmp_path / "few.svg").read_text(encoding="utf-8")
    assert drawn.count(">word4</text>") == 3 + 2, "below three maps, and beside two rows of maps"
    assert drawn.count(">Haus</text>") == 2, "below the two maps of cross-attention"
    assert "head 2: mixed</text>" in drawn
    sizes = [float(one) for one in re.findall(r"font-size: ([\d.]+)px[^>]*>word", drawn)]
    assert len(sizes) == 11 * 5 and min(sizes) >= 4.4


def test_many_heads_of_a_layer_stand_in_several_rows_each_with_its_tokens(tmp_path: Path) -> None:
    look = Look("x", (Side("text", tuple(f"word{place}" for place in range(17))),), (layer(12, 17, 17),))
    drawn = draw_picture(look, tmp_path / "rows.svg").read_text(encoding="utf-8")
    assert drawn.count(">word3</text>") == 4 + 3, "four in a row: below the lowest of each column, beside three rows"
    many = Look("x", look.sides, tuple(layer(12, 17, 17, label=str(place)) for place in range(12)))
    assert "word" not in draw_picture(many, tmp_path / "many.svg").read_text(encoding="utf-8"), "no page has the room"


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_one_head_with_any_tokens(tmp_path: Path, suffix: str) -> None:
    look = Look("x", (Side("text", HOSTILE),), (layer(3, 11, 11), layer(3, 11, 11, label="2")))
    path = draw_picture(look, tmp_path / f"head{suffix}", head=(1, 2))
    assert path.stat().st_size > 5000
    if suffix == ".svg":
        drawn = path.read_text(encoding="utf-8")
        assert "encoder 2, head 2: mixed" in drawn and "&lt;b&gt;" in drawn and "<b>" not in drawn
        assert ">$x$</text>" in drawn  # no formula


def test_long_texts_are_drawn_from_the_small_maps(tmp_path: Path) -> None:
    made = factors(RNG.normal(size=(2, 101, 5)), RNG.normal(size=(2, 101, 5)), causal=True)
    maps = RNG.integers(0, 256, (2, 48, 48)).astype(np.uint8)
    measures = (Measures(0.5, 1.0, 0.5), Measures(0.5, 1.0, 0.5))
    one = Layer("blocks", "1", "decoder", "softmax", 0, 0, (0, 5), (0, 101), made, maps, measures)
    look = Look("x", (Side("text", tuple(map(str, range(101)))),), (one,))
    assert size(draw_picture(look, tmp_path / "maps.png"))[0] > 600
    assert size(draw_picture(look, tmp_path / "head.png", head=(0, 5)))[0] > 1200
    whole = matrix(one, 1)
    assert whole.shape == (101, 101) and np.allclose(whole.sum(1), 1) and not np.triu(whole, 1).any()


def test_attention_over_a_picture(tmp_path: Path) -> None:
    pixels = RNG.integers(0, 256, (20, 30, 3)).astype(np.uint8)
    address = data_address(png(pixels.tobytes(), width=30, height=20, channels=3))
    side = Side("image", ("[CLS]", *map(str, range(6))), (0,), (), (2, 3), 1, address)
    look = Look("x", (side, Side("channels", tuple("abcde"))), (
        layer(2, 7, 7), layer(2, 5, 5, kind="channels", sides=(1, 1)),
    ))  # fmt: skip
    assert size(draw_picture(look, tmp_path / "image.png"))[0] > 800
    assert size(draw_picture(look, tmp_path / "one.png", head=(0, 1)))[0] > 800
    # The class token's own row, without itself, as a share of its largest.
    row = matrix(look.layers[0], 1)[0, 1:]
    assert np.allclose(attention_over_patches(look.layers[0], 1, side), (row / row.max()).reshape(2, 3))


def test_marks_of_a_small_scale_do_not_overlap(tmp_path: Path) -> None:
    names = tuple(f"{row},{column}" for row in range(1, 6) for column in range(1, 14))
    sides = Side("text", ("a", "b", "c")), Side("image", names, grid=(5, 13))
    look = Look("x", sides, (layer(2, 3, 3), layer(2, 65, 65, sides=(1, 1))))
    few = draw_picture(look, tmp_path / "few.svg", head=(0, 1)).read_text(encoding="utf-8")
    assert ">0 %</text>" in few and ">1 %</text>" not in few and ">10 %</text>" in few
    grid = draw_picture(look, tmp_path / "grid.svg", head=(1, 1)).read_text(encoding="utf-8")
    assert ">1,1</text>" in grid and ">5,13</text>" in grid and ">64</text>" not in grid


def test_patterns_and_positions(tmp_path: Path) -> None:
    wide = size(draw_picture(look_of("x", rules_of_mask("window", PatternOptions(length=6))), tmp_path / "row.png"))
    grid = look_of("x", rules_of_mechanism("local", PatternOptions(grid=(2, 3), global_tokens=1)))
    tall = size(draw_picture(grid, tmp_path / "grid.png"))
    assert tall[1] / tall[0] > 1.3 * wide[1] / wide[0]  # below each pattern, what one patch sees
    draw_picture(look_of("x", rules_of_mask("causal", PatternOptions(length=5, keys=3))), tmp_path / "cross.svg")
    assert "80 % of pairs" in (tmp_path / "cross.svg").read_text()
    positions_picture(position_plots("alibi", length=11), tmp_path / "alibi.png")
    assert size(tmp_path / "alibi.png")[0] > 1500


def test_letters_of_a_further_font_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """matplotlib warns of a letter that the fonts of a text lack, and a warning fails here."""
    monkeypatch.setattr("headway.look.picture.style.fonts", lambda: ("DejaVu Sans", "STIXGeneral"))
    monkeypatch.setattr("headway.look.picture.style._letters", lambda: {ord("a"), 0x1D81})
    look = Look("x", (Side("text", ("a", "\u1d81")),), (layer(2, 2, 2),))
    assert token_label("\u1d81") == "\u1d81" and draw_picture(look, tmp_path / "a.png", head=(0, 1)).exists()


def test_letters_that_no_font_has_are_boxes() -> None:
    assert token_label("a\U00012000\ue000") == "a□\\ue000"  # cuneiform


def test_mistakes_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = Look("x", (Side("text", ("a", "b")),), (layer(2, 2, 2),))
    with pytest.raises(ValueError, match=r"--png writes .png, .svg, .pdf, not 'a.gif'"):
        draw_picture(look, tmp_path / "a.gif")
    with pytest.raises(ValueError, match="does not exist"):
        draw_picture(look, tmp_path / "no" / "a.png")
    with pytest.raises(ValueError, match="there is no layer 1: there are 1"):
        draw_picture(look, tmp_path / "a.png", head=(1, 0))
    with pytest.raises(ValueError, match="layer 0 has no head 5 here; it holds 0, 1"):
        draw_picture(look, tmp_path / "a.png", head=(0, 5))
    monkeypatch.setattr("headway.look.picture.style.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r'pip install "headway\[plot\]"'):
        draw_picture(look, tmp_path / "a.png")
