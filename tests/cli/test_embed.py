"""`headway embed`: lines in, vectors out, in order; interrupted runs go on and end with the same bytes."""

import fcntl
import io
import json
import os
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

import headway
from headway.app import embed as job
from headway.cli import main
from headway.config.text import SentenceConfig
from headway.data.tokenizer import Tokenizer
from headway.models.sentence import SentenceEncoder
from headway.presets.bert import bert
from headway.presets.gpt2 import gpt2
from tests.fresh import fresh
from tests.processes import Processes

WORDS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "rain", "stone", "river", "falls", "runs", "on",
    "over", ".",
]  # fmt: skip
LINES = [
    "the rain falls on the stone.", "", "stone", "the river runs over the stone, the stone, the stone.", "rain",
    "a river", "über", "the rain", "falls", "on and on and on", "the last",
]  # fmt: skip


def write(place: Path, *, seed: int = 0, **changes) -> Path:
    """A tiny sentence encoder in a directory."""
    words = place.with_name(f"{place.name} words")
    words.mkdir()
    (words / "vocab.txt").write_text("\n".join(WORDS))
    (words / "tokenizer_config.json").write_text('{"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}')
    tokenizer = Tokenizer.read(words)
    encoder = bert(width=14, heads=2, layers=2, hidden=19, vocabulary=len(WORDS), length=31)
    model = fresh(SentenceConfig(encoder=encoder, limit=11, **changes), seed=seed, std=0.5)
    headway.save(model, place, tokenizer=tokenizer)
    return place


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


def vectors(model: Path, lines: list[str] = LINES) -> np.ndarray:
    loaded = headway.load(model)
    return torch.stack([loaded.model.encode([loaded.tokenizer.encode(line)])[0] for line in lines]).numpy()


def run(*arguments: object) -> int:
    return main(["embed", *map(str, arguments)])


def test_vectors_stand_in_the_order_of_the_lines(model: Path, file: Path, tmp_path: Path, capsys) -> None:
    assert run(model, file, "-o", tmp_path / "out.npy") == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "sentence bert" in shown.err and "11 lines, 14 numbers each" in shown.err
    found = np.load(tmp_path / "out.npy")
    assert found.dtype == np.float32 and found.flags.c_contiguous
    np.testing.assert_allclose(found, vectors(model), atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.txt", "out.npy"]


def test_json_lines_say_the_same_exactly(model: Path, file: Path, tmp_path: Path) -> None:
    assert run(model, file, "-o", tmp_path / "out.npy") == run(model, file, "--out", tmp_path / "out.jsonl") == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [row["text"] for row in rows] == LINES
    assert np.array_equal(np.array([row["embedding"] for row in rows], np.float32), np.load(tmp_path / "out.npy"))


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_lines_may_come_from_stdin_and_vectors_go_to_stdout(model: Path, monkeypatch, capsys) -> None:
    content = "﻿the rain\r\nstone\n\nlast"
    for arguments in ([model, "-"], [model]):
        stdin(monkeypatch, content.encode())
        assert run(*arguments) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["text"] for row in rows] == ["the rain", "stone", "", "last"]
        expected = vectors(model, [row["text"] for row in rows])
        np.testing.assert_allclose([row["embedding"] for row in rows], expected, atol=1e-6)


def test_nothing_in_nothing_out(model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert run(model, tmp_path / "empty", "-o", tmp_path / "out.npy") == 0
    assert np.load(tmp_path / "out.npy").shape == (0, 14)


class Interrupting:
    """An embedder that is interrupted when it comes to its n-th chunk."""

    def __init__(self, patch: pytest.MonkeyPatch, after: int) -> None:
        self.calls, self.after, self.real = 0, after, job.Embedder.__call__
        patch.setattr(job.Embedder, "__call__", lambda *given: self(*given))

    def __call__(self, *given) -> np.ndarray:
        self.calls += 1
        if self.calls > self.after:
            raise KeyboardInterrupt
        return self.real(*given)


def interrupted(patch: pytest.MonkeyPatch, after: int, *arguments: object) -> None:
    with patch.context() as patched:
        Interrupting(patched, after)
        assert run(*arguments) == 130


@pytest.mark.parametrize("ending", [".npy", ".jsonl"])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_run_goes_on_where_it_was_interrupted(
    after: int, ending: str, model: Path, file: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(job, "CHUNK", 3)
    once, out = tmp_path / f"once{ending}", tmp_path / f"out{ending}"
    assert run(model, file, "-o", once) == 0
    interrupted(monkeypatch, after, model, file, "-o", out)
    assert not out.exists(), "half a result has the name of a whole one"
    part = Path(f"{out}.part")
    with part.open("ab") as torn:  # as if the machine had stopped in the middle of a write
        torn.write(b"torn")
    capsys.readouterr()
    counted = Interrupting(monkeypatch, 99)
    assert run(model, file, "-o", out) == 0
    assert counted.calls == 4 - after
    assert f"going on after {3 * after} of 11 lines" in capsys.readouterr().err
    assert out.read_bytes() == once.read_bytes()
    assert not part.exists() and not Path(f"{out}.progress").exists()


def test_a_run_may_be_interrupted_twice(model: Path, file: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(job, "CHUNK", 2)
    assert run(model, file, "-o", tmp_path / "once.npy") == 0
    for after in (1, 2):
        interrupted(monkeypatch, after, model, file, "-o", tmp_path / "out.npy")
    assert run(model, file, "-o", tmp_path / "out.npy") == 0
    assert (tmp_path / "out.npy").read_bytes() == (tmp_path / "once.npy").read_bytes()


def test_what_was_begun_with_something_else_is_not_gone_on_with(
    model: Path, file: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(job, "CHUNK", 3)
    out = tmp_path / "out.npy"
    interrupted(monkeypatch, 1, model, file, "-o", out)
    other = write(tmp_path / "other", seed=1)
    capsys.readouterr()
    assert run(other, file, "-o", out) == 2
    assert "was begun with another model" in capsys.readouterr().err
    config = write(tmp_path / "max", pooling="max")
    assert run(config, file, "-o", out) == 2
    assert run(model, file, "-o", out, "--dtype", "bfloat16") == 2
    longer = tmp_path / "longer.txt"
    longer.write_text("\n".join([*LINES, "one more"]))
    capsys.readouterr()
    assert run(model, longer, "-o", out) == 2
    assert "was begun with another input" in capsys.readouterr().err
    assert run(model, longer, "-o", out, "--overwrite") == 0
    np.testing.assert_allclose(np.load(out), vectors(model, [*LINES, "one more"]), atol=1e-6)


def test_a_part_that_lost_bytes_is_refused(model: Path, file: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(job, "CHUNK", 3)
    interrupted(monkeypatch, 2, model, file, "-o", tmp_path / "out.npy")
    os.truncate(tmp_path / "out.npy.part", 200)
    assert run(model, file, "-o", tmp_path / "out.npy") == 2
    assert "is shorter than it was" in capsys.readouterr().err


@pytest.mark.parametrize("ending", [".npy", ".jsonl"])
def test_a_part_that_has_changed_is_refused(
    ending: str, model: Path, file: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(job, "CHUNK", 3)
    out, part, record = (tmp_path / f"out{ending}{more}" for more in ("", ".part", ".progress"))
    interrupted(monkeypatch, 2, model, file, "-o", out)
    right, said = part.read_bytes(), record.read_text()
    part.write_bytes(right[:-7] + bytes([right[-7] ^ 1]) + right[-6:])
    capsys.readouterr()
    assert run(model, file, "-o", out) == 2
    assert f"{part} is not what was written, its hash has changed: remove" in capsys.readouterr().err
    part.write_bytes(right)
    record.write_text(said.replace('"done": 6', '"done": 9'))
    assert run(model, file, "-o", out) == 2
    assert f"{record} is not what was written: remove" in capsys.readouterr().err
    # One that was begun before there were hashes goes on, and it is said.
    record.write_text(json.dumps({k: v for k, v in json.loads(said).items() if k not in ("sha256", "stamp")}))
    assert run(model, file, "-o", out) == 0
    assert "there is nothing to verify it by" in capsys.readouterr().err
    assert run(model, file, "-o", tmp_path / f"once{ending}") == 0
    assert out.read_bytes() == (tmp_path / f"once{ending}").read_bytes()


def test_other_threads_are_said(model: Path, file: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(job, "CHUNK", 3)
    interrupted(monkeypatch, 1, model, file, "-o", tmp_path / "out.npy")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    assert run(model, file, "-o", tmp_path / "out.npy") == 0
    assert "now torch" in capsys.readouterr().err


def test_two_runs_do_not_write_one_file(model: Path, file: Path, tmp_path: Path, capsys) -> None:
    with (tmp_path / "out.npy.part").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run(model, file, "-o", tmp_path / "out.npy") == 2
    assert "another run is writing" in capsys.readouterr().err


def test_nothing_is_overwritten_unasked(model: Path, file: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out.npy"
    out.write_bytes(b"precious")
    assert run(model, file, "-o", out) == 2
    assert "add --overwrite" in capsys.readouterr().err
    assert out.read_bytes() == b"precious"
    assert run(model, file, "-o", out, "--overwrite") == 0
    assert np.load(out).shape == (11, 14)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model", "missing.txt", "-o", "out.npy"], "missing.txt: no such file"),
        (["model", "lines.txt", "-o", "out.txt"], "written to .npy or .jsonl, not to 'out.txt'"),
        (["model", "lines.txt", "-o", "nowhere/out.npy"], "nowhere is no directory"),
        (["nowhere", "lines.txt"], "'nowhere' is neither a directory nor a preset"),
        (["gpt", "lines.txt"], "holds a gpt2 model and no way to make one vector of a text"),
        (["mute", "lines.txt"], "has no tokenizer"),
        (["model", "latin.txt"], "line 2 of latin.txt is not UTF-8"),
    ],
    ids=str,
)
def test_mistakes_are_one_sentence(
    arguments: list[str], words: str, model: Path, file: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").symlink_to(model)
    (tmp_path / "latin.txt").write_bytes(b"fine\n\xfcber\n")
    loaded = headway.load(model)
    gpt = gpt2(width=14, heads=2, layers=1, vocabulary=len(WORDS), length=31)
    headway.save(fresh(gpt), tmp_path / "gpt", tokenizer=loaded.tokenizer)
    loaded.model.tokenizer = None
    headway.save(loaded.model, tmp_path / "mute")
    assert run(*arguments) == 2
    shown = capsys.readouterr().err.strip().splitlines()[-1]
    assert shown.startswith("headway: ") and words in shown


def test_vectors_that_are_no_numbers_are_refused(model: Path, file: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    shortened = SentenceEncoder.shortened
    monkeypatch.setattr(SentenceEncoder, "shortened", lambda self, text: _spoilt(self, shortened(self, text)))
    assert run(model, file, "-o", tmp_path / "out.npy") == 2
    assert "the vector of 'stone' is not finite" in capsys.readouterr().err


def _spoilt(model: SentenceEncoder, text: list[int]) -> list[int]:
    with torch.no_grad():
        model.encoder.tokens.weight[WORDS.index("[MASK]")] = float("nan")
    return [WORDS.index("[MASK]"), *text] if text[1:-1] == [WORDS.index("stone")] else text


def test_a_run_that_is_killed_leaves_what_it_had_done(
    model: Path, file: Path, tmp_path: Path, monkeypatch, processes: Processes
) -> None:
    """Not even a signal that no program can catch spoils the file: another process goes on with it."""
    out = tmp_path / "out.npy"
    script = (
        "import os, sys; from headway.app import embed as job; from headway.cli import main; job.CHUNK = 3\n"
        "real, calls = job.Embedder.__call__, []\n"
        "def call(*given):\n"
        "    calls.append(1)\n"
        "    return real(*given) if len(calls) < 3 else os.kill(os.getpid(), 9)\n"
        "job.Embedder.__call__ = call\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    killed = processes.run(script, "embed", str(model), str(file), "-o", str(out))
    assert killed.code == -9, killed.stderr
    assert json.loads(Path(f"{out}.progress").read_text())["done"] == 6
    monkeypatch.setattr(job, "CHUNK", 3)
    assert run(model, file, "-o", out) == 0
    np.testing.assert_allclose(np.load(out), vectors(model), atol=1e-6)


def test_a_step_is_a_few_hundred_lines(model: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    many, once, out = tmp_path / "many.txt", tmp_path / "once.npy", tmp_path / "out.npy"
    many.write_text("".join(f"{LINES[number % 11]}\n" for number in range(601)), encoding="utf-8")
    assert run(model, many, "-o", once) == 0
    interrupted(monkeypatch, 1, model, many, "-o", out)
    assert "interrupted: 512 of 601 lines are kept; the same command goes on" in capsys.readouterr().err
    assert run(model, many, "-o", out) == 0
    assert "going on after 512 of 601 lines" in capsys.readouterr().err
    assert out.read_bytes() == once.read_bytes()


def test_a_run_that_is_told_to_end_says_what_is_kept(
    model: Path, file: Path, tmp_path: Path, processes: Processes
) -> None:
    script = (
        "import os, sys; from headway.app import embed as job; from headway.cli import main; job.CHUNK = 3\n"
        "real, calls = job.Embedder.__call__, []\n"
        "def call(*given):\n"
        "    calls.append(1)\n"
        "    if len(calls) == 3: os.kill(os.getpid(), 15)\n"
        "    return real(*given)\n"
        "job.Embedder.__call__ = call\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    ended = processes.run(script, "embed", str(model), str(file), "-o", str(tmp_path / "out.npy"))
    assert ended.code == 143, ended.stderr
    assert ended.stderr.endswith("6 of 11 lines are kept; the same command goes on from there\n")


class Hours:
    """A clock on which six seconds pass between two looks."""

    def __init__(self) -> None:
        self.now = 0

    def monotonic(self) -> int:
        self.now += 6
        return self.now


@pytest.mark.parametrize("place", [[], ["-o", "out.npy"]], ids=["stdout", "file"])
def test_a_log_shows_how_far_a_run_is(place: list[str], model: Path, file: Path, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(job, "CHUNK", 3)
    monkeypatch.setattr(import_module("headway.cli.common"), "time", Hours())
    assert run(model, file, *place) == 0
    shown = [line for line in capsys.readouterr().err.splitlines() if "a second" in line]
    assert [line.split(",")[0] for line in shown] == ["6 of 11 lines", "9 of 11 lines", "11 of 11 lines"]


@pytest.mark.parametrize("place", [[], ["-o", "out.npy"]], ids=["stdout", "file"])
def test_lines_that_were_cut_are_counted(place: list[str], model: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    """The tiny model reads 11 tokens, of which two are [CLS] and [SEP]."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(job, "CHUNK", 2)
    Path("long.txt").write_text("".join("rain " * count + "\n" for count in (10, 9, 13, 1, 29)))
    if place:  # what an earlier run cut counts too
        interrupted(monkeypatch, 2, model, "long.txt", *place)
        assert "cut to" not in capsys.readouterr().err
    assert run(model, "long.txt", *place) == 0
    assert "cut to 11 tokens, the most that this model reads: 3 of 5 lines" in capsys.readouterr().err
    Path("short.txt").write_text("rain " * 9)
    assert run(model, "short.txt") == 0
    assert "cut to" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lines.txt", "-o", "/proc/out.npy"], "/proc/out.npy cannot be written: "),
        (["lines.txt", "-o", "held.npy"], "held.npy cannot be written: is a directory"),
        (["lines.txt", "-o", f"{'n' * 249}.npy"], ".npy cannot be written: file name too long"),
        (["lines.txt", "-o", "folder.npy", "--overwrite"], "folder.npy is a directory"),
        (["latin.txt"], "line 2 of latin.txt is not UTF-8 text"),
        (["missing.txt"], "missing.txt: no such file"),
    ],
    ids=["place", "part", "name", "folder", "latin", "missing"],
)
def test_mistakes_are_said_before_the_model_is_loaded(
    arguments: list[str], words: str, model: Path, file: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("latin.txt").write_bytes(b"fine\n\xfcber\n")
    Path("folder.npy").mkdir()
    Path("held.npy.part").mkdir()
    monkeypatch.setattr("headway.hub.load", lambda *given, **named: pytest.fail("a model was loaded"))
    before = sorted(tmp_path.iterdir())
    assert run(model, *arguments) == 2
    shown = capsys.readouterr().err.strip()
    assert shown.startswith("headway: ") and words in shown and ".part" not in shown
    assert sorted(tmp_path.iterdir()) == before


def test_a_plain_encoder_is_pooled_by_the_mean_and_says_so(model: Path, file: Path, tmp_path: Path, capsys) -> None:
    loaded = headway.load(model)
    assert isinstance(loaded.model, SentenceEncoder)
    headway.save(loaded.model.encoder, tmp_path / "bert", tokenizer=loaded.tokenizer)
    assert run(tmp_path / "bert", file, "-o", tmp_path / "out.npy") == 0
    said = capsys.readouterr().err
    assert "no modules.json says how a text becomes one vector: the mean of its tokens' vectors" in said
    encoder, tokenizer, _ = headway.load(tmp_path / "bert")
    tokens = [torch.tensor(tokenizer.encode(line))[None] for line in LINES]
    with torch.no_grad():
        means = torch.cat([encoder.hidden_states(row).mean(1) for row in tokens])
    assert np.abs(np.load(tmp_path / "out.npy") - means.numpy()).max() < 1e-5
    assert torch.allclose(headway.embed(encoder, LINES), means, atol=1e-5)
    assert torch.allclose(headway.embed(tmp_path / "bert", "rain"), means[4], atol=1e-5)
    assert run(model, file, "-o", tmp_path / "own.npy") == 0
    assert "no modules.json" not in capsys.readouterr().err
