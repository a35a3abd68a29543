"""Every code block of README.md and docs/*.md is run, and what it prints is compared with what the page says it prints.

    ```python        run; the blocks of one page share their names, top to bottom, in a fresh directory
    ```sh run        each line, `headway ...`, is run as a command (a plain ```sh is only read)
    ```text          if it is the next block after one that ran: what that one prints
    ```output        the same, and an error if nothing ran before it

Words are compared exactly, spacing is not; whole numbers exactly; other numbers within 1e-3 of their size, 1e-9, or one
unit of the last digit where four or more decimals are printed. Nothing is seeded here: an example that depends on
chance has to seed itself, for its reader as well. A time is no such output; show it in a block without a language.
"""

import io
import math
import re
import shlex
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest
import torch

from headway.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

FENCE = re.compile(r"\s*(?P<marks>`{3,}|~{3,})\s*(?P<words>[^`]*)$")
NUMBER = re.compile(r"((?<![\w.])[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?(?![\w.]*\w))", re.IGNORECASE)
TIME = re.compile(r"\d\s?(ns|µs|μs|us|ms|sec|seconds?|minutes?)\b")
SHELL = re.compile(r"[|<>;&$`]")


class DocsError(Exception):
    """A block that does not do what its page says."""


@dataclass(frozen=True)
class Block:
    page: Path
    line: int  # of the first line inside the fence
    words: tuple[str, ...]
    text: str

    @property
    def runs(self) -> bool:
        return self.words[:1] == ("python",) or self.words == ("sh", "run")

    def error(self, problem: str) -> DocsError:
        return DocsError(f"{self.page.name}:{self.line}: {problem}")


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1))
    for number, line in lines:
        if opening := FENCE.match(line):
            marks, inside = opening["marks"], []
            for _, line in lines:
                if (closing := FENCE.match(line)) and closing["marks"].startswith(marks) and not closing["words"]:
                    break
                inside.append(line)
            else:
                raise DocsError(f"{page.name}:{number}: this block is never closed")
            yield Block(page, number + 1, tuple(opening["words"].split()), dedent("\n".join(inside)))


def run_page(page: Path, directory: Path) -> int:
    """Run a page's blocks in a directory and return how many ran; the first that fails raises, naming its line."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed, ran = None, 0
    for block in blocks(page):
        kind = block.words[:1]
        if block.runs:
            printed = run_python(block, names) if kind == ("python",) else run_commands(block, directory)
            ran += 1
            continue
        if kind == ("output",) and printed is None:
            raise block.error("nothing ran before this output")
        if kind in {("output",), ("text",)} and printed is not None:
            compare(block, printed)
        printed = None
    return ran


def run_python(block: Block, names: dict[str, object]) -> str:
    """What a block prints. Empty lines in front make the lines of a traceback those of the page."""
    out = io.StringIO()
    try:
        code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec", dont_inherit=True)
        with redirect_stdout(out):
            exec(code, names)
    except Exception as error:
        places = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(block.page)
        ]
        where = places[-1] if places else error.lineno if isinstance(error, SyntaxError) else block.line
        raise block.error(f"line {where} raised {type(error).__name__}: {error}") from error
    return out.getvalue()


def run_commands(block: Block, directory: Path) -> str:
    """What the commands of a block print on stdout."""
    out = io.StringIO()
    for line in block.text.replace("\\\n", " ").splitlines():
        command = line.strip().removeprefix("$ ")
        if not command or command.startswith("#"):
            continue
        name, *arguments = shlex.split(command, comments=True)
        if name != "headway" or SHELL.search(command):
            raise block.error(f"only plain headway commands can be run, not {command!r}")
        said = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(said):
            patch.chdir(directory)
            patch.setenv("NO_COLOR", "1")
            patch.setenv("COLUMNS", "120")
            code = main(arguments)
        if code:
            raise block.error(f"{command!r} ended with {code}: {said.getvalue().strip()}")
    return out.getvalue()


def compare(block: Block, printed: str) -> None:
    """Line by line, with a tolerance for numbers."""
    if time := TIME.search(block.text):
        raise block.error(f"a time ({time[0]!r}) is no output that can be compared; use a block without a language")
    said, got = block.text.strip().splitlines(), printed.strip().splitlines()
    for offset, (one, other) in enumerate(zip(said, got, strict=False)):
        if not same(one, other):
            raise block.error(f"line {block.line + offset} says {one!r}, but it prints {other!r}")
    if len(said) != len(got):
        raise block.error(f"the page shows {len(said)} lines, but {len(got)} are printed:\n{printed}")


def same(said: str, got: str) -> bool:
    """
    >>> same("tensor([ 0.1234, 2.0000])", "tensor([0.1235, 2.0000])"), same("shape (2, 3)", "shape (2, 4)")
    (True, False)
    """
    ours, theirs = ([" ".join(piece.split()) for piece in NUMBER.split(text)] for text in (said, got))
    return len(ours) == len(theirs) and all(
        close(one, other) if place % 2 else one == other
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True))
    )


def close(said: str, got: str) -> bool:
    if re.fullmatch(r"[-+]?\d+", said):
        return said == got
    decimals = len(said.lower().partition("e")[0].partition(".")[2])
    last = 1.01 * 10.0**-decimals if decimals >= 4 and "e" not in said.lower() else 0.0
    return math.isclose(float(said), float(got), rel_tol=1e-3, abs_tol=max(1e-9, last))


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert page.exists(), f"{page.name} is missing"
    monkeypatch.chdir(tmp_path)
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.seed()
    try:
        ran = run_page(page, tmp_path)
    finally:
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)
    assert ran or page.name != "README.md", "README.md has no code that runs"


BAD = {
    "raises": (
        "words\n\n```python\nx = 1\nx / 0\n```\n",
        "bad.md:4: line 5 raised ZeroDivisionError: division by zero",
    ),
    "value": ("```python\nprint('is', 0.5)\n```\n```text\nis 0.502\n```\n", "bad.md:5: line 5 says 'is 0.502', but it"),
    "words": (
        "```python\nprint('b 1.0')\n```\n```output\na 1.0\n```\n",
        "bad.md:5: line 5 says 'a 1.0', but it prints",
    ),
    "fewer": ("```python\nprint('a\\nb')\n```\n```output\na\n```\n", "bad.md:5: the page shows 1 lines, but 2 are"),
    "time": ("```python\nprint('3 ms')\n```\n```output\n3 ms\n```\n", "bad.md:5: a time ('3 ms') is no output"),
    "open": ("```python\nx = 1\n", "bad.md:1: this block is never closed"),
    "command": ("```sh run\nheadway bnech\n```\n", "bad.md:2: 'headway bnech' ended with 2: headway: there is no"),
    "other": ("```sh run\nrm -rf everything\n```\n", "bad.md:2: only plain headway commands can be run, not 'rm"),
}


@pytest.mark.parametrize("case", BAD)
def test_the_runner_finds_a_bad_page(case: str, tmp_path: Path) -> None:
    text, problem = BAD[case]
    page = tmp_path / "bad.md"
    page.write_text(text)
    with pytest.raises(DocsError, match=re.escape(problem)):
        run_page(page, tmp_path)
