"""How the recipes' data is read and split; nothing is downloaded here."""

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from recipes.fetch import alike, chapters, fashion, packages, sentiment, verses


def test_alike_texts_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefgh"), size=rng.integers(1, 7))) for _ in range(97)]
    found = [alike.words(text) for text in texts]
    wanted = [(a, b) for b in range(97) for a in range(b) if len(found[a] & found[b]) >= 0.7 * len(found[a] | found[b])]
    assert sorted(alike.pairs(texts)) == sorted(wanted)
    assert 0 < len(wanted) < 97 * 48


def test_groups_join_alike_texts_and_texts_of_one_origin() -> None:
    texts = [
        "YAY! Another good phone interview.",
        "yay another good phone interview",
        "rain again",
        "a",
        "b",
        "RAIN, again",
    ]
    assert alike.groups(texts, ["t 1", "t 2", "t 3", "p 1", "p 1", "p 2"]) == ["t 1", "t 1", "p 2", "p 1", "p 1", "p 2"]


def test_a_mean_that_rounds_to_nothing_is_neutral() -> None:
    means = [-4, -0.51, -0.5, 0, 0.5, 0.51, 4]
    labels = ["negative", "negative", "neutral", "neutral", "neutral", "positive", "positive"]
    assert [sentiment.label_of(mean) for mean in means] == labels


def test_a_fifth_of_the_groups_is_held_out() -> None:
    parts = [sentiment.part_of(f"tweets {number}") for number in range(5000)]
    assert 0.18 < parts.count("test") / 5000 < 0.22
    assert 0.06 < parts.count("validation") / 5000 < 0.10


def module(place: Path, part: str, chapters: list[list[str]]) -> None:
    """A module as the packages have it: one block, each entry's place in it, heads of module, book and chapters."""
    written = ["", "<milestone/>", '<div osisID="Gen" type="book"/> <milestone n="Genesis"/><title>Genesis</title>']
    for number, lines in enumerate(chapters, start=1):
        written += [f'<chapter n="{number}" osisID="Gen.{number}" sID="Gen.{number}"/> ', *lines]
    block, index = b"", b""
    for entry in written:
        index += struct.pack("<IIH", 0, len(block), len(entry.encode()))
        block += entry.encode()
    packed = zlib.compress(block)
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{part}.bzv").write_bytes(index)
    (place / f"{part}.bzz").write_bytes(packed)
    (place / f"{part}.bzs").write_bytes(struct.pack("<III", 0, len(packed), len(block)))


def word(text: str, number: int) -> str:
    return f'<w lemma="strong:H{number:04d}">{text}</w>'


def test_verses_stand_beside_each_other_where_their_words_agree(tmp_path: Path) -> None:
    english = [
        [word("In the beginning", 1) + ".", word("light", 2)],
        ["¶ " + word("Dust", 3), word("moved", 4), "Amen"],
    ]
    spanish = [[word("EN el principio", 1) + ".", ""], [word("Polvo", 3), word("á la noche", 5), "Amén"]]
    module(tmp_path / "en", "ot", english)
    module(tmp_path / "es", "ot", spanish)
    found = list(verses.together(verses.entries(tmp_path / "en", "ot"), verses.entries(tmp_path / "es", "ot")))
    assert [verse.reference for verse in found] == ["Gen.1.1", "Gen.2.1", "Gen.2.3"]
    assert found[0] == ("Gen", "In the beginning.", "EN el principio.", "Gen.1.1")
    assert found[1][1:3] == ("Dust", "Polvo")


def test_a_verse_that_holds_two_is_left_out() -> None:
    head = ['<chapter osisID="Gen.1"/>']
    assert not list(
        verses.together([*head, "Amen and amen"], [*head, "Amén y amén, y otra vez amén y amén, y así fué"])
    )


def test_marks_and_notes_are_not_text() -> None:
    assert verses.plain(
        '<title><foreign>ב BETH.</foreign></title> my name \\nd JEHOVAH<note n="a">or, <i>b</i></note>!'
    ) == ("my name JEHOVAH!")


def test_pictures_are_read_as_their_file_says(tmp_path: Path) -> None:
    values = np.arange(2 * 3 * 5, dtype=np.uint8).reshape(2, 3, 5)
    content = bytes([0, 0, 8, 3]) + struct.pack(">III", 2, 3, 5) + values.tobytes()
    assert np.array_equal(fashion.idx(gzip.decompress(gzip.compress(content))), values)
    with pytest.raises(ValueError, match="does not begin as one should"):
        fashion.idx(b"\x1f\x8b\x08\x00")


def test_a_table_has_no_tabs_or_quotes_within_its_fields(tmp_path: Path) -> None:
    assert packages.write_tsv(tmp_path / "a" / "b.tsv", ("label", "text"), [("one", "two"), ("three", "é")]) == 2
    assert (tmp_path / "a" / "b.tsv").read_text(encoding="utf-8") == "label\ttext\none\ttwo\nthree\té\n"
    for bad in ("a\tb", 'a "b"', "a\nb"):
        with pytest.raises(ValueError, match="within a field"):
            packages.write_tsv(tmp_path / "c.tsv", ("label", "text"), [("one", bad)])


def test_another_file_than_the_known_one_is_refused() -> None:
    with pytest.raises(ValueError, match="not the file that the recipes were made with"):
        packages.checked(b"else", "0" * 64, "input.txt")


def test_without_the_package_and_apt_the_sentence_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="Debian's package some-data"):
        packages.debian("some-data", "/usr/share/no-such-folder", tmp_path)


def test_a_missing_verse_ends_a_paragraph(tmp_path: Path) -> None:
    header = ("book", "source", "target", "reference")
    rows = {"train": [("Gen", "A.", "-", "Gen.1.1"), ("Gen", "D.", "-", "Gen.1.5"), ("Gen", "E.", "-", "Gen.2.1")],
            "validation": [("Gen", "C.", "-", "Gen.1.3")], "test": [("Gen", "B.", "-", "Gen.1.2")]}  # fmt: skip
    for part, found in rows.items():
        packages.write_tsv(tmp_path / "verses" / f"{part}.tsv", header, found)
    assert chapters.make(tmp_path) == "2 chapters, 3 paragraphs in verses.txt"
    written = (tmp_path / "verses.txt").read_text().split("\n\n")
    assert sorted(paragraph.strip() for paragraph in written) == ["A. B. C.", "D.", "E."]


def test_chapters_need_the_verses(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fetch verses first"):
        chapters.make(tmp_path)
