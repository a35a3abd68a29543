"""`headway audit`: which laws a model keeps, and a counter-example for each that it breaks."""

import shutil
import sys
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from headway.cli.common import Weights
from headway.cli.output import STDOUT, Output

if TYPE_CHECKING:
    from headway.adapt.adapter import Adapter
    from headway.audit.report import Report
    from headway.hub.load import OpenModel

BROKEN = 1


def _help(text: str, negative: str | None = None) -> Parameter:
    return Parameter(help=text, group="How the model is called, where it does not say so itself", negative=negative)


@dataclass(frozen=True)
class CallOptions:
    """Fields of headway.audit.Adapter that a command line can say."""

    inputs: Annotated[Literal["tokens", "vectors", "images"] | None, _help("What it reads.")] = None
    vocabulary: Annotated[int | None, _help("How many tokens it knows.")] = None
    width: Annotated[int | None, _help("Width of the vectors that it reads.")] = None
    image: Annotated[tuple[int, int, int] | None, _help("Channels, height and width of the images that it reads.")] = (
        None
    )
    shortest: Annotated[int | None, _help("The shortest text that it takes.")] = None
    multiple: Annotated[int | None, _help("Its texts are multiples of this in length.")] = None
    longest: Annotated[int | None, _help("The longest text that it takes.")] = None
    causal: Annotated[bool | None, _help("It reads from left to right, or claims no such thing.")] = None
    equivariant: Annotated[bool | None, _help("The order of its inputs does not matter.")] = None
    shifts: Annotated[bool | None, _help("Only differences of positions matter.")] = None
    argument: Annotated[str | None, _help("The keyword of its inputs; by default the first argument.")] = None
    mask: Annotated[str | None, _help("The keyword that says which inputs are real.")] = None
    hides: Annotated[bool | None, _help("True in that mask means: ignore.", "")] = None
    positions: Annotated[str | None, _help("The keyword of positions.")] = None
    source: Annotated[str | None, _help("The keyword of what an encoder reads.")] = None
    source_mask: Annotated[str | None, _help("The keyword that says what of it is real.")] = None
    output: Annotated[str | None, _help("Which part of its output to compare.")] = None


def audit(
    target: str,
    /,
    *,
    laws: str | None = None,
    quick: Annotated[bool, Parameter(negative="")] = False,
    health: Annotated[bool, Parameter(negative="")] = False,
    data: str | None = None,
    weights: Weights = None,
    seed: int = 0,
    output: Output = STDOUT,
    options: Annotated[CallOptions | None, Parameter(name="*")] = None,
) -> int:
    """Try the laws on a model: causal, padding, batch, cache and more.

    The model is a preset (random weights), a run, a directory with weights,
    or package.module:function, which builds any torch module (or returns the
    module and a headway.audit.Adapter). Each law is tried on random inputs,
    in float64 where the model can; a broken one comes with the smallest
    counter-example and the first module that went wrong. The exit code is 0
    if all hold, 1 if one is broken. Of a run, audit.json and report.html are
    written in its directory.

    For example:

        headway audit gpt2 --quick
        headway audit runs/first
        headway audit mypackage.model:build --causal --vocabulary 1000
        headway audit models:encoder --inputs vectors --width 64 --mask pad --hides
        headway audit runs/first --laws causal,cache --html audit.html
        headway audit runs/first --health --data book.txt

    Parameters
    ----------
    target
        A preset, a run, a directory with weights, or package.module:function.
    laws
        Some of them, with commas: causal, padding, quarantine, batch, cache,
        positions, masks, segments, determinism, dtype, export, norm, finite,
        empty.
    quick
        Fewer and shorter trials: some 30 s for 100 million parameters.
    health
        The state of its attention instead: scores, saturation, dead heads.
    data
        A text file to look at with --health; else random inputs.
    seed
        Seed of all that is drawn.
    """
    if data is not None and not health:
        raise ValueError("--data is what --health looks at: add --health, or leave it out")
    if laws is not None and health:
        raise ValueError("--health measures, and tries no laws: leave --laws out")
    output.check()
    overrides = {name: value for name, value in asdict(options or CallOptions()).items() if value is not None}
    # torch takes seconds to import, and --help must not wait for it
    from headway.audit.examination import open_subject

    if not 0 <= seed < 2**31:
        raise ValueError(f"a seed is a whole number from 0 to {2**31 - 1}, not {seed}")
    with redirect_stdout(sys.stderr):  # what a builder prints is no result of ours
        found, adapter = open_subject(target, overrides, seed=seed, weights=weights)
    if health:
        return _health(found, adapter, overrides, data=data, seed=seed, to=output)
    return _laws(found, adapter, overrides, laws=laws, quick=quick, seed=seed, to=output)


def _laws(
    found: "OpenModel",
    adapter: "Adapter | None",
    overrides: dict[str, Any],
    *,
    to: Output,
    **how: Any,
) -> int:
    from headway.app.audit import report_page, sentences, write_beside_run
    from headway.audit.examination import examine
    from headway.audit.text import laws_table, lines

    with redirect_stdout(sys.stderr):
        report = examine(found.model, adapter, name=found.name, say=_say, **overrides, **how)
    if found.run is not None:
        write_beside_run(found.run, report)
    to.write(
        [laws_table(report)],
        record=report.as_json(),
        page=lambda: report_page(report),
        text=lambda console: print(*_lines(report, lines, sentences(), to), sep="\n", file=console.file),
    )
    if not any(one.trials for one in report):
        raise ValueError(f"no law could be tried on {found.name}: see the reasons above, and say how it is called")
    return 0 if report.holds else BROKEN


def _lines(report: "Report", lines: Any, sentences: dict[str, str], to: Output) -> list[str]:
    width = shutil.get_terminal_size((100, 24)).columns
    return lines(report, sentences, colour=to.out is None and _colours(), width=max(60, min(width, 140)))


def _colours() -> bool:
    import os

    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _health(
    found: "OpenModel",
    adapter: "Adapter | None",
    overrides: dict[str, Any],
    *,
    to: Output,
    **how: Any,
) -> int:
    from headway.app.audit import diagnose_target, health_page
    from headway.audit.health.show import lines, tables

    health = diagnose_target(found, adapter, overrides, **how)
    to.write(
        tables(health),
        record=health.as_json(),
        page=lambda: health_page(found.name, health),
        text=lambda console: print(*lines(health), sep="\n", file=console.file),
    )
    return 0 if health.healthy else BROKEN


def _say(line: str) -> None:
    """Progress, for whoever watches."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr)
