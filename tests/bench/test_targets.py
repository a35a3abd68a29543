"""`headway bench models TARGET ...`: models and modules of one's own, in the phases that each of them has."""

import json

import pytest
import torch

from headway.bench import run, targets
from headway.bench.machine import MachineLimits
from headway.bench.measure import Timing
from headway.bench.run import Bench
from headway.cli import main
from headway.hub import save
from headway.models import build
from headway.presets.gpt2 import gpt2

MACHINE = MachineLimits("toy processor", 1, {"float32": 1e9}, 1e9, Timing((1.0, 1.0)))
OWN = "tests.bench.own_models"
QUICK = Bench(MACHINE, quick=True, seconds=0.0)


@pytest.fixture(autouse=True)
def toy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "measure", lambda: MACHINE)
    monkeypatch.setattr(run, "reference", lambda: Timing((1.0, 1.0)))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "gpt"
    save(build(gpt2(width=12, heads=3, layers=2, vocabulary=31, length=22)), path)
    return str(path)


def rows(*names: str, phase: str, **sizes: int) -> list[targets.TargetRow]:
    return list(targets.cases(targets.subjects(names, **sizes))[phase](QUICK))


def test_each_phase_has_a_row_for_every_target_that_can(directory: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "models", directory, f"{OWN}:Tokens", "--batch", "3", "--quick", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert [(row["target"], row["phase"]) for row in found] == [
        (directory, "forward"), (f"{OWN}:Tokens", "forward"), (directory, "step"), (f"{OWN}:Tokens", "step"),
        (directory, "decode"),
    ]  # fmt: skip
    for row in found:
        assert (row["batch"], row["length"], row["precision"], row["unit"]) == (3, 22, "float32", "tokens/s")
        new = 11 if row["phase"] == "decode" else 22
        assert row["rate"] == pytest.approx(3 * new / row["milliseconds"] * 1e3)
        assert row["peak_bytes"] > 0 and row["rounds"] >= 1 and row["machine"].startswith("toy processor")
    assert [row["ratio_to_first"] for row in found if row["target"] == directory] == [1.0] * 3
    assert found[1]["parameters"] == 23 * 6 + 6 * 23 + 23
    assert f"forward: {OWN}:Tokens" in err


def test_the_table(directory: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "models", directory, "--only", "forward", "--quick", "--length", "7"]) == 0
    out = capsys.readouterr().out
    assert "ratio to first" in out and "1.000 x" in out and "1 x 7" in out and "tokens/s" in out


def test_a_ratio_is_to_the_first_target_and_a_target_named_twice_is_timed_twice() -> None:
    first, again = rows(f"{OWN}:Tokens", f"{OWN}:Tokens", phase="forward", length=5)
    assert (first.target, again.target) == (f"{OWN}:Tokens", f"{OWN}:Tokens (2)")
    assert first.ratio_to_first == 1.0 and again.ratio_to_first is not None and again.ratio_to_first > 0


def test_memory_is_that_of_the_call() -> None:
    (row,) = rows(f"{OWN}:Tokens", phase="forward", batch=5, length=7)
    # The rows of the table and the logits; both are alive at the end.
    assert row.peak_bytes == 5 * 7 * (6 + 23) * 4


def test_a_training_step_has_gradients_of_all_weights_and_changes_them() -> None:
    (subject,) = targets.subjects([f"{OWN}:Tokens"], length=5)
    before = [one.clone() for one in subject.module.parameters()]
    (row,) = targets.cases([subject])["step"](QUICK)
    assert row.measured and subject.module.training
    assert not any(torch.equal(old, new) for old, new in zip(before, subject.module.parameters(), strict=True))


def test_what_has_no_gradient_gives_no_row_or_says_why() -> None:
    assert rows(f"{OWN}:Frozen", phase="step", length=5) == []
    (row,) = rows(f"{OWN}:Detached", phase="step", length=5)
    assert not row.measured and "its output has no gradient" in row.note and "not measured" in row.summary()


def test_an_unmeasured_row_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "models", f"{OWN}:Detached", "--only", "step", "--quick"]) == 1
    assert "not measured" in capsys.readouterr().out


def test_a_model_that_reads_a_source_decodes_its_target() -> None:
    (row,) = rows(f"{OWN}:encoder_decoder", phase="decode", batch=2, length=10)
    assert row.measured and row.length == 10, row.note


def test_transformers_models_decode_by_their_own_generate() -> None:
    pytest.importorskip("transformers")
    forward, step, decode = (rows(f"{OWN}:of_transformers", phase=phase)[0] for phase in targets.PHASES)
    assert forward.measured and step.measured and decode.measured
    assert forward.length == 16  # its own limit, which is below the default


def test_images_are_counted_as_images() -> None:
    (row,) = rows(f"{OWN}:convolution", phase="forward", batch=2)
    assert (row.unit, row.batch, row.length) == ("images/s", 2, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["attention", "gpt2"], "headway bench models TARGET"),
        (["models", f"{OWN}:two_inputs", "--inputs", "vectors:2,5,3"], "does not run on (2, 5, 3)"),
        (["models", "gtp2"], "did you mean gpt2?"),
        (["models", "./nothing"], "does not exist"),
        (["models", f"{OWN}:Tokens", "--only", "forwards"], "did you mean 'forward'?"),
    ],
)
def test_mistakes_are_said_before_anything_is_measured(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err and "measuring" not in err
