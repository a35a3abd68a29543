"""Sources by name: the same each time, and a sentence where a package or a language is missing."""

import re
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headway.data import builtin_data
from headway.data.source import documents, fingerprint, records


def test_the_reference_and_the_library_are_there_and_in_order() -> None:
    topics = list(documents(["python"]))
    assert sum(len(one.text) for one in topics) > 300_000 and all(one.ends for one in topics)
    assert any('The "assert" statement' in one.text for one in topics)
    library = list(documents(["stdlib"]))
    assert sum(len(one.text) for one in library) > 5_000_000
    names = [Path(one.where.split(" of ")[0]) for one in library]
    assert names == sorted(names) and Path("argparse.py") in names
    assert not any("test" in name.parts or "site-packages" in name.parts for name in names)
    assert [one.text for one in library] == [one.text for one in documents(["stdlib"])]


def test_a_name_is_the_source_and_a_path_is_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("python").write_text("mine")
    assert [one.text for one in documents(["./python"])] == ["mine"]
    assert len(list(documents(["python"]))) > 50
    lines = list(documents(["python"], document="line"))
    assert len(lines) > 5000 and not any("\n" in one.text for one in lines)


def catalogue(messages: dict[str, str]) -> bytes:
    """A .mo file, by the layout that gettext's manual gives it."""
    keys = sorted(messages)
    at = 28 + 16 * len(keys)
    tables, data = [b"", b""], b""
    for side, texts in enumerate((keys, [messages[key] for key in keys])):
        for text in texts:
            tables[side] += struct.pack("<II", len(text.encode()), at + len(data))
            data += text.encode() + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(keys), 28, 28 + 8 * len(keys), 0, at)
    return head + tables[0] + tables[1] + data


MESSAGES = {
    "": "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=n != 1;\n",
    "Log out": "Cerrar sesión",
    "month\x04May": "mayo",
    "Hello,\n  %(name)s, how are you?": "Hola, %(name)s, ¿qué tal te encuentras?",
    "%(a)s: %(b)s": "%(a)s – %(b)s",
    "Only %s left": "Quedan pocos",
    "%d file\x00%d files": "%d archivo\x00%d archivos",
    "Email": "Email",
    "...": "…",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "spoken"
    for language in ("es", "pt_BR"):
        folder = place / "locale" / language / "LC_MESSAGES"
        folder.mkdir(parents=True)
        (folder / "a.mo").write_bytes(catalogue(MESSAGES))
        (folder / "b.mo").write_bytes(catalogue({"": MESSAGES[""], "Log out": "Cerrar sesión", "Save": "Guardar"}))
    (place / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return place


def pairs(place: str) -> list[tuple[str, str]]:
    found = records([place], columns={"source": "en", "target": "es"})
    return [(record.fields["source"], record.fields["target"]) for record in found]


@pytest.mark.parametrize("language", ["es", "pt_BR", "pt-br"])
def test_messages_of_a_package(package: Path, language: str) -> None:
    assert sorted(pairs(f"gettext:spoken:{language}")) == [
        ("Hello, %(name)s, how are you?", "Hola, %(name)s, ¿qué tal te encuentras?"),
        ("Log out", "Cerrar sesión"),
        ("May", "mayo"),
        ("Save", "Guardar"),
    ]
    assert fingerprint([f"gettext:spoken:{language}"])


class Unknown(Exception): ...


def babel(spanish: dict) -> SimpleNamespace:
    """As much of Babel as is used."""
    kinds = ("languages", "territories", "scripts", "variants", "currencies", "days", "quarters", "eras", "meta_zones")
    names: dict[str, dict] = {kind: {} for kind in kinds}
    english = {**names, "languages": {"de": "German", "eo": "Esperanto", "x": "1"}, "months": {"wide": {1: "January"}}}
    known = {"en": english, "es": {**names, "months": {}, **spanish}}

    def parse(name: str) -> SimpleNamespace:
        if name not in known:
            raise Unknown(name)
        return SimpleNamespace(**known[name])

    return SimpleNamespace(Locale=SimpleNamespace(parse=parse), UnknownLocaleError=Unknown)


def test_names_of_things(monkeypatch: pytest.MonkeyPatch) -> None:
    months = {"wide": {1: "enero"}, "narrow": {1: "E"}}
    monkeypatch.setitem(
        sys.modules, "babel", babel({"languages": {"de": "alemán", "fr": "francés", "x": "1"}, "months": months})
    )
    assert pairs("cldr:es") == [("German", "alemán"), ("January", "enero")]
    with pytest.raises(ValueError, match="Babel has no names in 'zz': write a language as in es"):
        pairs("cldr:zz")
    with pytest.raises(
        ValueError, match=r"cldr:es has no column 'text'; it has 'source', 'target': say with data.text"
    ):
        list(documents(["cldr:es"]))
    assert [one.text for one in documents(["cldr:es"], column="target")] == ["alemán", "enero"]


def test_what_is_missing_is_told(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "babel", None)
    (package / "locale" / "pt_BR" / "LC_MESSAGES" / "a.mo").write_bytes(b"no catalogue")
    for place, sentence in {
        "cldr:es": "CLDR's names are read with Babel, which is not installed: pip install babel",
        "cldr": "cldr is no source: write cldr:LANGUAGE",
        "gettext:spoken": "gettext:spoken is no source: write gettext:PACKAGE:LANGUAGE",
        "python:3": "python:3 is no source: write python",
        "gettext:no_such_package:de": "the package no_such_package is not installed: pip install no_such_package",
        "gettext:spoken:ess": "spoken has no translations into 'ess': did you mean es?",
        "gettext:spoken:zz": "spoken has no translations into 'zz': it has es, pt_BR",
        "gettext:spoken:pt_BR": "a.mo is no catalogue that gettext can read",
    }.items():
        with pytest.raises(ValueError, match=re.escape(sentence)):
            pairs(place)


def test_a_source_is_one_line_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        builtin_data.SOURCES, "counted", lambda count: ((f"{n}", {"text": f"{n}"}) for n in range(int(count)))
    )
    assert [one.text for one in documents(["counted:3"])] == ["0", "1", "2"]
