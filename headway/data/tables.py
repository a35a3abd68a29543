"""Records of named fields, from lines of text, JSON lines and tables."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from headway.data.lines import name_of
from headway.data.reading import whole_lines

_FIELD = (1 << 31) - 1
Columns = Mapping[str, str]  # our name of a field -> the column's name


@dataclass(frozen=True)
class Record:
    """Fields by our names, and the words for where they stand."""

    where: str
    fields: dict[str, str]


def read(file: Path, format: str, columns: Columns, longest: int | None) -> Iterator[Record]:
    """The records of one file of a known format."""
    if format == "jsonl":
        return _json(file, columns, longest)
    if format in ("csv", "tsv"):
        return _table(file, columns, longest, tabs=format == "tsv")
    return _text(file, columns, longest)


def taken(fields: Mapping[str, Any], columns: Columns, where: str) -> dict[str, str]:
    """Of these fields those that are asked for, by our names."""
    for ours, theirs in columns.items():
        if theirs not in fields:
            raise ValueError(_no_column(ours, theirs, list(fields), where))
    return {ours: _worded(fields[theirs], theirs, where) for ours, theirs in columns.items()}


def _no_column(ours: str, theirs: str, there: Sequence[str], where: str) -> str:
    near = get_close_matches(theirs, there, 1, cutoff=0.7)
    names = ", ".join(repr(name) for name in there) or "none"
    hint = f"did you mean {near[0]!r}?" if near else f"say with data.{ours} which one it is"
    return f"{where} has no column {theirs!r}; it has {names}: {hint}"


def _worded(value: object, name: str, where: str) -> str:
    """Numbers, as labels often are, become text; nothing else does."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    kind = "nothing" if value is None else "a list" if isinstance(value, list) else "an object"
    raise ValueError(f"column {name!r} at {where} holds {kind} where a text is expected")


def _text(file: Path, columns: Columns, longest: int | None) -> Iterator[Record]:
    """A record a line; several fields have a tab between them, in the order in which they are asked for."""
    for number, line in whole_lines(file, longest=longest):
        if not line.strip():
            continue
        where = f"line {number} of {name_of(file)}"
        parts = line.split("\t") if len(columns) > 1 else [line]
        if len(parts) != len(columns):
            raise ValueError(
                f"{where} has {len(parts)} parts with a tab between them where {len(columns)} are expected: "
                + ", ".join(columns)
            )
        yield Record(where, dict(zip(columns, parts, strict=True)))


def _json(file: Path, columns: Columns, longest: int | None) -> Iterator[Record]:
    for number, line in whole_lines(file, longest=longest):
        if not line.strip():
            continue
        where = f"line {number} of {name_of(file)}"
        try:
            found = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{where} is not valid JSON: {error.msg} at character {error.colno}") from None
        if not isinstance(found, dict):
            raise ValueError(f"{where} holds {type(found).__name__} where an object with named fields is expected")
        fields = taken(found, columns, where)
        # JSON can spell halves of characters that no text in UTF-8 has.
        if "\\ud" in line.lower() and any(not _is_text(value) for value in fields.values()):
            raise ValueError(f"{where} spells half of a character (a lone surrogate such as \\ud800)")
        yield Record(where, fields)


def _is_text(value: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _table(file: Path, columns: Columns, longest: int | None, *, tabs: bool) -> Iterator[Record]:
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
            header = _header(row, columns, name)
            continue
        if len(row) != len(header):
            raise ValueError(f"{where} has {len(row)} columns where the header has {len(header)}")
        yield Record(where, taken(dict(zip(header, row, strict=True)), columns, where))


def _header(row: list[str], columns: Columns, name: str) -> list[str]:
    taken(dict.fromkeys(row, ""), columns, name)
    if twice := [column for column in columns.values() if row.count(column) > 1]:
        raise ValueError(f"{name} has more than one column {twice[0]!r}")
    return row
