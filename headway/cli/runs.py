"""`headway runs`: the runs there are, and how some of them differ."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headway.cli.output import STDOUT, Output

if TYPE_CHECKING:
    from headway.app.run import Run
    from headway.render import Table

TONES = ("blue", "dark_orange", "green", "magenta", "cyan", "yellow", "bright_blue", "red")


def runs(
    *directories: Path,
    compare: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    output: Output = STDOUT,
) -> int:
    """List the runs of `headway train`, or compare some of them.

    The list has a line for each run, the newest first: what it learns, how
    far it is, its lowest loss on the validation data, and whether it is
    running (its last lines are recent), stopped, finished or diverged. A
    comparison shows the curves over one another, what was measured, and the
    options that are not the same; the page of --html has the curves of all
    runs in the list, or of those compared.

    For example:

        headway runs
        headway runs experiments/
        headway runs --compare first second
        headway runs --compare first second --html both.html
        headway runs --json

    Parameters
    ----------
    directories
        Where the runs are, or runs themselves; by default runs/.
    compare
        Names of runs in the directories, or their paths.
    """
    from headway.app.runs import as_json, choose, compared, differences, document, find_runs

    output.check()
    found = find_runs(directories) if compare is None else choose(compare, directories)
    for run in found:
        for note in run.notes:
            print(f"note: {run.name}: {note}", file=sys.stderr)
    rows = [as_json(run) for run in found]
    page = lambda: document(found)  # noqa: E731
    if compare is None:
        output.write([_listed(found)], record=rows, page=page)
    else:
        record = {"runs": rows, "measures": compared(found), "differences": differences(found)}
        tables = _compared(found, [run.name for run in found])
        output.write(tables, record=record, page=page, text=lambda console: _draw(console, found))
    return 0


def _listed(found: "Sequence[Run]") -> "Table":
    from headway.render.table import COUNT, DURATION, Amount, Table

    columns = ("name", "task", "state", "parameters", "steps", "best loss", "at step", "time")
    rows = [
        (
            run.name,
            run.task,
            run.state,
            None if run.parameters is None else Amount(run.parameters, COUNT),
            Amount(run.step, text=f"{run.step:,}" + ("" if run.steps is None else f" of {run.steps:,}")),
            run.best and run.best[1],
            run.best and run.best[0],
            None if run.seconds is None else Amount(run.seconds, DURATION),
        )
        for run in found
    ]
    return Table("", columns, rows)


def _compared(found: "Sequence[Run]", names: "Sequence[str]") -> "list[Table]":
    """What was measured, and the options that are not the same."""
    from headway.app.runs import compared, differences
    from headway.render import Table

    measures = Table("Measures", ("measure", *names), [[name, *row] for name, row in compared(found).items()])
    changed = [[name, *values] for name, values in differences(found).items()]
    return [measures, *([Table("Options that are not the same", ("option", *names), changed)] if changed else [])]


def _draw(console: Any, found: "Sequence[Run]") -> None:
    """The comparison in a terminal: the curves, each with its letter, above the tables."""
    from headway.app.runs import curves
    from headway.render.table import print_tables
    from headway.render.terminal_plot import letter, plot

    title, series = curves(found)
    console.print(title, style="bold", highlight=False, markup=False)
    for cells in plot(series, width=min(console.width, 100) - 2):
        console.print(_coloured(cells))
    for place, one in enumerate(series):
        console.print(_coloured([(character, place) for character in f"{letter(place)} {one.name}"]))
    console.print()
    tables = _compared(found, [f"{letter(place)} {run.name}" for place, run in enumerate(found)])
    print_tables(console, "", tables, ["The configurations are the same."] if len(tables) == 1 else [])


def _coloured(cells: "Sequence[tuple[str, int | None]]") -> Any:
    from rich.text import Text

    line = Text(no_wrap=True, overflow="crop")
    for character, tone in cells:
        line.append(character, style="" if tone is None else TONES[tone % len(TONES)])
    return line
