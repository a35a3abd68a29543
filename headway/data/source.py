"""Records and documents, from wherever they are.

records(["train.csv"], columns=("text", "label"))      examples with named fields
documents(["book.txt", "stdlib"])                       text to learn a language from
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headway.data import embedded, tables
from headway.data.chunks import Document
from headway.data.places import Found, fingerprint, found_at, size_of
from headway.data.reading import PIECE, Line, lines
from headway.data.tables import Columns, Record

__all__ = ["Document", "Record", "documents", "fingerprint", "records", "size_of"]

LONGEST = 1 << 20  # characters of a line that is one example


def records(
    places: Sequence[str], *, columns: Sequence[str] | Mapping[str, str], format: str = "auto"
) -> Iterator[Record]:
    """All examples of the places. `columns` names the fields needed, or says ours -> how the files call it.

    Plain text has an example a line, and a tab between fields, in the order of `columns`.
    """
    wanted = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
    for place in found_at(places):
        yield from _some(_records(place, wanted, format, LONGEST), place)


def documents(
    places: Sequence[str], *, format: str = "auto", column: str = "text", document: str = "file"
) -> Iterator[Document]:
    """All documents of the places, long ones in pieces of about a megabyte that end with a line.

    In plain text a document is a file, a line or a paragraph (which ends with an empty line); elsewhere it is a record.
    """
    for place in found_at(places):
        if place.file is not None and place.format(format) == "text":
            found = CUTS[document](lines(place.file), place.name)
        else:
            found = _recorded(_records(place, {"text": column}, format, None), document)
        yield from _some(found, place)


def _some(found: Iterable, place: Found) -> Iterator:
    """The same, and at least one; a file that was not named itself may be empty, as many in a folder are."""
    empty = True
    for one in found:
        empty = False
        yield one
    if empty and place.asked:
        raise ValueError(f"{place.name} is empty: there is no text in it")


def _records(place: Found, columns: Columns, format: str, longest: int | None) -> Iterator[Record]:
    if place.file is not None:
        yield from tables.read(place.file, place.format(format), columns, longest)
        return
    for where, fields in embedded.read(place.name):
        # Our own names hold too: files beside it may call their columns otherwise.
        names = {ours: theirs if theirs in fields else ours for ours, theirs in columns.items()}
        yield Record(where, tables.taken(fields, names, place.name))


def _recorded(found: Iterable[Record], document: str) -> Iterator[Document]:
    for record in found:
        text = record.fields["text"]
        if document == "file" and text.strip():
            yield Document(record.where, text)
        elif document != "file":
            numbered = enumerate(text.splitlines(), start=1)
            yield from CUTS[document]((Line(number, line) for number, line in numbered), record.where)


def _files(found: Iterable[Line], name: str) -> Iterator[Document]:
    """One document, in pieces; the last is told from the others by looking one ahead."""
    ready, begun = "", False
    for piece in _pieces(found):
        if ready:
            yield Document(name, ready, ends=False)
        ready, begun = piece, bool(ready)
    if begun or ready.strip():
        yield Document(name, ready)


def _pieces(found: Iterable[Line]) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for line in found:
        held.append(line.text + line.mark)
        size += len(held[-1])
        if size >= PIECE:
            yield "".join(held)
            held, size = [], 0
    if size:
        yield "".join(held)


def _each_line(found: Iterable[Line], name: str) -> Iterator[Document]:
    begun = False
    for line in found:
        if begun or not line.ends or line.text.strip():
            yield Document(f"line {line.number} of {name}", line.text, line.ends)
            begun = not line.ends


def _paragraphs(found: Iterable[Line], name: str) -> Iterator[Document]:
    held: list[str] = []
    where, size, begun, fresh = "", 0, False, True  # begun: a piece of it was given; fresh: a line begins
    for line in found:
        blank, fresh = fresh and line.ends and not line.text.strip(), line.ends
        if blank and (held or begun):
            yield Document(where, "".join(held))
            held, size, begun = [], 0, False
        if blank:
            continue
        where = where if held or begun else f"line {line.number} of {name}"
        held.append(line.text + line.mark)
        size += len(held[-1])
        if size >= PIECE:
            yield Document(where, "".join(held), ends=False)
            held, size, begun = [], 0, True
    if held or begun:
        yield Document(where, "".join(held))


CUTS = {"file": _files, "line": _each_line, "paragraph": _paragraphs}
