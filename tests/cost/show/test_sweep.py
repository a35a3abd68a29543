"""`--sweep`: sizes in a row, and what they may be."""

from pathlib import Path
from typing import Any

import jaxtyping
import pytest

from headway.cost.input_lengths import PriceRequest
from headway.cost.price import drafted
from headway.cost.resize import grain, resized
from headway.cost.show.sweep import plot, read_sweep, require, sweep_record, sweep_table, swept
from tests.cost.tiny import MODELS


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user runs it: checking the annotations of every step of a memory's walk takes seconds."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("length=3..24", (3, 6, 12, 24)),
        ("length=3..25", (3, 6, 12, 24)),
        ("length=5..5", (5,)),
        ("batch=1..7:2", (1, 3, 5, 7)),
        ("source-length=2,3,5", (2, 3, 5)),
    ],
)
def test_sizes(text: str, values: tuple[int, ...]) -> None:
    assert read_sweep(text).values == values


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("length", "a sweep is NAME=FIRST..LAST"),
        ("length=", "a sweep is"),
        ("length=a..b", "a sweep is"),
        ("length=128-1024", "a sweep is"),
        ("length=0..8", "at least 1"),
        ("length=8..4", "goes upwards"),
        ("length=1..8:0", "steps of at least 1"),
        ("lenght=1..8", "no sweep over lenght .*length"),
        ("length=1..100000:1", "100,000 sizes is too long"),
    ],
)
def test_nonsense_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_sweep(text)


@pytest.mark.parametrize("text", ["length=3,7", "batch=1..2", "width=28..56", "layers=1..3:2", "past=3,11"])
def test_rows_are_prices_of_their_own(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.cost.show.sweep.memory_of", lambda *given, **more: None)  # it has tests of its own
    config, sweep = MODELS["llama"], read_sweep(text)
    sheets = swept(sweep, config, PriceRequest(batch=2, length=5), name="llama")
    for value, sheet in zip(sweep.values, sheets, strict=True):
        given: dict[str, Any] = {"batch": 2, "length": 5}
        target = resized(config, sweep.name, value) if sweep.name in ("width", "layers") else config
        given |= {} if target is not config else {sweep.name: value}
        alone = drafted(target, PriceRequest(**given))
        assert (sheet.flops, sheet.params, sheet.depth) == (alone.flops, alone.params, alone.depth)
        assert sheet.phases == alone.phases
    made = sweep_table(sweep, sheets)
    assert [row[0] for row in made.rows] == list(sweep.values)
    records = sweep_record(sweep, sheets)
    assert [one["flops"] for one in records] == [sheet.flops for sheet in sheets]
    assert records[0][sweep.name] == sweep.values[0]


def test_rows_have_their_peaks() -> None:
    sheets = swept(read_sweep("length=3,7"), MODELS["bare"], PriceRequest(), name="bare")
    assert 0 < sheets[0].memory.peak_step < sheets[1].memory.peak_step
    assert [one["peak_step"] for one in sweep_record(read_sweep("length=3,7"), sheets)][1] == sheets[1].memory.peak_step


def test_a_width_keeps_proportions_or_is_refused() -> None:
    config = MODELS["gpt2"]  # width 15, three heads, 22 in the feed-forward
    assert grain(config) == 15
    assert grain(MODELS["sentence"]) == 15
    wide = resized(config, "width", 30).stack.block  # type: ignore[attr-defined]
    assert (wide.attention.head_width, wide.attention.output_width, wide.feedforward.hidden) == (10, 30, 44)
    with pytest.raises(ValueError, match="no whole number at width 16"):
        resized(config, "width", 16)
    with pytest.raises(ValueError, match="davit model has no one width"):
        resized(MODELS["davit"], "width", 16)
    with pytest.raises(ValueError, match="width is at least 1"):
        resized(config, "width", 0)


def test_a_size_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="31 positions"):
        swept(read_sweep("length=8..64"), MODELS["gpt2"], PriceRequest(), name="gpt2")


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_plot(suffix: str, tmp_path: Path) -> None:
    sweep = read_sweep("length=4..16")
    place = tmp_path / f"sweep{suffix}"
    require(place)
    plot(sweep, swept(sweep, MODELS["bare"], PriceRequest(), name="a & b"), place)
    assert place.stat().st_size > 5000
    assert [one.name for one in tmp_path.iterdir()] == [place.name]


def test_a_plot_that_cannot_be_is_refused_beforehand(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.png, \.svg"):
        require(tmp_path / "a.doc")
    with pytest.raises(ValueError, match="does not exist"):
        require(tmp_path / "nowhere" / "a.png")
