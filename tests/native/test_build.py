"""Building: once, into the cache, safely at the same time; without a compiler everything goes on and says so once."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from headway.native import build
from headway.native.activation import activation, serves


def test_the_portable_set_is_always_there_and_comes_last() -> None:
    assert build.variants()[-1] == "portable"
    assert list(build.variants()) == [name for name in build.VARIANTS if name in build.variants()]


def test_each_set_has_its_vector_width(kernels: str) -> None:
    width = build.load(kernels).headway_vector_width()
    assert width == {"avx512vnni": 16, "avx512": 16, "avx2": 8, "portable": 4}[kernels]


def test_it_is_built_once_and_again_when_the_flags_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with ThreadPoolExecutor(2) as pool:  # two builds at once give one file
        first, second = pool.map(build._built, ["portable"] * 2)
    assert first == second
    assert [path.name for path in (tmp_path / "headway" / "native").iterdir()] == [first.name]
    time = first.stat().st_mtime_ns
    assert build._built("portable").stat().st_mtime_ns == time
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-DOTHER"))
    assert build._built("portable") != first


def test_a_compiler_that_fails_is_named_with_its_first_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-include", "no-such-file.h"))
    with pytest.raises(OSError, match=r"could not build the kernels \(.*no-such-file\.h"):
        build._built("portable")
    assert list((tmp_path / "headway" / "native").iterdir()) == []


WITHOUT = """
from headway.native.build import library
assert library() is None and library() is None
"""


def test_without_a_compiler_it_says_so_once(tmp_path: Path) -> None:
    empty = {**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "CXX": ""}
    done = subprocess.run([sys.executable, "-c", WITHOUT], env=empty, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "headway: no C++ compiler was found; everything is computed by torch, and decoding is slower. "
        "Install g++ or clang++ (or name one in CXX), or set HEADWAY_NATIVE=0 to read this no more.\n"
    )


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert build.library() is not None
    with build.switched_off():
        assert build.library() is None
        assert not serves(torch.zeros(3))
    monkeypatch.setenv("HEADWAY_NATIVE", "0")
    assert build.library() is None


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_number_of_threads_is_torchs_and_changes_nothing(kernels: str, threads: int) -> None:
    x, before = torch.randn(50_021), torch.get_num_threads()
    right = activation(x, "gelu")
    try:
        torch.set_num_threads(threads)
        assert torch.equal(activation(x, "gelu"), right)
    finally:
        torch.set_num_threads(before)


def test_a_forked_process_computes_the_same() -> None:
    """Its parent's pool is gone there."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    x = torch.randn(50_021)
    right = activation(x, "gelu")
    try:
        child = os.fork()
        if child == 0:
            same = activation(x, "gelu").numpy().tobytes() == right.numpy().tobytes()  # torch's own pool would hang
            os._exit(0 if same else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        torch.set_num_threads(before)
