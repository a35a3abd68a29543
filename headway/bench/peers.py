"""The peers of a race: where they are installed, each in a process of its own, right before they are timed."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headway.bench.agree import Disagreement
from headway.bench.contender_process import ROOT, ContenderProcess
from headway.bench.contenders import ContenderSetup, Peer, make
from headway.bench.measure import compare
from headway.bench.row import Row, Target, milliseconds, timed
from headway.bench.run import Bench

SECONDS = 20.0  # for a row: one call takes some of them
VARIABLE, DIRECTORY = "HEADWAY_PEERS", ".venv-peers"
SETTLE = 0.25  # seconds before each call: the threads of some libraries spin for 0.2 s after their last one


def interpreter(given: Path | None = None) -> Path:
    """The Python that has the peers: of the directory given, of $HEADWAY_PEERS, of .venv-peers, or this one."""
    named = given or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is not None and not (named / "bin" / "python").exists():
        raise ValueError(f"{named} is no environment with a bin/python: `make bench-peers` makes {DIRECTORY}")
    places = [named] if named else [Path(DIRECTORY), ROOT / DIRECTORY]
    found = (place / "bin" / "python" for place in places)
    return next((python.absolute() for python in found if python.exists()), Path(sys.executable))


def installed(python: Path, packages: Sequence[str]) -> set[str]:
    """Those of the packages that this Python can import."""
    code = "import sys; from importlib.util import find_spec; print(*filter(find_spec, sys.argv[1:]))"
    ran = subprocess.run([str(python), "-c", code, *packages], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


@dataclass
class Team:
    """Contenders that are ready, by the name that the table shows, and why others are not here."""

    members: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def drop(self, name: str, why: str) -> None:
        self.members.pop(name).close()
        self.absent[name] = why


@contextmanager
def team(run: Bench, peers: Sequence[Peer], precision: str, directory: Path, **sizes: int) -> Iterator[Team]:
    """headway and every installed peer that has this precision, loaded; `sizes` are rows and length."""
    import torch

    python, found = interpreter(run.peers), Team()
    known = installed(python, [peer.package for peer in peers if peer.name != "headway"])
    work = run.place / "converted" / directory.name
    work.mkdir(parents=True, exist_ok=True)
    try:
        for peer in peers:
            own = peer.name == "headway"
            for label, called in peer.labels(precision).items():
                if not own and peer.package not in known:
                    found.absent[label] = "not installed"
                    continue
                setup = ContenderSetup(str(directory), str(work), called, torch.get_num_threads(), **sizes)
                start(found, label, peer, setup, Path(sys.executable) if own else python)
        yield found
    finally:
        for member in found.members.values():
            member.close()


def start(found: Team, label: str, peer: Peer, setup: ContenderSetup, python: Path) -> None:
    """One more member, or the reason why not."""
    try:
        member = ContenderProcess(make, peer.make, setup, python=python)
    except RuntimeError as problem:
        found.absent[label] = str(problem)
        return
    found.members[label] = member
    try:
        member.ask("load")
    except RuntimeError as problem:
        found.drop(label, str(problem))


def race(
    run: Bench,
    row: Row,
    found: Team,
    call: tuple[str, Sequence[Any]],
    check: Callable[[Any], None],
    *,
    flops: int,
    bytes: int,
    target: Target | None = None,
    figure: Callable[[float], float] = milliseconds,
    **clock: Any,
) -> Row:
    """The row: members whose `check` fails are left out and named; the others' calls are timed in turns.

    Where headway itself is out, the row has its peers' figures and says why.
    """
    for name, member in list(found.members.items()):
        try:
            check(member)
        except (Disagreement, RuntimeError) as problem:
            found.drop(name, str(problem))
    row = replace(row, note="; ".join([row.note] * bool(row.note) + _notes(found.absent)))
    method, arguments = call
    calls: Mapping[str, Callable[[], object]] = {
        name: lambda member=member: member.run(method, *arguments) for name, member in found.members.items()
    }
    if not calls:
        return timed(row, {}, target=target)
    # The check has warmed them up.
    settings = {"longest": run.seconds if run.quick else SECONDS, "least": 5, "warmup": 0, "pause": SETTLE}
    timings = compare(calls, **{"budget": run.seconds, **settings, **clock})
    limit = run.machine.least_seconds(flops=flops, bytes=bytes, precision=row.precision)
    return timed(row, timings, figure=figure, limit_seconds=limit, target=target)


def _notes(absent: Mapping[str, str]) -> list[str]:
    """One sentence for all that are not installed, one for each other reason."""
    missing = [name for name, why in absent.items() if why == "not installed"]
    reasons = [f"{name}: {why.splitlines()[0]}" for name, why in absent.items() if why != "not installed"]
    return [*([f"not installed: {', '.join(missing)}"] if missing else []), *reasons]
