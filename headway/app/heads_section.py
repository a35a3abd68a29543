"""The section "Heads" of a report: what attends to what in the trained model, on an example of its own. No torch."""

from pathlib import Path

from headway.app.run import Run
from headway.data.files import read_optional
from headway.look.page import section
from headway.look.record import Look
from headway.look.written import read
from headway.render import Section

FILE = "heads.json"


def heads(run: Run) -> Section | None:
    """Every head, as the page of `headway look` has them; None of a run whose heads were not looked at."""
    found = kept(run.path)
    return None if found is None else section(found)


def kept(run: Path) -> Look | None:
    """What was seen when the run ended; None where nothing was kept."""
    found = read_optional(run / FILE)
    if not found:
        return None
    try:
        return read(found)
    except ValueError as error:
        raise ValueError(f"{FILE} is not as `headway train` writes it ({error})") from None
