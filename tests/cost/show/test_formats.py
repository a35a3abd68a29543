"""The same tables in every format: what is in them, and that nothing in a name can break them."""

import csv
import io
import json
import re
from dataclasses import replace

import jaxtyping
import pytest

import headway
from headway.cost.input_lengths import PriceRequest, fixed_length
from headway.cost.limits import times
from headway.cost.memory.fit import Fit
from headway.cost.price import drafted
from headway.cost.sheet import Sheet
from headway.cost.show.compare import compare, listed, totals
from headway.cost.show.record import as_json, html
from headway.cost.show.report import merged, mistaken, report, sentences, title, units, verified_record, verified_table
from headway.cost.verify import Check
from headway.render.formats import chosen, csv_text, formatted, latex, latex_escaped, markdown
from headway.render.table import Amount, Table, cell_text, cell_value, plain_text
from tests.cost.tiny import MODELS
from tests.cost.toy_machine import toy_machine

KEYS = ["name", "params", "macs", "flops", "useful_flops", "other_flops", "memory", "depth", "reach", "bottleneck",
        "operations"]  # fmt: skip
MORE = ["executed_flops", "phases", "parameters", "time", "notes", "setting"]
NASTY = "a|b_c&<i>%$#{}~^\\ \x1b[31m"


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user runs it: checking the annotations of every step of a memory's walk takes seconds."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(scope="module")
def both() -> tuple[Sheet, Sheet]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)
        first = headway.price(MODELS["llama"], batch=2, length=7, name="llama")
        second = headway.price(MODELS["seq2seq"], batch=2, length=5, source=7, name="seq2seq")
    fit = Fit("batch", "step", 10**6, 5, 912345, 1012345)
    return replace(first, fits=(fit,)), second


@pytest.fixture
def sheet(both: tuple[Sheet, Sheet]) -> Sheet:
    return both[0]


@pytest.fixture
def other(both: tuple[Sheet, Sheet]) -> Sheet:
    return both[1]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["bert-words", "recurrent", "vit", "bare"])
def test_the_record_of_every_kind(name: str) -> None:
    sheet = headway.price(MODELS[name], length=3 if fixed_length(MODELS[name]) is None else None)
    record = json.loads(json.dumps(as_json(sheet), allow_nan=False))
    assert set(record) == {*KEYS, *MORE}
    assert (record["params"], record["flops"]) == (sheet.params, 2 * record["macs"])
    assert sum(one["flops"] for one in record["operations"]) == record["flops"]
    assert sum(one["params"] for one in record["operations"]) == record["params"] == sum(record["parameters"].values())
    assert record["phases"]["forward"]["macs"] == record["macs"]
    assert record["reach"]["layers"]
    assert record["bottleneck"]["part"] in record["bottleneck"]["shares"]


def test_a_report_holds_the_sums_in_full(sheet: Sheet) -> None:
    found = plain_text(title(sheet), [totals(sheet), *report(sheet)], sentences(sheet))
    assert found.startswith("llama: language, batch 2, length 7, float32\n")
    for value in (sheet.params, sheet.macs, sheet.flops, sheet.useful_flops, sheet.executed_flops, sheet.other_flops):
        assert f"{value:,}" in found
    assert "Fits into 1.0 MB" in found
    assert re.search(r"largest batch +a training step +5 +912.3 kB", found)
    assert re.search(r"stack\.blocks\.attention\.qkv +×2 ", found)
    assert all(len(line) <= 200 for line in found.splitlines()[:-4])


def test_columns_of_operations_add_up(sheet: Sheet) -> None:
    operations = next(one for one in report(sheet) if one.title.startswith("Operations"))
    *rows, last = operations.rows
    for place in range(2, 7):
        assert sum(row[place] for row in rows) == last[place]  # type: ignore[arg-type]
    assert sum(row[-1].value for row in rows) == pytest.approx(1)  # type: ignore[union-attr]


def test_identical_operations_are_one_line() -> None:
    sheet = drafted(MODELS["bare"], PriceRequest())
    twice = [*sheet.operations, *sheet.operations]
    assert [(one.path, one.runs) for one in merged(twice)] == [(one.path, 2) for one in merged(sheet.operations)]


def test_models_side_by_side(sheet: Sheet, other: Sheet) -> None:
    tables = {one.title: one for one in compare([sheet, other])}
    whole = tables["In all, forwards"]
    assert whole.columns == ("quantity", "unit", "llama", "seq2seq")
    assert ("dense", "FLOPs", sheet.flops, other.flops) in whole.rows
    assert ("source", "positions", None, 7) in tables["Setting"].rows
    twice = compare([sheet, sheet])[0]
    assert twice.columns[2:] == ("llama (1)", "llama (2)")


def test_values_for_a_spreadsheet(sheet: Sheet, other: Sheet) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(listed([sheet, other])))))
    found = {(row["quantity"], row["unit"]): row for row in rows}
    assert len(found) == len(rows)
    assert int(found["dense", "MACs"]["llama"]) == sheet.macs
    assert int(found["dense", "MACs"]["seq2seq"]) == other.macs
    assert found["source", "positions"]["llama"] == ""
    assert float(found["feed-forward", "share"]["llama"]) == pytest.approx(sheet.bottleneck.shares["feed-forward"])


def test_markdown_has_as_many_cells_in_every_row(sheet: Sheet) -> None:
    table = Table("t", (NASTY, "n"), ((NASTY, 5), (None, None)))
    for block in markdown([table, *report(sheet)]).split("\n\n"):
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines() if line.startswith("|")}
        assert len(cells) <= 1


def test_latex_escapes_what_it_would_read(sheet: Sheet) -> None:
    found = latex([Table(NASTY, (NASTY, "n"), ((NASTY, 1234567),)), *report(sheet)])
    assert found.count(r"\begin{table}") == found.count(r"\end{table}") == 1 + len(report(sheet))
    assert "1{,}234{,}567" in found
    assert "\x1b" not in found
    left = re.sub(r"\\[A-Za-z]+(\{[^{}]*\})*|\\[&%$#_{}\\]|\$\^?\\?[a-z0-9]*\$", "", found)
    assert not re.search(r"[_^$%#~]", left)
    assert all(line.endswith((r"\\", "rule", "}", "ing")) for line in found.splitlines() if line)
    assert latex_escaped("×12 ⌈lg D⌉") == r"$\times$12 $\lceil$lg D$\rceil$"


def test_html_escapes_names(sheet: Sheet) -> None:
    found = html(replace(sheet, name=NASTY, notes=(NASTY,)))
    assert "<i>" not in found
    assert "&lt;i&gt;" in found
    assert sheet._repr_html_().count("<table>") == len(report(sheet))
    assert f"{sheet.flops:,}" in found


def test_one_format_at_a_time() -> None:
    assert chosen(json=False, csv=False) == "text"
    with pytest.raises(ValueError, match="one format at a time: --json or --csv"):
        chosen(json=True, csv=True)
    table = Table("t", ("a",), ((1,),))
    assert json.loads(formatted("json", record={"a": 1}, tables=[table], flat=table)) == {"a": 1}
    assert formatted("csv", record={}, tables=[], flat=table) == "a\n1\n"


def test_cells() -> None:
    assert [cell_text(cell) for cell in (0.5, 1234, None, "x", Amount(0.123, "share"))] == [
        "0.5",
        "1,234",
        "–",
        "x",
        "12.3 %",
    ]
    assert (cell_value(Amount(1500.0, "bytes")), str(Amount(1500.0, "bytes")), cell_value(None)) == (
        1500.0,
        "1.5 kB",
        "",
    )


def test_the_rules_are_those_that_are_counted_by() -> None:
    flops, steps = units()
    rules = {row[0]: row[1] for row in flops.rows}
    assert (rules["norm: layer"], rules["activation: gelu"], rules["optimiser: adamw"]) == (7, 5, 16)
    assert ("inner product of n = 1,024 terms over a width", 11, 1024, 10) in steps.rows


def test_numbers_shrink_where_there_is_no_room(sheet: Sheet) -> None:
    from rich.console import Console

    from headway.render.table import print_tables

    big = drafted("llama3-8b", PriceRequest(length=4096))
    wide, narrow = (Console(file=io.StringIO(), width=width, no_color=True) for width in (200, 90))
    for console in (wide, narrow):
        print_tables(console, "", report(big)[1:2])
    assert f"{big.flops:,}" in wide.file.getvalue()  # type: ignore[attr-defined]
    assert f"{big.flops:,}" not in narrow.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, narrow.file.getvalue().splitlines())) <= 90  # type: ignore[attr-defined]


@pytest.mark.usefixtures("unchecked")
def test_predicted_beside_measured(sheet: Sheet) -> None:
    checks = [Check("parameters", 7, 7, "parameters"), Check("dense forward", 10, 12, "FLOPs"),
              Check("saved", 1500.0, 1200.0, "bytes"), Check("forward", 0.001, 0.002, "seconds")]  # fmt: skip
    found = plain_text("", [verified_table(sheet, checks)])
    rows = [line.split() for line in found.splitlines()[2:]]
    assert rows[0] == ["parameters", "parameters", "7", "7", "0", "–"]
    assert rows[1] == ["dense", "forward", "FLOPs", "10", "12", "2", "16.7", "%"]
    assert rows[2] == ["saved", "bytes", "1.5", "kB", "1.2", "kB", "-300", "B", "-25.0", "%"]
    assert rows[3] == ["forward", "seconds", "1.0", "ms", "2.0", "ms", "1.0", "ms", "50.0", "%"]
    assert mistaken(checks) == ["dense forward"]
    assert verified_record(sheet, checks)["checks"][1]["difference"] == 2


def test_expected_times(sheet: Sheet) -> None:
    found = times(sheet.config, sheet.operations, sheet.setting, 7, toy_machine())[0]
    timed = replace(sheet, time=found)
    made = next(one for one in report(timed) if one.title.startswith("Expected time"))
    assert [row[0] for row in made.rows] == ["forward", "step", "prefill", "decode after 7"]
    assert as_json(timed)["time"]["seconds"].keys() == {"forward", "step", "prefill", "decode"}
    assert any(one.title == "Expected time" for one in compare([timed, sheet]))
