"""One vocabulary of options: grouped help of `train`, hints for other tools' names, aliases, JSON on every verb."""

import json
import re
from pathlib import Path

import pytest

import headway
from headway.cli import VERBS, build, main
from headway.cli.option_names import ALIASES, HINTS
from headway.cli.train_help import COMMAND, FIRST, TOPICS, help_text, settings
from headway.config.train import TrainConfig
from tests.cli.test_cli import IMPORTED, python


def test_every_setting_has_one_topic_and_a_text() -> None:
    for option in (*COMMAND, *settings()):
        groups = tuple(name for names in TOPICS.values() for name in names if name.endswith("."))
        topics = [name for names in TOPICS.values() for name in names if name == option.name]
        topics += [group for group in groups if option.name.startswith(group)]
        assert len(topics) == 1 and option.text, option
    nested = {name: getattr(field.annotation, "model_fields", None) for name, field in TrainConfig.model_fields.items()}
    count = sum(1 if inner is None else len(inner) for inner in nested.values())
    assert len(list(settings())) == count > 70


def test_the_first_help_is_short_with_defaults_and_examples_and_the_other_has_everything() -> None:
    first, every = help_text(every=False, width=100), help_text(every=True, width=100)
    names = {option.name for option in (*COMMAND, *settings())}
    assert set(FIRST) <= names and 12 <= len(FIRST) <= 20
    assert all(re.search(rf"^  {re.escape(name)}( |$)", every, re.MULTILINE) for name in names)
    assert first.count("Example:") == len(FIRST) and len(first.splitlines()) < 100
    flags = ("DATA", "--resume", "--json")
    for option in (*COMMAND, *settings()):
        if option.name in FIRST and option.name not in flags:
            assert option.default or "by default" in option.text, option
    assert "--model.softcap" not in first and max(map(len, every.splitlines())) <= 100


@pytest.mark.parametrize("flag", ["--help", "-h", "--help-all"])
def test_the_help_of_train_imports_neither_torch_nor_cyclopts(flag: str) -> None:
    code = IMPORTED.replace("'torch' in sys.modules", "'torch' in sys.modules, 'cyclopts' in sys.modules")
    assert python("-c", code, "train", flag).stdout.splitlines()[-1] == "0 False False"


@pytest.mark.parametrize("verb", VERBS)
def test_no_option_text_begins_with_of(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help-all" if verb == "train" else "--help"]) == 0
    assert re.findall(r"^.* {2}Of\b.*$", capsys.readouterr().out, re.MULTILINE) == []


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("train x --lr 0.1", "'--lr'; did you mean --optim.rate?"),
        ("train x --learning_rate=0.1", "'--learning_rate=0.1'; did you mean --optim.rate?"),
        ("train x --epochs 3", "'--epochs'; did you mean --steps?"),
        ("train x --batch-size 3", "'--batch-size'; did you mean --batch?"),
        ("train x --num-layers 3", "'--num-layers'; did you mean --model.layers?"),
        ("train x --n-head 3", "'--n-head'; did you mean --model.heads?"),
        ("train x --d-model 3", "'--d-model'; did you mean --model.width?"),
        ("train x --hidden-size 3", "'--hidden-size'; did you mean --model.width?"),
        ("train x --max-tokens 3", "'--max-tokens'; did you mean --length?"),
        ("train x --model gpt2", "'--model'; did you mean --model.start?"),
        ("train x --output_dir y", "'--output_dir'; did you mean --out?"),
        ("train x --stpes 3", "'--stpes'; did you mean --steps?"),
        ("eval x y --batch-size 3", "'--batch-size'; did you mean --batch?"),
        ("classify x y --batch-size 3", "'--batch-size'; did you mean --batch?"),
        ("translate x --num-beams 3", "'--num-beams'; did you mean --beam?"),
        ("translate x y z --beams 3 --num-beams 3", "'--num-beams'; did you mean --beam?"),
        ("generate x --max-length 3", "'--max-length'; did you mean --max-new-tokens?"),
        ("cost gpt2 --seq-len 3", "'--seq-len'; did you mean --length?"),
        ("convert a b --precision bfloat16", "'--precision'; did you mean --dtype?"),
        ("embed x y --output z", "'--output'; did you mean --out?"),
        ("embed x y --zzz", "'--zzz'; see headway embed --help"),
    ],
)
def test_names_of_other_tools_get_a_hint(command: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == 2
    assert capsys.readouterr() == ("", f"headway: there is no option {sentence}\n")


def test_a_word_too_many_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "x", "y", "z", "--beams", "3"]) == 2
    sentence = "headway translate has no use for 'z'; see headway translate --help"
    assert capsys.readouterr() == ("", f"headway: {sentence}\n")


def test_every_hint_and_alias_names_an_option_that_exists() -> None:
    options = {option.name for option in settings()} | {option.name for option in COMMAND}
    for verb in set(VERBS) - {"train"}:
        options |= {name for one in build([verb])[verb].assemble_argument_collection() for name in one.names}
    assert not {ours for found in HINTS.values() for ours in found} - options
    assert not {ours for found in ALIASES.values() for ours in found.values()} - options


def test_words_of_other_verbs_are_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.csv").write_text("body\nsome text\n")
    words = ["--optimiser", "muon", "--text=body", "-o", str(tmp_path / "run"), "--print-config"]
    assert main(["train", str(tmp_path / "x.csv"), *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["optim"]["kind"], found["data"]["text"]) == ("muon", "body")
    assert found == TrainConfig(**found).model_dump(mode="json")


def test_train_and_convert_print_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book, run = tmp_path / "book.txt", tmp_path / "run"
    book.write_text("The river ran past a stone house.\n" * 400)
    sizes = ["--model.layers", "1", "--model.width", "16", "--steps", "2", "--batch", "3", "--length", "16"]
    words = [str(book), *sizes, "--tokenizer.kind", "byte", "--evaluate-every", "1", "-o", str(run), "--json"]
    assert main(["train", *words, "--dry-run"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert main(["train", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"] == str(run / "model") and found["reason"] == "finished" and found["step"] == 2
    assert found["parameters"] == plan["parameters"] and found["best_loss"] > 0
    assert main(["convert", str(run), "--out", str(tmp_path / "half"), "--dtype", "bfloat16", "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["parameters"] == found["parameters"] and written["dtype"] == "bfloat16" and written["tokenizer"]
    assert headway.load(tmp_path / "half").receipt.hash == written["hash"]
    for places in ([], [str(tmp_path / "a"), "--out", str(tmp_path / "b")]):
        assert main(["convert", str(run), *places]) == 2
        assert "name one place to write to" in capsys.readouterr().err
