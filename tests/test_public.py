"""The library as a user types it first: `import headway as hw`."""

import subprocess
import sys
from inspect import unwrap
from pathlib import Path

import pytest
import torch

import headway as hw
from headway.data.tokenizer import Tokenizer
from headway.models.language import Language
from headway.models.model import Model

TEXT = "the tide comes in, the tide goes out, and the boats go with it.\n" * 60
SMALL = {"layers": 2, "width": 24, "heads": 3, "vocabulary": 65, "length": 17}


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("book") / "book.txt"
    place.write_text(TEXT)
    return place


@pytest.fixture(scope="module")
def run(book: Path):
    model = hw.build("gpt2", **SMALL, attention="local", window=5, seed=3)
    out = book.parent / "runs" / "book"
    return hw.train(model, book, out=out, steps=6, batch=3, tokenizer="character", evaluate_every=3, save_every=3)


def test_build_changes_sizes_and_attention_by_name() -> None:
    model = hw.build("gpt2", **SMALL, attention="local", window=5)
    assert isinstance(model, Language) and model.training
    assert model.config.stack.block.attention.mechanism.window == 5
    text = repr(model)
    assert len(text.splitlines()) < 10 and "window=5" in text and "training mode" in text
    with pytest.raises(ValueError, match="a model is built from its configuration or the name of a preset"):
        unwrap(hw.build)(5)  # type: ignore[call-overload]


def test_a_loop_of_ones_own_lowers_the_loss() -> None:
    model, tokens = hw.build("gpt2", **SMALL), torch.randint(0, 65, (5, 17), generator=torch.Generator().manual_seed(1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(8):
        loss = model.loss(tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0] - 0.5


def test_tokens_may_be_int32() -> None:
    model, tokens = hw.build("gpt2", **SMALL).eval(), torch.randint(0, 65, (5, 17))
    assert torch.equal(model.loss(tokens.int()), model.loss(tokens))


def test_train_returns_a_run_that_every_verb_accepts(run, capsys: pytest.CaptureFixture[str]) -> None:
    from headway.cli import main

    assert run.state == "finished" and run.step == 6 and isinstance(run.model, Model) and len(repr(run)) < 200
    assert run.model.config.stack.block.attention.mechanism.kind == "local"
    model, tokenizer, receipt = hw.load(run.path)
    assert isinstance(tokenizer, Tokenizer) and receipt.found == receipt.expected and not model.training
    found = hw.generate(model, "the tide", tokenizer=tokenizer, max_new_tokens=7, temperature=0.8, seed=1)
    assert len(found.tokens) == 7
    assert hw.generate(str(run.path), "the tide", max_new_tokens=7, temperature=0.8, seed=1) == found
    for verb in ("info", "cost", "eval", "look", "generate", "convert"):
        more = {"eval": [str(run.path.parent.parent / "book.txt")], "look": ["the tide"],
                "generate": ["--prompt", "the tide", "--max-new-tokens", "3"],
                "convert": [str(run.path.parent / "copy")]}  # fmt: skip
        assert main([verb, str(run.path), *more.get(verb, [])]) == 0, (verb, capsys.readouterr())


WORDS = ["good boat", "fine tide", "bad storm", "poor wind", "good sea", "bad rain", "fine sand", "poor fish"]


def test_runs_that_classify_embed_and_translate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a run has learnt is used from Python and from the command line, by the name of the run."""
    from headway.cli import main

    lines = tmp_path / "lines.txt"
    lines.write_text("good tide\nbad fish\n")
    labelled = "".join(f"{text},{'no' if text[0] in 'bp' else 'yes'}\n" for text in WORDS * 3)
    (tmp_path / "classes.csv").write_text("text,label\n" + labelled)
    (tmp_path / "twins.tsv").write_text("first\tsecond\n" + "".join(f"{w}\t{w} again\n" for w in WORDS * 2))
    (tmp_path / "pairs.tsv").write_text("source\ttarget\n" + "".join(f"{w}\t{w[::-1]}\n" for w in WORDS * 2))
    small = {
        "steps": 2,
        "batch": 2,
        "held": 0.0,
        "layers": 1,
        "width": 16,
        "heads": 2,
        "length": 24,
        "tokenizer": "byte",
    }
    files = {"classify": "classes.csv", "embed": "twins.tsv", "seq2seq": "pairs.tsv"}
    runs = {
        task: hw.train(None, tmp_path / file, out=tmp_path / task, task=task, **small) for task, file in files.items()
    }
    assert [run.state for run in runs.values()] == ["finished"] * 3
    one = hw.classify(runs["classify"].model, "good tide")
    assert {label for label, _ in one} == {"yes", "no"} and hw.classify(tmp_path / "classify", ["good tide"]) == [one]
    vector = hw.embed(runs["embed"].model, "good tide")
    assert vector.shape == (16,) and torch.equal(hw.embed(tmp_path / "embed", ["good tide"])[0], vector)
    assert torch.equal(runs["embed"].model.encode(["good tide"])[0], vector)
    text = hw.translate(runs["seq2seq"].model, "good tide", max_new_tokens=5)
    assert hw.translate(tmp_path / "seq2seq", ["good tide"], max_new_tokens=5) == [text]
    for verb, task in (("classify", "classify"), ("embed", "embed"), ("translate", "seq2seq")):
        assert main([verb, str(tmp_path / task), str(lines)]) == 0, (verb, capsys.readouterr())
        assert len(capsys.readouterr().out.splitlines()) == 2
    with pytest.raises(ValueError, match="this holds a masked model, and translating takes one that reads a source"):
        hw.translate(runs["classify"].model, "good tide")


def test_a_run_that_has_not_finished_is_said_to_every_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from headway.cli import main

    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("seed: 0\n")
    (tmp_path / "lines.txt").write_text("a line\n")
    for verb in ("info", "cost", "audit", "look", "generate", "embed", "classify", "translate", "convert", "eval"):
        more = {"convert": [str(tmp_path / "copy")], "generate": ["--prompt", "a"], "look": ["a"]}
        assert main([verb, str(tmp_path / "run"), *more.get(verb, [str(tmp_path / "lines.txt")][: verb in
                     ("embed", "classify", "translate", "eval")])]) == 2  # fmt: skip
        assert "is a run that has not finished: it has no model yet" in capsys.readouterr().err


def test_a_run_goes_on(run, book: Path) -> None:
    again = hw.train(out=run.path, resume=True, steps=9)
    assert again.step == 9 and again.state == "finished"


def test_train_learns_from_a_configuration_and_from_a_preset(book: Path, tmp_path: Path) -> None:
    config = hw.build("gpt2", **SMALL, positions="rotary").config
    one = hw.train(config, book, out=tmp_path / "one", steps=2, batch=2, tokenizer="character")
    assert one.model.config.stack == config.stack and one.model.config.vocabulary == 65
    two = hw.train(
        "gpt2", book, out=tmp_path / "two", steps=1, batch=2, length=13, tokenizer="byte",
        layers=1, width=16, heads=2,
    )  # fmt: skip
    assert two.model.config.stack.layers == 1 and two.model.config.length == 13
    with pytest.raises(ValueError, match="not a module that is not headway's; a loop of your own trains any module"):
        unwrap(hw.train)(torch.nn.Linear(2, 3), book)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nothing to train on"):
        hw.train(config)
    with pytest.raises(ValueError, match=r"the tokenizer has 21 tokens, and model\.config knows 5"):
        hw.train(config.replace(vocabulary=5), book, out=tmp_path / "three", tokenizer=one.path / "tokenizer")
    assert not (tmp_path / "three").exists()


@pytest.mark.parametrize(
    "prompt", ["the", [3, 1, 4], (3, 1, 4), torch.tensor([3, 1, 4]), hw.Request(prompt=(3, 1, 4), max_new_tokens=5)]
)
def test_one_prompt_gives_one_result_and_a_list_gives_a_list(run, prompt) -> None:
    options = {} if isinstance(prompt, hw.Request) else {"max_new_tokens": 5}
    one, several = hw.generate(run.model, prompt, **options), hw.generate(run.model, [prompt], **options)
    assert several == [one]
    events = list(hw.stream(run.model, [prompt], **options))
    assert "".join(event.text for event in events) == one.text


def test_what_cannot_be_meant_is_refused_in_a_sentence(run) -> None:
    with pytest.raises(ValueError, match=r"there is no option 'max_length'.*; there are max_new_tokens"):
        hw.generate(run.model, "the", max_length=3)
    with pytest.raises(ValueError, match="a Request says itself how to go on: put temperature into it"):
        hw.generate(run.model, hw.Request(prompt="the"), temperature=0.5)
    with pytest.raises(
        ValueError, match="a prompt is a text, tokens, messages or a Request, or a list of these; not a int"
    ):
        unwrap(hw.generate)(run.model, 3)
    with pytest.raises(ValueError, match="a prompt of text needs a tokenizer"):
        hw.generate(hw.build("gpt2", **SMALL), "the")


def test_generate_leaves_the_mode_as_it_was() -> None:
    model = hw.build("gpt2", **SMALL, dropout=0.5)
    first = hw.generate(model, [3, 1, 4], max_new_tokens=4)
    assert model.training and all(part.training for part in model.modules())
    assert hw.generate(model.eval(), [3, 1, 4], max_new_tokens=4) == first


def test_prices_and_reports_print_as_tables() -> None:
    sheet, report = hw.price("gpt2", length=64), hw.examine("bare-block", laws="padding")
    assert len(repr(sheet)) < 200 and len(repr(report)) < 200
    assert "Matrix products" in str(sheet) and "124,439,808" in str(sheet)
    assert "verdict" in str(report) and "holds" in str(report)
    with pytest.raises(ValueError, match="an audit is of a module"):
        unwrap(hw.examine)(3)  # type: ignore[arg-type]


def test_names_are_functions_whatever_was_imported_before() -> None:
    """A submodule that has the name of a function would hide it."""
    code = (
        "import headway.cli.train, headway.cli.generate, headway.app.train, headway.decoding.stream, headway as hw\n"
        "assert all(callable(getattr(hw, name)) for name in hw.__all__ if name not in ('nn', 'MECHANISMS'))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
