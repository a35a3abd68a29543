"""Compile the kernels at first use and load them.

The built file is kept in `$XDG_CACHE_HOME/headway/native` (`~/.cache` where that is not set) under a hash of the
source, the flags and the compiler, so that nothing stale is ever loaded. It is written beside and renamed: two
processes that build at once are safe.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch

SOURCE = Path(__file__).parent / "source"
FLAGS = ("-O3", "-std=c++17", "-fPIC", "-shared", "-pthread", "-fno-math-errno", "-fwrapv", "-Wno-psabi")
_AVX512 = ("avx512f", "avx512bw", "avx512vl", "avx512dq")

# Instruction sets, the best first: the flags of /proc/cpuinfo that one needs, and the compiler's.
VARIANTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "avx512vnni": (
        (*_AVX512, "avx512_vnni", "fma", "f16c"),
        (*(f"-m{name}" for name in _AVX512), "-mavx512vnni", "-mfma", "-mf16c"),
    ),
    "avx512": ((*_AVX512, "fma", "f16c"), (*(f"-m{name}" for name in _AVX512), "-mfma", "-mf16c")),
    "avx2": (("avx2", "fma", "f16c"), ("-mavx2", "-mfma", "-mf16c")),
    "portable": ((), ()),
}


def variants() -> tuple[str, ...]:
    """The instruction sets that this machine can run, the best first."""
    flags = _cpu_flags()
    return tuple(name for name, (needs, _) in VARIANTS.items() if flags.issuperset(needs))


@cache
def _cpu_flags() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    found = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(found.partition(":")[2].split())


def enabled() -> bool:
    """Whether compiled kernels are wanted: HEADWAY_NATIVE=0 and `switched_off()` say no."""
    return not _OFF and os.environ.get("HEADWAY_NATIVE", "1") not in ("0", "off", "no")


_OFF: list[bool] = []


@contextmanager
def switched_off() -> Iterator[None]:
    """Inside, everything is computed by torch."""
    _OFF.append(True)
    try:
        yield
    finally:
        _OFF.pop()


def library() -> ctypes.CDLL | None:
    """The kernels for this machine, built if need be; None where they are switched off or cannot be built."""
    return _best() if enabled() else None


def kind() -> str:
    """What computes here: the instruction set of the kernels, or torch.

    >>> kind() in (*variants(), "torch")
    True
    """
    return "torch" if library() is None else variants()[0]


@cache
def _best() -> ctypes.CDLL | None:
    try:
        return load(variants()[0])
    except (OSError, subprocess.SubprocessError) as error:
        _say(
            f"{error}; everything is computed by torch, and decoding is slower. "
            "Install g++ or clang++ (or name one in CXX), or set HEADWAY_NATIVE=0 to read this no more."
        )
        return None


@cache
def load(variant: str) -> ctypes.CDLL:
    """The kernels of one instruction set; raises OSError or SubprocessError where they cannot be built."""
    found = ctypes.CDLL(str(_built(variant)))
    _use_openmp(found)
    if sys.platform != "win32":
        # Threads of a pool do not survive a fork: the child starts its own for each call.
        os.register_at_fork(after_in_child=lambda: found.headway_use_openmp(None, None, None))
    return found


def _built(variant: str) -> Path:
    """The built file; compiled now where there is none."""
    command = [_compiler(), *FLAGS, *VARIANTS[variant][1]]
    target = _directory() / f"{variant}-{_fingerprint(command)}.so"
    if not target.exists():
        _compile(command, target)
    return target


def _directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "headway" / "native"


def _compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise OSError("no C++ compiler was found")


def _fingerprint(command: list[str]) -> str:
    """A hash of the source, the flags and the compiler: its file, not its version, which would have to be asked."""
    found = hashlib.sha256(repr(command).encode())
    status = Path(command[0]).resolve().stat()
    found.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    for path in sorted(SOURCE.iterdir()):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _compile(command: list[str], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        made = Path(place) / target.name
        process = subprocess.Popen(
            [*command, str(SOURCE / "kernels.cpp"), "-o", str(made)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            _, errors = process.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            _say("compiling kernels for this machine, once; it takes some seconds")
            _, errors = process.communicate()
        if process.returncode != 0:
            first = next((line for line in errors.splitlines() if "error" in line), errors[:200])
            raise OSError(f"{command[0]} could not build the kernels ({first.strip()})")
        made.replace(target)


def _say(sentence: str) -> None:
    print(f"headway: {sentence}", file=sys.stderr)


def _use_openmp(kernels: ctypes.CDLL) -> None:
    """Hand over the functions of the OpenMP that torch has loaded: its pool then runs the kernels too."""
    names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
    kernels.headway_use_openmp.argtypes = [ctypes.c_void_p] * 3
    kernels.headway_use_openmp.restype = None
    try:
        loaded = ctypes.CDLL(_openmp_path())
        functions = [ctypes.cast(getattr(loaded, name), ctypes.c_void_p) for name in names]
    except (OSError, AttributeError, StopIteration):
        return
    kernels.headway_use_openmp(*functions)


def _openmp_path() -> str:
    """The file of the libgomp that torch brings or has loaded; StopIteration where it uses another."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    found = {line.split(maxsplit=5)[-1] for line in maps if "libgomp" in line}
    own = str(Path(torch.__file__).parent)  # other packages bring theirs, each with a pool of its own
    return next(iter(sorted(found, key=lambda path: not path.startswith(own))))


def threads() -> int:
    """How many threads a kernel may use: as many as torch does."""
    return torch.get_num_threads()
