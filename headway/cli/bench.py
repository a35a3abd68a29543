"""`headway bench`: headway and its peers, side by side, in one run."""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from headway.cli.output import STDOUT, Output

Work = Literal["attention", "models", "train", "predict", "look"]


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


def bench(
    work: Work = "attention",
    *targets: str,
    only: Annotated[list[str] | None, Parameter(negative="")] = None,
    quick: Annotated[bool, Parameter(negative="")] = False,
    plot: Path | None = None,
    threads: int | None = None,
    size: TargetInputs = TargetInputs(),
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
        headway bench models --only decode
        headway bench models gpt2 runs/first my.package:model --length 64

    `headway bench models TARGET ...` times your own models and modules
    instead: a forward pass, a training step, and decoding where a model can;
    tokens/s, peak memory, and the ratio to the first target.

    Parameters
    ----------
    work
        What to measure.
    targets
        For `models`: presets, directories, runs or package.module:function.
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
    from headway.bench.run import cases_of, chosen, run
    from headway.bench.show import draw, remarks, require, table, targets_table
    from headway.bench.targets import cases as target_cases
    from headway.bench.targets import subjects

    if targets and (work != "models" or plot is not None):
        raise ValueError("targets are timed by `headway bench models TARGET ...`, without --plot")
    if plot is not None:
        require(plot)
    if threads is not None:
        _use(threads)
    cases = chosen(target_cases(subjects(targets, **asdict(size))), work, only) if targets else cases_of(work, only)
    result = run(cases, quick=quick, say=lambda line: print(line, file=sys.stderr, flush=True))
    for warning in result.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    made = (targets_table if targets else table)(result.rows, title=str(result.machine))
    output.write([made], record=[row.as_json() for row in result.rows], notes=remarks(result.rows))
    if plot is not None:
        draw(result.rows, plot, title=f"headway bench {work}: {result.machine}")
    return int(any(not row.measured for row in result.rows))


def _use(threads: int) -> None:
    import torch

    if threads < 1:
        raise ValueError(f"--threads is at least 1, not {threads}")
    torch.set_num_threads(threads)
