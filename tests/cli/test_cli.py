"""The shell around the verbs: lazy, and short with its user's mistakes."""

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headway import __version__
from headway.cli import VERBS, build, main
from headway.cli.errors import run

ROOT = Path(__file__).parent.parent.parent


def python(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A fresh interpreter, so that what it imports is what the command line imports."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", **environment}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=120)


def planted(verb: Callable[..., object]) -> int:
    """The exit code of a command whose body is `verb`."""
    app = build([])
    app.command(verb, name="planted")
    return run(app, ["planted"], VERBS)


IMPORTED = "import sys; from headway.cli import main; code = main(sys.argv[1:]); print(code, 'torch' in sys.modules)"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"], [], ["bnech"], ["--foo"]])
def test_torch_is_not_imported_before_a_verb_runs(arguments: list[str]) -> None:
    code = 0 if arguments in ([], ["-h"], ["--help"], ["--version"]) else 2
    assert python("-c", IMPORTED, *arguments).stdout.splitlines()[-1] == f"{code} False"


def test_help_lists_every_verb_with_its_summary_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", "").split())
    for verb, summary in VERBS.items():
        assert f"{verb} {summary}" in shown
        assert shown.count(f"headway {verb}") >= 1


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_shows_its_own_docstring_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    usage, _, shown = capsys.readouterr().out.partition("\n")
    function = getattr(importlib.import_module(f"headway.cli.{verb}"), verb)
    assert usage.startswith(f"Usage: headway {verb}")
    assert " ".join(function.__doc__.split("\n\n")[0].split()) in " ".join(shown.split())
    assert re.search(rf"^\s+headway {verb}\b", shown, re.MULTILINE), "no example, or one in a section that is dropped"


def test_python_dash_m_is_the_same_program() -> None:
    done = python("-m", "headway", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"headway {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["bnech"], "there is no command 'bnech'; did you mean 'bench'?"),
        (["--versoin"], "there is no option '--versoin'; did you mean '--version'?"),
        (["zzz"], f"there is no command 'zzz'; the commands are {', '.join(VERBS)}; see headway --help."),
    ],
)
def test_an_unknown_command_suggests(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", f"headway: {sentence}\n")


def test_an_unknown_option_of_a_verb_suggests(capsys: pytest.CaptureFixture[str]) -> None:
    app = build([])

    def planted(*, length: int = 5) -> None: ...

    app.command(planted)
    assert run(app, ["planted", "--lenght", "7"], VERBS) == 2
    assert capsys.readouterr() == ("", "headway: there is no option '--lenght'; did you mean --length?\n")
    assert run(app, ["planted", "--length", "seven"], VERBS) == 2
    assert capsys.readouterr().err == 'headway: Invalid value for --length: unable to convert "seven" into int.\n'


MISTAKES = {
    "width 768 is not divisible by heads 7": ValueError("width 768 is not\n  divisible by heads 7"),
    "run.yaml: no such file or directory": FileNotFoundError(2, "No such file or directory", "run.yaml"),
    "no run is called a": FileNotFoundError("no run is called a"),
    "out: file exists": FileExistsError(17, "File exists", "out"),
    "ValueError": ValueError(),
}


@pytest.mark.parametrize("sentence", MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_code_2(sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    def verb() -> None:
        raise MISTAKES[sentence]

    assert planted(verb) == 2
    assert capsys.readouterr() == ("", f"headway: {sentence}\n")


def test_a_mistake_shows_its_traceback_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_TRACEBACK", "1")

    def verb() -> None:
        raise ValueError("width 768")

    with pytest.raises(ValueError, match="width 768"):
        planted(verb)


PLANTED = "import sys; from headway.cli import VERBS, build; from headway.cli.errors import run; app = build([])\n{}\n"
CALL = "app.command(verb)\nsys.exit(run(app, ['verb'], VERBS))"


def test_a_bug_keeps_its_traceback_and_exit_code_1() -> None:
    done = python("-c", PLANTED.format("def verb(): return {}['bug']\n") + CALL)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("KeyError: 'bug'\n")


def test_ctrl_c_exits_130_without_a_word() -> None:
    # A process that was started in the background may have been told to ignore it.
    wait = "signal.signal(signal.SIGINT, signal.default_int_handler); os.kill(os.getpid(), signal.SIGINT)"
    verb = f"def verb():\n    import os, signal\n    {wait}\n    signal.pause()\n"
    done = python("-c", PLANTED.format(verb) + CALL)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("lines", [1, 100_000])  # one that is flushed at the end, and one that breaks on the way
def test_a_reader_who_leaves_is_not_told(lines: int) -> None:
    verb = f"def verb():\n    sys.stdin.read()\n    print('line\\n' * {lines})\n"
    call = [sys.executable, "-c", PLANTED.format(verb) + CALL]
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "",
    }  # unbuffered, nothing is left to flush
    with subprocess.Popen(call, env=environment, **pipe) as process:
        process.stdout.close()
        process.stdin.close()
        assert (process.stderr.read(), process.wait(timeout=120)) == (b"", 141)


@pytest.mark.parametrize(("result", "code"), [(None, 0), (3, 3), ("text", 0)])
def test_a_verb_may_return_an_exit_code(result: object, code: int) -> None:
    assert planted(lambda: result) == code


@pytest.mark.parametrize("unset", [False, True])
def test_no_color_is_honoured(unset: bool) -> None:
    colours = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "NO_COLOR": "" if unset else "1"}
    shown = python("-m", "headway", "--help", **colours).stdout
    assert (re.search(r"\x1b\[[0-9;]*3[0-9]", shown) is not None) is unset
