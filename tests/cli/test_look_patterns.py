"""`headway look` without a model: a rule as text, JSON, page and picture; mistakes in one sentence."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["look", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_mechanism_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--mechanism", "local", "--window", "2", "--length", "3")
    assert code == 0
    assert out.splitlines()[:4] == ["local (77.8 % of pairs)", "■ ■ ·", "■ ■ ■", "· ■ ■"]
    assert "|i − j| < 2. 7 of 9 pairs (77.8 %)" in out


def test_json_has_the_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--window", "2", "--step", "2", "--length", "5", "--causal", "--json")
    code, out, _ = run(capsys, "--mask", "dilated", *options)
    (found,) = json.loads(out)
    assert code == 0 and found["pattern"] == ["10000", "01000", "10100", "01010", "00101"]
    assert (found["allowed"], found["pairs"]) == (8, 25)


def test_lists_and_grids_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--mask", "window", "--grid", "2x3", "--window", "1x2", "--json")
    assert json.loads(out)[0]["pattern"][:3] == ["110000", "111000", "011000"]
    _, out, _ = run(capsys, "--mask", "segments", "--segments", "1, 2", "--json")
    assert json.loads(out)[0]["pattern"] == ["100", "011", "011"]
    _, out, _ = run(capsys, "--mask", "global-tokens", "--global-tokens", "1", "--length", "2", "--json")
    assert json.loads(out)[0]["pattern"] == ["111", "100", "100"]


def test_patches_are_named_by_row_and_column_from_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = tmp_path / "grid.svg"
    options = ("--grid", "3x5", "--selected", "0,7")
    _, out, _ = run(capsys, "--mechanism", "local", "--window", "2x1", *options, "--png", str(figure))
    assert "or one of them is 1,1 or 2,3. " in out
    drawn = figure.read_text(encoding="utf-8")
    assert ">1,1</text>" in drawn and ">3,5</text>" in drawn and ">0,0</text>" not in drawn
    _, out, _ = run(capsys, "--mask", "selected", *options)
    assert "i or j is one of 1,1 and 2,3. " in out
    run(capsys, "--positions", "grid", "--grid", "3x5", "--png", str(figure))
    _, out, _ = run(capsys, "--positions", "grid", "--grid", "3x5")
    assert "p · p of patch 2,3 and all" in out
    drawn = figure.read_text(encoding="utf-8")
    assert ">1,1</text>" in drawn and ">3,5</text>" in drawn


def test_page_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, figure = tmp_path / "six.html", tmp_path / "six.svg"
    code, _, err = run(capsys, "--patterns", "textbook", "--length", "7", "-o", str(page), "--png", str(figure))
    assert code == 0 and err.splitlines() == [f"written: {figure}", f"written: {page}"]
    assert "Six patterns of attention" in page.read_text(encoding="utf-8")
    assert "global tokens" in figure.read_text(encoding="utf-8")


def test_positions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "positions.html"
    code, out, err = run(capsys, "--positions", "alibi", "--bias-heads", "2", "--length", "5", "-o", str(page))
    assert (code, out, err) == (0, "", f"written: {page}\n")
    assert "ALiBi" in page.read_text(encoding="utf-8")
    _, out, _ = run(capsys, "--positions", "sinusoidal", "--length", "3", "--width", "4", "--json")
    assert len(json.loads(out)["parts"][0]["values"]) == 3
    _, out, _ = run(capsys, "--positions", "relative", "--length", "5")
    assert out.startswith("Relative positions in buckets\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mechanism", "softmax", "--window", "3"], "--window is no option of --mechanism softmax"),
        (["--mechanism", "local", "--mask", "window"], "one rule is drawn at a time: name one of --mechanism, --mask"),
        (["--length", "3"], "name one of --mechanism, --mask, --patterns, --positions"),
        (["--mask", "window", "--window", "0"], "--window is a whole number of at least 1"),
        (["--mask", "selected", "--selected", "a"], "--selected is whole numbers with commas between, as 0,5, not 'a'"),
        (["--mask", "tiles", "--grid", "6"], "--grid is rows x columns, as 6x6, not '6'"),
        (["--mask", "causal", "--width", "3"], "--width belongs to --positions, not to --mask"),
        (["--positions", "alibi", "--window", "3"], "--window belongs to mechanisms and masks, not to --positions"),
        (["--positions", "alibi", "--width", "3"], "--width is no option of --positions alibi"),
        (["--mechanism", "channel", "--causal"], "--causal is no option of --mechanism channel"),
        (["--mask", "causal", "-o", "/nowhere/page.html"], "does not exist"),
        (["--mask", "causal", "--png", "a.gif"], "--png writes .png, .svg, .pdf"),
        (["--mask", "allowed", "--table", "/nowhere.csv"], "no such file"),
        (["--mechanism", "local", "--window", "9" * 20], "--window is at most 1,048,576, not 99,999"),
        (["--mask", "dilated", "--step", "0"], "--dilation is a whole number of at least 1"),
        (["--mechanism", "softmax", "--step", "2"], "--dilation is no option of --mechanism softmax"),
        (["--positions", "sinusoidal", "--base", "inf"], "--base is from 0.001 to 1e30, not inf"),
    ],
)
def test_mistakes(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1


def test_help_needs_no_torch() -> None:
    program = "import sys, headway.cli.look_patterns; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_a_softmax_of_scores(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["look", "--softmax=-3,1,100,5,-1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert f"{found['parts'][1]['values'][2][2]:.5e}" == "5.63774e-42"
    page = tmp_path / "softmax.html"
    assert main(["look", "--softmax", "-1,2", "-o", str(page)]) == 0 and "Jacobian" in page.read_text(encoding="utf-8")
    for words, said in (
        (["--softmax", "1,x"], "--softmax is numbers with commas between"),
        (["--softmax", "1"], "2 to 64 finite scores"),
        (["--softmax", "1,2", "--window", "3"], "--window belongs to other rules, not to --softmax"),
        (["--softmax", "1,2", "--mask", "causal"], "one rule is drawn at a time"),
    ):
        assert main(["look", *words]) == 2 and said in capsys.readouterr().err
