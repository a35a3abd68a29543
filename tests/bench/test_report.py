"""A page of rows that were measured before: every figure on it is a row's, and losses are named."""

import json
from pathlib import Path

import pytest

from headway.bench.report import page, read_rows
from headway.bench.row import Row
from headway.cli import main

AHEAD = Row(
    "decode", "GPT, decode", "1 stream", "float32", headway=60.0, peers={"a": 50.0, "b": 40.0}, unit="tokens/s",
    best_peer="a", ratio_to_best=1.2, share_of_limit=0.87, spread=0.03, target="at least 1.15 x the best peer",
    verdict="met", machine="a toy",
)  # fmt: skip
BEHIND = Row(
    "load", "GPT, load", "16 + 1 tokens", "float32", headway=900.0, peers={"a": 300.0}, best_peer="a",
    ratio_to_best=3.0, machine="a toy", note="only 2 rounds",
)  # fmt: skip
NONE = Row("decode", "GPT, decode", "1 stream", "int4", peers={"a": 1234.0}, unit="tokens/s", best_peer="a")


def written(place: Path, *rows: Row) -> str:
    place.write_text(json.dumps([row.as_json() for row in rows]), encoding="utf-8")
    return str(place)


def test_the_page_names_figures_and_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "speed.md"
    files = [written(tmp_path / "1.json", AHEAD, NONE), written(tmp_path / "2.json", BEHIND)]
    assert main(["bench", "report", *files, "-o", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert "| GPT, 1 stream | float32 | 60 tokens/s | a 50 · b 40 | 1.20 | 3% | 87% | at least 1.15: met |" in text
    assert "| GPT, 1 stream | int4 | none | a 1,234 |" in text
    losses = text.split("## Where headway loses")[1]
    assert "GPT, decode, 1 stream, int4: headway has none; a reaches 1,234 tokens/s." in losses
    assert "GPT, load, 16 + 1 tokens, float32: 3.00 x a." in losses
    assert "1 stream, float32" not in losses and "only 2 rounds" in losses


def test_the_last_of_equal_rows_counts_and_a_page_may_have_no_loss(tmp_path: Path) -> None:
    files = [written(tmp_path / "1.json", BEHIND, AHEAD), written(tmp_path / "2.json", AHEAD)]
    assert len(read_rows(files)) == 2
    assert "In none of these rows." in page([AHEAD])


@pytest.mark.parametrize("text", ["{", "[1]", '[{"no": "row"}]'])
def test_a_file_without_rows_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text(text)
    assert main(["bench", "report", str(tmp_path / "x.json")]) == 2
    assert "x.json holds no rows of `headway bench" in capsys.readouterr().err


def test_a_report_of_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "report"]) == 2
    assert "report needs the files" in capsys.readouterr().err
