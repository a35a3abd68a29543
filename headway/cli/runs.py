"""`headway runs`: the runs there are, and how some of them differ."""

import json as json_format
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from headway.app.run import Run

TONES = ("blue", "dark_orange", "green", "magenta", "cyan", "yellow", "bright_blue", "red")


def runs(
    *directories: Path,
    compare: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    html: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """List the runs of `headway train`, or compare some of them.

    The list has a line for each run, the newest first: what it learns, how
    far it is, its lowest loss on the validation data, and whether it is
    running (its last lines are recent), stopped, finished or diverged. A
    comparison shows the curves over one another, what was measured, and the
    options that are not the same.

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
    html
        Write one page with the curves of these runs (all in the list, or those compared).
    json
        A list of objects instead; of a comparison, one object.
    """
    from headway.app.runs import as_json, choose, compared, differences, find_runs, write_page

    found = find_runs(directories) if compare is None else choose(compare, directories)
    for run in found:
        for note in run.notes:
            print(f"note: {run.name}: {note}", file=sys.stderr)
    if html is not None:
        print(f"page: {write_page(found, html)}", file=sys.stderr)
    rows = [as_json(run) for run in found]
    if json:
        both = {"runs": rows, "measures": compared(found), "differences": differences(found)}
        print(json_format.dumps(rows if compare is None else _finite(both), indent=2, ensure_ascii=False, default=str))
    elif compare is None:
        _print_list(found)
    else:
        _print_comparison(found)
    return 0


def _print_list(found: "Sequence[Run]") -> None:
    from headway.render import duration, number, short

    columns = ("name", "task", "state", "parameters", "steps", "best loss", "at step", "time")
    rows = [
        [
            run.name,
            run.task,
            run.state,
            "–" if run.parameters is None else short(run.parameters),
            f"{run.step:,}" + ("" if run.steps is None else f" of {run.steps:,}"),
            number(run.best and run.best[1]),
            number(run.best and run.best[0]),
            duration(run.seconds),
        ]
        for run in found
    ]
    _print_table(columns, rows, left=3)


def _print_comparison(found: "Sequence[Run]") -> None:
    from headway.app.plot import letter, plot
    from headway.app.runs import compared, curves, differences
    from headway.render import number

    title, series = curves(found)
    console = _console()
    console.print(title, style="bold", highlight=False, markup=False)
    for cells in plot(series, width=min(console.width, 100) - 2):
        console.print(_coloured(cells))
    for place, one in enumerate(series):
        console.print(_coloured([(character, place) for character in f"{letter(place)} {one.name}"]))
    names = [f"{letter(place)} {run.name}" for place, run in enumerate(found)]
    print()
    _print_table(("measure", *names), [[name, *map(number, row)] for name, row in compared(found).items()], left=1)
    print()
    changed = [[name, *(_shown(value) for value in values)] for name, values in differences(found).items()]
    if changed:
        _print_table(("option", *names), changed, left=1)
    else:
        print("The configurations are the same.")


def _shown(value: object) -> str:
    return "–" if value is None else str(value)


def _coloured(cells: "Sequence[tuple[str, int | None]]") -> Any:
    from rich.text import Text

    line = Text(no_wrap=True, overflow="crop")
    for character, tone in cells:
        line.append(character, style="" if tone is None else TONES[tone % len(TONES)])
    return line


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> None:
    from rich.table import Table
    from rich.text import Text

    from headway.render import visible

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(columns):
        table.add_column(Text(visible(name)), justify="left" if place < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(text)) for text in row))
    _console().print(table)


def _console() -> Any:
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=max(120, console.width))


def _finite(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and value - value != 0 else value
