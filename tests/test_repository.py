"""The frame of the repository: what is written in two places agrees, and what the pages promise is there."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import headway

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_the_same_everywhere() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", headway.__version__)
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "headway/__init__.py"
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == headway.__version__


def test_public_names_agree() -> None:
    """The table, __all__ and what type checkers see."""
    tree = ast.parse(Path(headway.__file__).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in guarded.body for alias in node.names}  # type: ignore[attr-defined]
    assert seen == headway.PUBLIC
    assert headway.__all__ == list(headway.PUBLIC)


@pytest.mark.parametrize("name", headway.PUBLIC)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(headway, name) is vars(sys.modules[headway.PUBLIC[name]])[name]
    assert name in dir(headway)


def test_importing_headway_does_not_import_torch() -> None:
    code = "import sys, headway; dir(headway); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(
        AttributeError, match=r"^module 'headway' has no attribute 'wieghts'; did you mean 'weights'\?$"
    ):
        headway.wieghts  # noqa: B018
    with pytest.raises(AttributeError, match=r"^module 'headway' has no attribute 'zzz'$"):
        headway.zzz  # noqa: B018


def test_annotations_are_checked_in_tests() -> None:
    """Under the hook of conftest.py a wrong type is refused; in use it is not looked at."""
    assert type(headway.__loader__).__name__ == "_JaxtypingLoader"
    with pytest.raises(Exception, match="Type-check error"):
        headway.__getattr__(7)


@pytest.fixture
def frame(tmp_path: Path) -> Path:
    """A copy of what make needs, with an interpreter that only writes down how it was called."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    fake = tmp_path / ".venv" / "bin" / "python"
    fake.parent.mkdir(parents=True)
    fake.write_text('#!/bin/sh\necho "$@" >>calls\ncase "$*" in *install*) test ! -e broken ;; esac\n')
    fake.chmod(0o755)
    return tmp_path


def installs(frame: Path) -> int:
    subprocess.run(["make", ".venv/.installed"], cwd=frame, capture_output=True, check=False)
    return (frame / "calls").read_text().count("install")


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_the_environment_is_refreshed_when_it_must_be(frame: Path, changed: str) -> None:
    assert (installs(frame), installs(frame)) == (1, 1)
    later = (frame / ".venv" / ".installed").stat().st_mtime + 7
    os.utime(frame / changed, (later, later))
    assert installs(frame) == 2


def test_an_install_that_failed_is_tried_again(frame: Path) -> None:
    (frame / "broken").touch()
    assert (installs(frame), installs(frame)) == (1, 2)
    (frame / "broken").unlink()
    assert (installs(frame), installs(frame)) == (3, 3)


def test_ci_runs_make_check_and_make_test_and_nothing_else() -> None:
    script = ROOT / ".ci" / "run"
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith(("#", "set ", "cd "))]
    assert lines == ["make check", "CI=true HEADWAY_REQUIRE_BROWSER=1 exec make test"]
    assert os.access(script, os.X_OK)


SKIPS = """
import pytest
def test_skips(): pytest.skip("no reason")
@pytest.mark.skip
def test_marked(): ...
@pytest.mark.xfail(strict=True)
def test_expected(): assert False
def test_passes(): ...
"""


# A skip by mark or of a whole file is found before the test's own call, and pytest calls that an error.
@pytest.mark.parametrize(
    ("ci", "summary"),
    [("true", "1 failed, 1 passed, 1 xfailed, 2 errors"), ("", "1 passed, 3 skipped, 1 xfailed")],
)
def test_a_skip_in_ci_is_a_failure(tmp_path: Path, ci: str, summary: str) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "torch.py").write_text("def manual_seed(seed): ...\n")  # importing torch would take most of the time
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "test_module.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    call = [sys.executable, "-m", "pytest", "-q", "--continue-on-collection-errors", "-p", "no:cacheprovider"]
    call += ["-p", "no:headway"]  # as in pyproject.toml: the plugin comes before the conftest
    done = subprocess.run(
        call, cwd=tmp_path, env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert summary in done.stdout, done.stdout
