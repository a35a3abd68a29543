"""The section "Audit" of a report: which laws the trained model obeys, and a counter-example where not. No torch."""

from headway.app.run import Run
from headway.audit.html import section
from headway.audit.report import read
from headway.data.files import read_optional
from headway.render import Section

FILE = "audit.json"


def audit(run: Run) -> Section | None:
    """The verdicts and what is broken; None of a run that was not audited."""
    found = read_optional(run.path / FILE)
    if not found:
        return None
    try:
        return section(read(found), _sentences(found))
    except ValueError as error:
        raise ValueError(f"{FILE} is not as `headway audit` writes it ({error})") from None


def _sentences(found: dict[str, object]) -> dict[str, str]:
    """The laws in words, where whoever wrote the file put them in: their table needs torch, a page does not."""
    written = found.get("sentences", {})
    if not isinstance(written, dict):
        raise ValueError(f"the sentences of the laws are {type(written).__name__}")
    return {str(law): str(sentence) for law, sentence in written.items()}
