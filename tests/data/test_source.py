"""Every place and every format gives the same records; every mistake is one sentence."""

import gzip
import io
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headway.data import lines, source
from headway.data.source import Document, Record, documents, fingerprint, records

PAIRS = [("Good morning", "Buenos días"), ('She said "no", twice', "Dijo «no»"), ("naïve 🙂", "ingenuo")]


def jsonl(rows: list[tuple[str, str]]) -> str:
    return "".join(json.dumps({"id": 7, "en": one, "es": two}) + "\n\n" for one, two in rows)


def table(rows: list[tuple[str, str]]) -> str:
    return "id,en,es\n" + "".join('7,"{}","{}"\n'.format(*(side.replace('"', '""') for side in row)) for row in rows)


def tabs(rows: list[tuple[str, str]]) -> str:
    return "es\ten\n" + "".join(f"{two}\t{one}\r\n" for one, two in rows)


WRITTEN: dict[str, Callable[[list[tuple[str, str]]], str]] = {
    "pairs.jsonl": jsonl,
    "pairs.csv": table,
    "pairs.tsv": tabs,
    "pairs.txt": lambda rows: "\ufeff" + "".join(f"{one}\t{two}\n" for one, two in rows),
}


def write(path: Path, text: str | bytes) -> str:
    content = text.encode() if isinstance(text, str) else text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def pairs(*places: str, **options: str) -> list[tuple[str, str]]:
    found = records(places, columns={"source": "en", "target": "es"}, **options)
    return [(record.fields["source"], record.fields["target"]) for record in found]


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("name", WRITTEN)
def test_every_format_gives_the_same_records(tmp_path: Path, name: str, end: str) -> None:
    place = write(tmp_path / (name + end), WRITTEN[name](PAIRS))
    assert pairs(place) == PAIRS
    assert next(records([place], columns={"source": "en", "target": "es"})).where.endswith(f"of {place}")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", WRITTEN)
def test_standard_input(monkeypatch: pytest.MonkeyPatch, name: str, packed: bool) -> None:
    content = WRITTEN[name](PAIRS).encode()
    content = gzip.compress(content) if packed else content
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert pairs("-", format=name.split(".")[1].replace("txt", "text")) == PAIRS
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="standard input is closed"):
        pairs("-")


def test_folders_and_globs_are_sorted_and_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "b" / "2.csv", table(PAIRS[1:2]))
    write(tmp_path / "b" / "1.jsonl", jsonl(PAIRS[:1]))
    write(tmp_path / "c.tsv.gz", tabs(PAIRS[2:]))
    write(tmp_path / ".hidden.txt", "no record at all")
    write(tmp_path / "b" / ".git" / "x.txt", "no record at all")
    write(tmp_path / "empty.txt", "")
    assert pairs(str(tmp_path)) == PAIRS
    monkeypatch.chdir(tmp_path)
    assert pairs("c.tsv.gz", "**/*.csv") == [PAIRS[2], PAIRS[1]]
    assert pairs("~/c.tsv.gz") if os.path.expanduser("~") == str(tmp_path) else True


def test_csv_may_hold_line_ends_in_quotes_and_long_fields(tmp_path: Path) -> None:
    place = write(tmp_path / "a.csv", 'text,label\n"two\r\nlines",yes\n\n' + "x" * 200_000 + ",no\n")
    found = list(records([place], columns=("text", "label")))
    assert found[0] == Record(f"line 2 of {place}", {"text": "two\nlines", "label": "yes"})
    assert found[1].where == f"line 5 of {place}"
    assert len(found[1].fields["text"]) == 200_000


def test_numbers_are_labels_too(tmp_path: Path) -> None:
    place = write(tmp_path / "a.jsonl", '{"text": "x", "label": 1}\n{"text": "y", "label": true}\n')
    assert [one.fields["label"] for one in records([place], columns=("text", "label"))] == ["1", "true"]


MISTAKES = {
    "latin.txt": ("caf\u00e9\n".encode("latin-1"), "line 1 of {} is not UTF-8 text"),
    "later.txt": (b"one\ttwo\n\xff\xfe", "line 2 of {} is not UTF-8 text"),
    "cut.txt": (b"one\ttwo\n\xc3", "line 2 of {} is not UTF-8 text"),
    "empty.txt": ("", "{} is empty: there is no text in it"),
    "blank.txt": ("\n \n", "{} is empty: there is no text in it"),
    "header.csv": ("source,target\n", "{} is empty: there is no text in it"),
    "one.txt": (
        "a\tb\nalone\n",
        "line 2 of {} has 1 parts with a tab between them where 2 are expected: source, target",
    ),
    "named.csv": ("sources,to\nx,y\n", "{} has no column 'source'; it has 'sources', 'to': did you mean 'sources'?"),
    "other.csv": ("x,to\n1,2\n", "{} has no column 'source'; it has 'x', 'to': say with data.source which one it is"),
    "short.csv": ("source,target\na\n", "line 2 of {} has 1 columns where the header has 2"),
    "twice.csv": ("source,source,target\na,b,c\n", "{} has more than one column 'source'"),
    "quote.csv": (
        'source,target\na,b\n"c,d\ne,f\n',
        (
            "the row that begins at line 3 of {} cannot be read: unexpected end of data; "
            "is there a quote that is never closed?"
        ),
    ),
    "broken.jsonl": (
        '{"source": "a", "target": "b"}\n{"source": "a",\n',
        "line 2 of {} is not valid JSON: Expecting property name enclosed in double quotes at character 16",
    ),
    "list.jsonl": ("[1]\n", "line 1 of {} holds list where an object with named fields is expected"),
    "lacks.jsonl": (
        '{"source": "a"}\n',
        "line 1 of {} has no column 'target'; it has 'source': say with data.target which one it is",
    ),
    "null.jsonl": (
        '{"source": null, "target": "b"}\n',
        "column 'source' at line 1 of {} holds nothing where a text is expected",
    ),
    "half.jsonl": (
        '{"source": "\\ud83d", "target": "b"}\n',
        "line 1 of {} spells half of a character (a lone surrogate such as \\ud800)",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_a_file(tmp_path: Path, name: str) -> None:
    content, sentence = MISTAKES[name]
    place = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=f"^{re.escape(sentence.format(place))}$"):
        list(records([place], columns=("source", "target")))


def test_mistakes_in_a_place(tmp_path: Path) -> None:
    here = str(tmp_path)
    write(tmp_path / "corpus.txt", "a\tb\n")
    write(tmp_path / "false.gz", "")
    (tmp_path / "false.gz").write_text("not packed")
    whole = gzip.compress(b"one\n" * 5000)
    (tmp_path / "cut.gz").write_bytes(whole[:-9])
    (tmp_path / "bad.gz").write_bytes(whole[:20] + b"\xff\xff" + whole[22:])
    (tmp_path / "nothing").mkdir()
    for place, sentence in {
        f"{here}/corpu.txt": f"there is no file or folder {here}/corpu.txt; did you mean {here}/corpus.txt?",
        f"{here}/zzz": f"there is no file or folder {here}/zzz; sources by name are python, stdlib, gettext, cldr",
        f"{here}/nothing": f"the folder {here}/nothing has no files",
        f"{here}/*.csv": f"no file matches {here}/*.csv",
        f"{here}/false.gz": f"{here}/false.gz is not compressed with gzip, though its name says so",
        f"{here}/cut.gz": f"{here}/cut.gz is compressed with gzip and damaged: ",
        f"{here}/bad.gz": f"{here}/bad.gz is compressed with gzip and damaged: ",
    }.items():
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
            list(records([place], columns=("text",)))
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
            list(documents([place]))
    with pytest.raises(ValueError, match="no data was named"):
        list(documents([]))
    # A mistake in the last place is told before the first is read.
    with pytest.raises(ValueError, match="there is no file"):
        next(documents([f"{here}/corpus.txt", f"{here}/zzz"]))


def test_a_line_of_ten_megabytes(tmp_path: Path) -> None:
    place = write(tmp_path / "long.txt", "short\n" + "é" * 5_000_000 + "\nlast")
    with pytest.raises(ValueError, match=r"line 2 of .*long.txt has 5,000,000 characters, .* at most 1,048,576: break"):
        list(records([place], columns=("text",)))
    found = list(documents([place]))
    assert max(len(one.text) for one in found) <= 2 * lines.PIECE and len(found) > 3
    assert [one.ends for one in found] == [False] * (len(found) - 1) + [True]
    assert "".join(one.text for one in found) == "short\n" + "é" * 5_000_000 + "\nlast"
    by_line = list(documents([place], document="line"))
    assert [one.where for one in by_line if one.ends] == [f"line {number} of {place}" for number in (1, 2, 3)]
    assert sum(len(one.text) for one in by_line) == 5_000_009
    json_line = write(tmp_path / "long.jsonl", json.dumps({"text": "x" * 10_000_000}))
    assert [len(one.text) for one in documents([json_line])] == [10_000_000]


@given(st.text(alphabet="aé🙂 \n", max_size=60), st.integers(4, 13), st.sampled_from(list(source.CUTS)))
@example(text="aaaaaaaa", size=4, document="file")
@example(text=" 🙂", size=4, document="line")
@example(text="aaa    🙂", size=4, document="paragraph")
def test_pieces_join_to_the_text(text: str, size: int, document: str) -> None:
    """Whatever the size of pieces: no character is cut or lost, but what lies between lines and paragraphs."""
    kept = lines.PIECE, source.PIECE
    lines.PIECE = source.PIECE = size
    try:
        found = [
            Document("x", one.text, one.ends)
            for one in source.CUTS[document](lines._decoded(io.BytesIO(text.encode()), "x"), "x")
        ]
    finally:
        lines.PIECE, source.PIECE = kept
    joined, whole = "", []
    for one in found:
        joined += one.text
        if one.ends:
            whole.append(joined)
            joined = ""
    assert joined == ""
    if document == "file":
        assert whole == [text] or (not whole and not text.strip())
    elif document == "line":
        assert [one for one in whole if one.strip()] == [one for one in text.split("\n") if one.strip()]
    else:
        expected = [part for part in re.split(r"\n(?: *\n)+", "\n" + text + "\n\n") if part.strip()]
        assert [one.strip("\n") for one in whole] == [part.strip("\n") for part in expected]


def test_documents_of_every_kind(tmp_path: Path) -> None:
    place = write(tmp_path / "a.txt", "one\r\ntwo\n\n \nthree\n")
    assert list(documents([place])) == [Document(place, "one\ntwo\n\n \nthree\n")]
    assert [one.text for one in documents([place], document="line")] == ["one", "two", "three"]
    paragraphs = list(documents([place], document="paragraph"))
    assert [(one.where, one.text) for one in paragraphs] == [
        (f"line 1 of {place}", "one\ntwo\n"),
        (f"line 5 of {place}", "three\n"),
    ]
    rows = write(tmp_path / "a.csv", "id,body\n1,one\n2,two\n3, \n")
    assert [one.text for one in documents([rows], column="body")] == ["one", "two"]
    with pytest.raises(ValueError, match=r"has no column 'text'; it has 'id', 'body': say with data.text"):
        list(documents([rows]))


def test_identity_follows_the_files(tmp_path: Path) -> None:
    place = write(tmp_path / "a.txt", "one")
    first = fingerprint([str(tmp_path)])
    assert fingerprint([str(tmp_path)]) == first == fingerprint([place])
    os.utime(place, ns=(7, 7))
    assert (second := fingerprint([place])) != first
    write(tmp_path / "b.txt", "two")
    assert fingerprint([str(tmp_path)]) not in (first, second)
    assert fingerprint(["python"]) != fingerprint(["stdlib"])
    with pytest.raises(ValueError, match="standard input can be read once only"):
        fingerprint(["-"])
