"""The output options of every verb that prints a table: the format, and the file that the result goes to.

def verb(target: str, *, output: Output = STDOUT) -> int:
    output.check()  # before anything is computed
    ...
    output.write(tables, record=record)
"""

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from headway.render import Table

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
PAGE = Path("-")  # --html without a file: the page is the result itself


@Parameter(name="*", group="Output")
@dataclass(frozen=True)
class Output:
    """In which format, and where to."""

    json: Flag = False
    "JSON, for programs."
    csv: Flag = False
    "Comma-separated values, numbers in full."
    markdown: Flag = False
    "Markdown tables."
    latex: Flag = False
    "LaTeX tables, with booktabs."
    html: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None
    "An HTML page: in this file (.html) besides the result, or without a file name as the result."
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None
    "Write the result into this file instead of stdout."

    @property
    def format(self) -> str:
        """One of text, json, csv, markdown, latex, html."""
        from headway.render.formats import chosen

        return chosen(json=self.json, csv=self.csv, markdown=self.markdown, latex=self.latex, html=self.html == PAGE)

    @property
    def text(self) -> bool:
        """Whether the result is for people: progress and colours may go with it."""
        return self.format == "text"

    def check(self) -> None:
        """Refuse two formats, and files that cannot be written, before anything is computed.

        A file that is no page of headway's is not replaced by one: --html is easily followed by another file's name.
        """
        from headway.data.files import writable

        assert self.format
        if self.out is not None:
            writable(self.out)
        if self.html is not None and self.html != PAGE:
            from headway.render import GENERATOR

            if writable(self.html).is_file() and GENERATOR.encode() not in self.html.read_bytes()[:4096]:
                raise ValueError(f"{self.html} exists and is no page of headway's: choose another file")

    def write(
        self,
        tables: "Sequence[Table]",
        *,
        record: Any,
        title: str = "",
        notes: Sequence[str] = (),
        flat: "Table | None" = None,
        page: Callable[[], str] | None = None,
        text: Callable[[Any], None] | None = None,
        indent: int | None = 2,
    ) -> None:
        """The result, in the format and at the place asked for.

        tables: printed in every format but JSON, which is `record` (with this `indent`). title, notes: before and
        after the tables. flat: the table of CSV, by default the first. page: the HTML document, by default one of the
        tables. text: prints to a console of rich what a terminal shows, by default the tables.
        """
        from headway.render.formats import HTML, formatted

        def made(kind: str) -> str:
            if kind == HTML and page is not None:
                return page()
            return formatted(kind, record=record, tables=tables, flat=flat, title=title, sentences=notes, indent=indent)

        if self.html is not None and self.html != PAGE:
            from headway.data.files import write_whole

            print(f"page: {write_whole(self.html, made(HTML))}", file=sys.stderr)
        if self.text:
            self._print(text or _printer(title, tables, notes))
        else:
            self.put(made(self.format))

    def put(self, text: str) -> None:
        """Text that is ready: into the file, whole or not at all, or to stdout."""
        if self.out is None:
            sys.stdout.write(text)
            return
        from headway.data.files import write_whole

        write_whole(self.out, text)

    def _print(self, show: Callable[[Any], None]) -> None:
        from headway.render.table import console_for

        if self.out is None:
            show(console_for())
        else:
            stream = io.StringIO()
            show(console_for(stream))
            self.put(stream.getvalue())


STDOUT = Output()


def _printer(title: str, tables: "Sequence[Table]", notes: Sequence[str]) -> Callable[[Any], None]:
    from headway.render.table import print_tables

    return lambda console: print_tables(console, title, tables, notes)
