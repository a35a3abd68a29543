"""Where sentences end, and where they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.sentences import paragraphs, sentences


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("It is 3.5 km. It is far.", ["It is 3.5 km.", "It is far."]),
        ("He ran, e.g. to Rome, i.e. far. Then slept.", ["He ran, e.g. to Rome, i.e. far.", "Then slept."]),
        ("Mr. Hyde met J. Smith. They talked.", ["Mr. Hyde met J. Smith.", "They talked."]),
        ("It was I. He left.", ["It was I.", "He left."]),
        ('He said "no." "Why?" she asked.', ['He said "no."', '"Why?" she asked.']),
        ("and so on. but no capital follows", ["and so on. but no capital follows"]),
        ("¿Vienes? ¡Claro! Vale.", ["¿Vienes?", "¡Claro!", "Vale."]),
        ("一つ。二つ！三つ", ["一つ。", "二つ！", "三つ"]),
        ("A line that\n  goes on.\nNext one.", ["A line that goes on.", "Next one."]),
        ("Title\n*****\n\nText here.", ["Title", "Text here."]),
        ("# Title\nText here.", ["# Title Text here."]),
        ("Of:\n\n* one thing\n* more.\n1. first\n2) last", ["Of:", "* one thing", "* more.", "1. first", "2) last"]),
        ("Windows.\r\n\r\nLine ends.", ["Windows.", "Line ends."]),
        ("--- ... !!!\n\n12 34", []),
        ("", []),
    ],
)  # fmt: skip
def test_sentences(text: str, found: list[str]) -> None:
    assert list(sentences(text)) == found


@given(st.text(alphabet="Ab .!?\n*=,\"'", max_size=60))
def test_no_letter_is_lost_or_moved(text: str) -> None:
    letters = [letter for letter in text if letter.isalpha()]
    assert [letter for piece in sentences(text) for letter in piece if letter.isalpha()] == letters
    assert all(piece == " ".join(piece.split()) for piece in paragraphs(text))
