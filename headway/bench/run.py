"""One run of a work: the machine, the cases asked for, the rows, and how far they can be trusted."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headway.bench import WORKS
from headway.bench.agree import Disagreement, agree
from headway.bench.machine import MachineLimits, measure, reference, warnings
from headway.bench.measure import compare, tensors
from headway.bench.row import Row, Target, milliseconds, timed, unmeasured

Case = Callable[["Bench"], Iterator[Any]]  # rows


@dataclass(frozen=True)
class Bench:
    """What a case needs: the machine's limits, how large to go, and how many seconds to spend on a row."""

    machine: MachineLimits
    quick: bool = False
    seconds: float = 2.0
    place: Path = Path()  # for files of models, kept as long as the run
    target: str | None = None  # the user's own model, where a work takes one
    peers: Path | None = None  # the environment that has the peers
    streams: tuple[int, ...] = ()  # texts decoded together; the work's own numbers where none is given
    length: int | None = None  # tokens of a prompt; likewise
    sentences: int | None = None  # that are embedded; likewise

    def race(
        self,
        row: Row,
        contenders: Mapping[str, Callable[[], Any]],
        *,
        check: Callable[[], object] | None = None,
        flops: int | None = None,
        bytes: int = 0,
        target: Target | None = None,
        figure: Callable[[float], float] = milliseconds,
        **clock: Any,
    ) -> Row:
        """Compares the contenders' outputs (or runs `check`, where they differ by design), then their times.

        `figure` turns seconds into the row's unit.
        """
        try:
            check() if check else agree({name: tuple(tensors(call())) for name, call in contenders.items()})
        except (Disagreement, ValueError, RuntimeError) as problem:
            return unmeasured(row, f"{type(problem).__name__}: {problem}", target=target)
        timings = compare(contenders, **{"budget": self.seconds, **clock})
        limit = None
        if flops is not None:
            limit = self.machine.least_seconds(flops=flops, bytes=bytes, precision=row.precision)
        return timed(row, timings, figure=figure, limit_seconds=limit, target=target)


@dataclass(frozen=True)
class BenchResult:
    """Rows and warnings of a finished run."""

    machine: MachineLimits
    rows: list[Any]  # Row, or TargetRow
    warnings: list[str]


def cases_of(work: str, only: list[str] | None) -> dict[str, Case]:
    """The cases of a work, all or those named."""
    return chosen(import_module(WORKS[work]).CASES, work, only)


def chosen(cases: Mapping[str, Case], work: str, only: list[str] | None) -> dict[str, Case]:
    """All cases or those named; an unknown name is refused with the nearest one."""
    for name in only or []:
        if name not in cases:
            near = get_close_matches(name, cases, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"no case {name!r} in {work!r}: {hint}the cases are {', '.join(cases)}")
    return {name: case for name, case in cases.items() if not only or name in only}


def run(
    cases: Mapping[str, Case],
    *,
    quick: bool = False,
    say: Callable[[str], None] = lambda line: None,
    files: Path | None = None,
    **options: Any,
) -> BenchResult:
    """Measures the machine, every case in turn, and the machine's steadiness once more at the end.

    `files`: where the models of the run are kept for the next one; a temporary directory by default. `options` are
    fields of `Bench`.
    """
    say("measuring the machine")
    machine = measure()
    say(str(machine))
    rows = []
    with TemporaryDirectory() as place:
        seconds = 0.2 if quick else 1.5
        session = Bench(machine, quick=quick, seconds=seconds, place=files or Path(place), **options)
        for name, case in cases.items():
            for row in case(session):
                rows.append(replace(row, machine=str(machine)))
                say(f"{name}: {row.summary()}")
    return BenchResult(machine, rows, warnings(machine.reference, reference()))
