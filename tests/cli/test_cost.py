"""`headway cost`: views, formats, files, and mistakes in one sentence."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import jaxtyping
import pytest
from torch import nn

import headway
from headway.cli import main
from headway.cost.input_lengths import PriceRequest
from headway.cost.price import drafted
from headway.presets.gpt2 import gpt2
from tests.fresh import fresh

GPT = gpt2(width=15, layers=2, heads=3, hidden=22, vocabulary=13, length=31, dropout=0.0)
HERE = f"{__name__}:made"


def made() -> object:
    return GPT


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a user runs it, on a machine that nobody measured."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def shown(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["cost", *arguments]) == 0
    return capsys.readouterr().out


def test_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", HERE, "--batch", "2", "--length", "7", "--new", "3"]) == 0
    found = capsys.readouterr()
    assert "batch 2, length 7, float32" in found.out
    parts = ("Parameters", "Matrix products", "generate", "Memory in float32", "Parallel depth", "Reach, in tokens")
    assert [words for words in parts if words not in found.out] == []
    assert "scores and weighted sum cost as much as the projections from length 30 on" in found.out
    assert f"{drafted(GPT, PriceRequest(batch=2, length=7)).flops:,}" in found.out
    assert (
        found.err == "note: no predicted times: `headway cost --machine` measures this machine once, in a few seconds\n"
    )


def test_one_object_and_a_list_of_several(capsys: pytest.CaptureFixture[str]) -> None:
    one = json.loads(shown(HERE, "--length", "5", "--json", capsys=capsys))
    assert (one["name"], one["flops"], one["setting"]["length"]) == (HERE, 2 * one["macs"], 5)
    assert one["memory"]["weights"] == 4 * one["params"]
    two = json.loads(shown(HERE, "bare-block", "--length", "5", "--json", capsys=capsys))
    assert [record["name"] for record in two] == [HERE, "bare-block"]
    assert two[0]["params"] == one["params"]


def test_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(shown("bare-block", "eecs-layer", "--length", "5", "--csv", capsys=capsys))))
    found = {(row["quantity"], row["unit"]): row for row in rows}
    assert found["dense", "MACs"]["bare-block"] == str(drafted("bare-block", PriceRequest(length=5)).macs)
    assert found["parameters", "parameters"]["eecs-layer"] == "1048576"


def test_formula(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown("gpt2", "--formula", "--length", "L", "--batch", "B", capsys=capsys)
    assert "dense FLOPs (B, L)   36,864·B·L² + 247,064,064·B·L  291,648,307,200" in found
    record = json.loads(shown("gpt2", "--formula", "--json", capsys=capsys))
    assert record["formulas"]["parameters"] == "124439808"


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert "MACs         3·B·L·D² = 3·1·32·64² = 393,216" in shown("bare-block", "--explain", capsys=capsys)
    rows = list(csv.DictReader(io.StringIO(shown("bare-block", "--explain", "--csv", capsys=capsys))))
    assert rows[0] == {"model": "bare-block", "operation": "stack.blocks.attention.qkv", "quantity": "parameters",
                       "formula": "3·D²", "in numbers": "3·64²", "value": "12288"}  # fmt: skip


def test_units(capsys: pytest.CaptureFixture[str]) -> None:
    assert "optimiser: adamw" in shown("--units", capsys=capsys)


def test_a_sweep_and_its_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = tmp_path / "a.svg"
    found = json.loads(shown("bare-block", "--sweep", "length=8..32", "--plot", str(place), "--json", capsys=capsys))
    assert [row["length"] for row in found] == [8, 16, 32]
    assert [row["flops"] for row in found] == [drafted("bare-block", PriceRequest(length=n)).flops for n in (8, 16, 32)]
    assert place.read_text().startswith("<?xml")
    assert "| 16 |" in shown("bare-block", "--sweep", "length=8..32", "--markdown", capsys=capsys)


def test_verified(capsys: pytest.CaptureFixture[str]) -> None:
    checks = json.loads(shown("bare-block", "--verify", "--length", "5", "--json", capsys=capsys))["checks"]
    exact = {one["name"]: one["difference"] for one in checks if one["unit"] in ("parameters", "FLOPs")}
    assert len(exact) >= 5
    assert set(exact.values()) == {0}
    assert "difference" in shown("bare-block", "--verify", "--length", "5", capsys=capsys)


def test_into_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = tmp_path / "cost.tex"
    assert shown("bare-block", "--latex", "--full", "-o", str(place), capsys=capsys) == ""
    assert place.read_text().count(r"\begin{tabular}") >= 5
    assert shown("bare-block", "--explain", "-o", str(place), capsys=capsys) == ""
    assert place.read_text().startswith("bare-block: vectors")


def test_one_table_for_a_paper(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("bare-block", HERE, "--length", "5", "--as", "Ours", "--rows", "params,flops,memory")
    found = shown(*given, "--latex", "--label", "tab:ours", capsys=capsys)
    assert (found.count(r"\begin{table}"), found.count(r"\label{tab:ours}")) == (1, 1)
    rows = [line for line in found.splitlines() if line.endswith(r"\\")]
    assert rows[0].startswith(r" & Ours & tests.cli.test\_cost:made")
    assert [line.split(" & ")[0] for line in rows[1:]] == [
        "parameters (k)", "FLOPs, forward (k)", "peak memory, training step (kB)",
    ]  # fmt: skip
    flops = [drafted(target, PriceRequest(length=5)).flops / 1e3 for target in ("bare-block", GPT)]
    assert rows[2] == f"FLOPs, forward (k) & {flops[0]:,.1f} & {flops[1]:,.1f} \\\\"
    table = shown(*given, "--markdown", "--transpose", capsys=capsys)
    assert table.count("| --- |") == 1
    assert "| Ours | " in table
    assert "batch 1, length 5, float32" in table
    assert "parameters (k)" in shown(*given, capsys=capsys)


def test_the_default_rows_and_all_tables(capsys: pytest.CaptureFixture[str]) -> None:
    short = shown("bare-block", "eecs-layer", "--length", "5", "--markdown", capsys=capsys)
    assert short.count("### ") == 1
    assert all(words in short for words in ("parameters", "FLOPs, training step", "peak memory, forward"))
    assert shown("bare-block", "eecs-layer", "--length", "5", "--markdown", "--full", capsys=capsys).count("### ") >= 5


def picture() -> nn.Module:
    return nn.Conv2d(3, 5, 3)


def test_images_state_the_size_they_were_priced_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", f"{__name__}:picture"]) == 0
    found = capsys.readouterr()
    assert found.out.startswith(f"{__name__}:picture: a module, batch 1, image 224 x 224, float32")
    assert "priced at images of 224 x 224 pixels: --image says another size" in found.err
    record = json.loads(shown(f"{__name__}:picture", "--image", "32", "--json", capsys=capsys))
    assert (record["setting"]["image"], record["setting"]["length"]) == ([32, 32], None)
    assert record["macs"] == 30 * 30 * 5 * 3 * 9
    both = shown(f"{__name__}:picture", "vit-b16", "--image", "32x48", "--markdown", capsys=capsys)
    assert "image 32 x 48, float32" in both
    assert "image 32 x 48 (7 positions), float32" in both
    assert main(["cost", f"{__name__}:vectors", "--image", "32"]) == 2
    assert "Linear reads no images" in capsys.readouterr().err


def vectors() -> nn.Module:
    return nn.Linear(3, 5)


def test_own_and_traced_models_have_the_same_rows_of_memory(capsys: pytest.CaptureFixture[str]) -> None:
    own, traced = json.loads(shown("bare-block", f"{__name__}:vectors", "--length", "5", "--json", capsys=capsys))
    assert set(traced["memory"]) <= set(own["memory"])
    found = traced["memory"]
    assert (found["weights"], found["gradients"], found["optimiser"], found["inputs"]) == (80, 80, 160, 60)
    assert found["peak_forward"] == 80 + 60 + 4 * 5 * 5
    assert found["peak_step"] >= 80 + 60 + 160 + 80
    rows = list(csv.DictReader(io.StringIO(shown("bare-block", f"{__name__}:vectors", "--csv", capsys=capsys))))
    lacking = [row["quantity"] for row in rows if row["unit"] == "bytes" and not row[f"{__name__}:vectors"]]
    assert not [name for name in lacking if "checkpointing" not in name and name != "output of a forward pass"]


def test_from_disk_and_a_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    headway.save(fresh(GPT), tmp_path / "run" / "model")
    (tmp_path / "run" / "config.yaml").write_text("seed: 0\n")
    found = [
        json.loads(shown(str(tmp_path / place), "--formula", "--json", capsys=capsys)) for place in ("run", "run/model")
    ]
    assert found[0]["formulas"] == found[1]["formulas"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "a price needs a target"),
        (["gtp2"], "did you mean gpt2"),
        (["gpt2", "--length", "2000"], "this model has 1,024 positions"),
        (["gpt2", "--length", "0"], "--length is at least 1, not 0"),
        (["gpt2", "--length", "-3"], "--length is at least 1, not -3"),
        (["gpt2", "--length", "L"], "--length is a whole number here, not 'L'; --formula keeps L as a letter"),
        (["gpt2", "--length", "X", "--formula"], "--length is a whole number here, not 'X'"),
        (["gpt2", "--batch", "B"], "--formula keeps B"),
        (["gpt2", "--batch", "2", "--lengths", "5"], "lengths of 1 rows do not fit a batch of 2"),
        (["gpt2", "--lengths", "5;9"], "whole numbers with commas"),
        (["gpt2", "--source-length", "5"], "reads no source"),
        (["gpt2", "--memory", "8Q"], "no amount of memory"),
        (["gpt2", "--dtype", "float8"], "float8"),
        (["gpt2", "--optimiser", "lion"], "no price of optimiser 'lion'"),
        (["vit-b16", "--image", "big"], "--image is a side in pixels"),
        (["vit-b16", "--image", "3"], "no whole patch"),
        (["gpt2", "--json", "--csv"], "one format at a time"),
        (["gpt2", "--formula", "--explain"], "one view at a time"),
        (["gpt2", "--plot", "a.png"], "--plot draws a sweep"),
        (["gpt2", "--sweep", "length"], "a sweep is NAME=FIRST..LAST"),
        (["gpt2", "--sweep", "length=512..4096"], "this model has 1,024 positions"),
        (["gpt2", "--sweep", "width=100,101"], "choose another width"),
        (["gpt2", "--sweep", "length=5..9", "--plot", "a.doc"], "--plot writes"),
        (["llama3-70b", "--verify"], "would take about"),
        (["gpt2", "-o", "/no/where/cost.txt"], "does not exist"),
        (["gpt2", "-o", "/"], "is a directory"),
        (["gpt2", "--rows", "flop"], "there is no row 'flop' (did you mean flops?)"),
        (["gpt2", "--rows", "params", "--full", "--latex"], "leave one out"),
        (["gpt2", "--rows", "params", "--json"], "--rows is for the compact table"),
        (["gpt2", "--as", "a", "--as", "b"], "2 names for 1"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", *arguments]) == 2
    found = capsys.readouterr()
    assert words in found.err
    assert found.err.startswith("headway: ")
    assert found.err.count("\n") == 1
    assert found.out == ""


def test_nothing_is_written_by_a_mistake(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = tmp_path / "old.json"
    place.write_text("old")
    assert main(["cost", "gpt2", "--length", "2000", "--json", "-o", str(place)]) == 2
    assert place.read_text() == "old"
    assert list(tmp_path.iterdir()) == [place]


def test_help_and_mistakes_need_no_torch() -> None:
    code = "import sys; from headway.cli import main; main(sys.argv[1:]); assert 'torch' not in sys.modules"
    for arguments in (["cost", "--help"], ["cost"], ["cost", "gpt2", "--json", "--csv"]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


def test_machine_takes_no_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--machine", "gpt2"]) == 2
    assert "--machine measures this machine and prices nothing: leave out 'gpt2'" in capsys.readouterr().err
