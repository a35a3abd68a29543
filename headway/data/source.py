"""Records and documents, from wherever they are.

records(["train.csv"], columns=("text", "label"))      examples with named fields
documents(["book.txt", "stdlib"])                       text to learn a language from
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from headway.config.read_file import parse_json
from headway.config.train import DataConfig
from headway.data import builtin_data
from headway.data.lines import PIECE, TextLine, lines, whole_lines
from headway.data.paths import DataFile, find_data, fingerprint
from headway.data.stream import name_of

__all__ = ["Document", "Record", "documents", "fingerprint", "records"]

LONGEST = 1 << 20  # characters of a line that is one example


_FIELD = (1 << 31) - 1
Columns = Mapping[str, str]  # our name of a field -> the column's name


@dataclass(frozen=True)
class Record:
    """Fields by our names, the texts of columns that may have several or none, and the words for where they stand."""

    where: str
    fields: dict[str, str]
    several: tuple[str, ...] = ()


@dataclass(frozen=True)
class Document:
    """A document, or a part of one: `ends` says whether it ends here. `where` is how a sentence calls its place."""

    where: str
    text: str
    ends: bool = True


def records(
    places: Sequence[str],
    *,
    columns: Sequence[str] | Mapping[str, str],
    several: Sequence[str] = (),
    format: str = "auto",
) -> Iterator[Record]:
    """All examples of the places. `columns` names the fields needed, or says ours -> how the files call it.

    `several` are columns of the files with a text, none (an empty field, null) or in JSON a list of texts. Plain text
    has an example a line, and a tab between fields, in the order of `columns` and `several`.
    """
    wanted = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
    for place in find_data(places):
        yield from _some(_records(place, wanted, format, LONGEST, several), place)


def documents(
    places: Sequence[str], *, format: str = "auto", column: str = "text", document: str = "file"
) -> Iterator[Document]:
    """All documents of the places, long ones in pieces of about a megabyte that end with a line.

    In plain text a document is a file, a line or a paragraph (which ends with an empty line); elsewhere it is a record.
    """
    for place in find_data(places):
        if place.file is not None and place.format(format) == "text":
            found = CUTS[document](lines(place.file), place.name)
        else:
            found = _record_documents(_records(place, {"text": column}, format, None), document)
        yield from _some(found, place)


def _some(found: Iterable, place: DataFile) -> Iterator:
    """The same, and at least one; a file that was not named itself may be empty, as many in a folder are."""
    empty = True
    for one in found:
        empty = False
        yield one
    if empty and place.explicit:
        raise ValueError(f"{place.name} is empty: there is no text in it")


def _records(
    place: DataFile, columns: Columns, format: str, longest: int | None, several: Sequence[str] = ()
) -> Iterator[Record]:
    if place.file is not None:
        yield from read_records(place.file, place.format(format), columns, longest, several)
        return
    for where, fields in builtin_data.read(place.name):
        # Our own names hold too: files beside it may call their columns otherwise.
        names = {ours: theirs if theirs in fields else ours for ours, theirs in columns.items()}
        yield Record(where, taken(fields, names, place.name), _all_of(fields, several, place.name))


def _record_documents(found: Iterable[Record], document: str) -> Iterator[Document]:
    for record in found:
        text = record.fields["text"]
        if document == "file" and text.strip():
            yield Document(record.where, text)
        elif document != "file":
            numbered = enumerate(text.splitlines(), start=1)
            yield from CUTS[document]((TextLine(number, line) for number, line in numbered), record.where)


def _files(found: Iterable[TextLine], name: str) -> Iterator[Document]:
    """One document, in pieces; the last is told from the others by looking one ahead."""
    ready, begun = "", False
    for piece in _pieces(found):
        if ready:
            yield Document(name, ready, ends=False)
        ready, begun = piece, bool(ready)
    if begun or ready.strip():
        yield Document(name, ready)


def _pieces(found: Iterable[TextLine]) -> Iterator[str]:
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


def _each_line(found: Iterable[TextLine], name: str) -> Iterator[Document]:
    begun = False
    for line in found:
        if begun or not line.ends or line.text.strip():
            yield Document(f"line {line.number} of {name}", line.text, line.ends)
            begun = not line.ends


def _paragraphs(found: Iterable[TextLine], name: str) -> Iterator[Document]:
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


def documents_of(data: DataConfig, places: Sequence[str]) -> Iterator[Document]:
    """The documents of the places, read as a run's settings say."""
    return documents(places, format=data.format, column=data.text, document=data.document)


CUTS = {"file": _files, "line": _each_line, "paragraph": _paragraphs}


def read_records(
    file: Path, format: str, columns: Columns, longest: int | None, several: Sequence[str] = ()
) -> Iterator[Record]:
    """The records of one file of a known format."""
    if format == "jsonl":
        return _json(file, columns, longest, several)
    if format in ("csv", "tsv"):
        return _table(file, columns, longest, several, tabs=format == "tsv")
    return _text(file, columns, longest, several)


def taken(fields: Mapping[str, Any], columns: Columns, where: str) -> dict[str, str]:
    """Of these fields those that are asked for, by our names."""
    for ours, theirs in columns.items():
        if theirs not in fields:
            raise ValueError(_no_column(ours, theirs, list(fields), where))
    return {ours: _as_text(fields[theirs], theirs, where) for ours, theirs in columns.items()}


def _all_of(fields: Mapping[str, Any], several: Sequence[str], where: str) -> tuple[str, ...]:
    """The texts of columns that may have several or none."""
    found: list[str] = []
    for name in several:
        if name not in fields:
            there = ", ".join(map(repr, fields))
            raise ValueError(f"{where} has no column {name!r}; it has {there} (an empty field is no text)")
        value = fields[name]
        values = value if isinstance(value, list) else [] if value is None else [value]
        found += [text for one in values if (text := _as_text(one, name, where)).strip()]
    return tuple(found)


def _no_column(ours: str, theirs: str, there: Sequence[str], where: str) -> str:
    near = get_close_matches(theirs, there, 1, cutoff=0.7)
    names = ", ".join(repr(name) for name in there) or "none"
    hint = f"did you mean {near[0]!r}?" if near else f"say with data.{ours} which one it is"
    return f"{where} has no column {theirs!r}; it has {names}: {hint}"


def _as_text(value: object, name: str, where: str) -> str:
    """Numbers, as labels often are, become text; nothing else does."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    kind = "nothing" if value is None else "a list" if isinstance(value, list) else "an object"
    raise ValueError(f"column {name!r} at {where} holds {kind} where a text is expected")


def _text(file: Path, columns: Columns, longest: int | None, several: Sequence[str]) -> Iterator[Record]:
    """A record a line; several fields have a tab between them, in the order in which they are asked for."""
    names = (*columns, *several)
    for number, line in whole_lines(file, longest=longest):
        if not line.strip():
            continue
        where = f"line {number} of {name_of(file)}"
        parts = line.split("\t") if len(names) > 1 else [line]
        if len(parts) != len(names):
            raise ValueError(
                f"{where} has {len(parts)} parts with a tab between them where {len(names)} are expected: "
                + ", ".join(names)
            )
        fields = dict(zip(columns, parts, strict=False))
        yield Record(where, fields, tuple(part for part in parts[len(columns) :] if part.strip()))


def _json(file: Path, columns: Columns, longest: int | None, several: Sequence[str]) -> Iterator[Record]:
    for number, line in whole_lines(file, longest=longest):
        if not line.strip():
            continue
        where = f"line {number} of {name_of(file)}"
        found = parse_json(line, where)
        if not isinstance(found, dict):
            raise ValueError(f"{where} holds {type(found).__name__} where an object with named fields is expected")
        fields, others = taken(found, columns, where), _all_of(found, several, where)
        # JSON can spell halves of characters that no text in UTF-8 has.
        if "\\ud" in line.lower() and any(not _is_text(value) for value in (*fields.values(), *others)):
            raise ValueError(f"{where} spells half of a character (a lone surrogate such as \\ud800)")
        yield Record(where, fields, others)


def _is_text(value: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _table(
    file: Path, columns: Columns, longest: int | None, several: Sequence[str], *, tabs: bool
) -> Iterator[Record]:
    """A header with the columns' names, then a record a row. Between tabs a quote is a letter like any other."""
    name, begun = name_of(file), 1
    shape: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"delimiter": ","}
    rows = csv.reader((line + "\n" for _, line in whole_lines(file, longest=longest)), strict=True, **shape)
    header: list[str] | None = None
    csv.field_size_limit(longest or _FIELD)  # the library's own is 128 KB, for all readers there are
    while True:
        begun = rows.line_num + 1
        where = f"line {begun} of {name}"
        try:
            row = next(rows, None)
        except csv.Error as error:
            hint = "" if tabs else "; is there a quote that is never closed?"
            raise ValueError(f"the row that begins at {where} cannot be read: {error}{hint}") from None
        if row is None:
            return
        if not row:
            continue
        if header is None:
            header = _header(row, columns, several, name)
            continue
        if len(row) != len(header):
            raise ValueError(f"{where} has {len(row)} columns where the header has {len(header)}")
        fields = dict(zip(header, row, strict=True))
        yield Record(where, taken(fields, columns, where), _all_of(fields, several, where))


def _header(row: list[str], columns: Columns, several: Sequence[str], name: str) -> list[str]:
    _all_of(dict.fromkeys(row, ""), several, name)
    taken(dict.fromkeys(row, ""), columns, name)
    if twice := [column for column in (*columns.values(), *several) if row.count(column) > 1]:
        raise ValueError(f"{name} has more than one column {twice[0]!r}")
    return row
