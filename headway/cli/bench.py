"""`headway bench`: headway and its peers, side by side, in one run."""

import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from headway.cli.output import STDOUT, Output

Work = Literal[
    "attention", "decode", "prefill", "embed", "translate", "load", "models", "train", "predict", "look", "report"
]  # fmt: skip
RACES = ("decode", "prefill", "embed", "translate", "load")  # works that take a directory


@Parameter(name="*")
@dataclass(frozen=True)
class TargetInputs:
    """What targets of one's own read."""

    batch: int = 1
    "Rows."
    length: int | None = None
    "Tokens of a row; 128 by default, or as many as every target allows."
    inputs: str | None = None
    "What a module reads, where that cannot be told: tokens, vectors:2,64,8 or images:2,3,32,32."
    dtype: Literal["float64", "float32", "bfloat16", "float16"] | None = None
    "Precision of weights and activations; as they are stored by default."


@Parameter(name="*")
@dataclass(frozen=True)
class RaceOptions:
    """Who is raced on whole models, and with what."""

    peers: Path | None = None
    "The environment that has the peers; $HEADWAY_PEERS, .venv-peers or this one by default."
    streams: Annotated[list[int], Parameter(negative="")] = field(default_factory=list)
    "For `decode`: texts decoded together; may be given several times. 1, 8 and 32 by default."
    sentences: int | None = None
    "For `embed`: how many sentences; 10,000 by default, 256 with --quick."
    files: Path | None = None
    "Keep the models and what they are converted into here, for the next run."


def bench(
    work: Work = "attention",
    *targets: str,
    only: Annotated[list[str] | None, Parameter(negative="")] = None,
    quick: Annotated[bool, Parameter(negative="")] = False,
    plot: Path | None = None,
    threads: int | None = None,
    size: TargetInputs = TargetInputs(),
    race: RaceOptions = RaceOptions(),
    output: Output = STDOUT,
) -> int:
    """Time headway beside its peers, in one run.

    Outputs are compared before times. Contenders take turns, round by round;
    every figure is a median with its spread, held against the limits of this
    machine, measured in the same run, and against the target of its row.

    A ratio is headway / best peer, the median over rounds: of times and bytes
    below 1 is better, of rates above 1. A row on growth has headway itself at
    half the length as its peer. The exit code is 1 when a row could not be
    measured, for example because two contenders disagree.

    For example:

        headway bench attention --quick
        headway bench attention --only local --only linear --json > rows.json
        headway bench decode --only float32 --streams 1
        headway bench prefill DIR --only bfloat16 --length 512
        headway bench models gpt2 runs/first my.package:model --length 64

    `decode`, `prefill`, `embed`, `translate` and `load` race headway against
    every peer that is installed (`make bench-peers`), each in a process of
    its own, on the same weights: random ones of a published size, a small
    real sentence encoder, or those of a directory that you name. Their cases
    are precisions. `models` runs all five. `report` makes a page of the JSON
    files that they wrote.

    `headway bench models TARGET ...` times your own models and modules
    instead: a forward pass, a training step, and decoding where a model can;
    tokens/s, peak memory, and the ratio to the first target.

    Parameters
    ----------
    work
        What to measure.
    targets
        For `models`: presets, directories, runs or package.module:function. For the five works on whole models: one
        directory. For `report`: files written with --json.
    only
        A case of the work, for example `local`; may be given several times.
    quick
        Smaller sizes and fewer rounds: about a minute.
    plot
        Also draw the rows into this file (.png, .svg or .pdf).
    threads
        Threads for torch; its own choice by default.
    """
    output.check()
    # torch takes seconds to import, and --help must not wait for it
    from headway.bench.run import run
    from headway.bench.show import draw, remarks, require, table, targets_table

    if work == "report":
        return _report(targets, output)
    own = work == "models" and bool(targets)
    _check(work, targets, race, plot if own else None)
    if plot is not None:
        require(plot)
    if threads is not None:
        _use(threads)
    result = run(
        _cases(work, targets if own else (), only, size),
        quick=quick,
        say=lambda line: print(line, file=sys.stderr, flush=True),
        files=race.files,
        target=targets[0] if targets and not own else None,
        peers=race.peers,
        streams=tuple(race.streams),
        length=size.length,
        sentences=race.sentences,
    )
    for warning in result.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    made = (targets_table if own else table)(result.rows, title=str(result.machine))
    output.write([made], record=[row.as_json() for row in result.rows], notes=remarks(result.rows))
    if plot is not None:
        draw(result.rows, plot, title=f"headway bench {work}: {result.machine}")
    return int(any(not row.measured for row in result.rows))


def _check(work: str, targets: tuple[str, ...], race: RaceOptions, plot: Path | None) -> None:
    """What can be refused before anything is measured."""
    from headway.bench.peers import interpreter

    if targets and work not in (*RACES, "models"):
        raise ValueError(
            "targets are timed by `headway bench models TARGET ...`; a directory may also be raced: decode"
        )
    if plot is not None:
        raise ValueError("targets are timed by `headway bench models TARGET ...`, without --plot")
    if work in RACES and targets and not (len(targets) == 1 and Path(*targets).is_dir()):
        raise ValueError(f"`headway bench {work}` takes one directory of a model, not {' '.join(targets)}")
    for streams in race.streams:
        if streams < 1:
            raise ValueError(f"--streams is at least 1, not {streams}")
    if race.sentences is not None and race.sentences < 1:
        raise ValueError(f"--sentences is at least 1, not {race.sentences}")
    interpreter(race.peers)


def _cases(work: str, targets: tuple[str, ...], only: list[str] | None, size: TargetInputs) -> Any:
    from headway.bench.run import cases_of, chosen

    if not targets:
        return cases_of(work, only)
    from headway.bench.targets import cases, subjects

    return chosen(cases(subjects(targets, **asdict(size))), work, only)


def _report(paths: tuple[str, ...], output: Output) -> int:
    """A page of rows that were measured before."""
    from headway.bench.report import page, read_rows

    output.put(page(read_rows(paths)))
    return 0


def _use(threads: int) -> None:
    import torch

    if threads < 1:
        raise ValueError(f"--threads is at least 1, not {threads}")
    torch.set_num_threads(threads)
