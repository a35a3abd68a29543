"""Tokens as text and as words: whole letters or their bytes, words as the tokenizer cut them or between blanks."""

import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import models

from headway.look.reading.tokens import by_words, token_text, vocabulary_of, words_of
from tests.look.reading.made import pieces, tokenizer

TEXT = "the cat ï🙂"
BYTES = ("<0xC3>", "<0xAF>", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>")


@pytest.mark.parametrize("kind", ["byte", "character", "bpe", "unigram"])
def test_tokens_join_to_the_text(kind: str) -> None:
    vocabulary = vocabulary_of(tokenizer(kind))
    side = vocabulary.side("text", vocabulary.cut("the cat sat on the mat", None))
    assert "".join(side.tokens) == "the cat sat on the mat"
    assert [token.strip() for token in side.tokens if token.strip()] != [], kind
    words = [
        "".join(token for token, word in zip(side.tokens, side.words, strict=True) if word == at) for at in range(6)
    ]
    assert [word.strip() for word in words] == ["the", "cat", "sat", "on", "the", "mat"]
    assert max(side.words) == 5
    assert side.special == ()


def test_bytes_that_are_no_letter_are_shown_by_their_numbers() -> None:
    vocabulary = vocabulary_of(tokenizer("byte"))
    side = vocabulary.side("text", vocabulary.cut(TEXT, None))
    assert side.tokens == (*"the cat ", *BYTES)
    assert side.words == (0, 0, 0, -1, 1, 1, 1, -1, 2, 2, 2, 2, 2, 2)


def test_a_piece_with_whole_letters_and_half_ones() -> None:
    assert token_text("\ufffdab", "¯ab") == "<0xAF>ab"
    assert token_text("\ufffd", "<0xE2>") == "<0xE2>"
    assert token_text("\ufffd", "\ufffd") == "\ufffd", "the text may hold that very sign"


def test_pairs_are_numbered_on_and_special_tokens_belong_to_no_word() -> None:
    vocabulary = vocabulary_of(tokenizer("wordpiece", "masked"))
    cut = vocabulary.cut("the cats", "[MASK] sat.")
    side = vocabulary.side("text", cut)
    assert (side.tokens[0], side.tokens[-1]) == ("[CLS]", "[SEP]")
    assert side.special == (
        0,
        cut.ids.index(vocabulary_of(tokenizer("wordpiece", "masked")).cut("", None).ids[1]),
        len(cut.ids) - 1,
    )
    inner = [word for word in side.words if word >= 0]
    assert inner == sorted(inner) and set(inner) == set(range(5)), "the, cats, [MASK], sat and the full stop"
    assert "[MASK]" in side.tokens and side.tokens.index("[MASK]") not in side.special
    assert sum(cut.types) == len(cut.ids) - side.special[1] - 1


@pytest.mark.parametrize(
    ("kind", "text", "tokens", "special"),
    [
        ("gpt2", "the cat<|endoftext|>", ("the", " cat", "<|endoftext|>"), (2,)),
        ("bert", "", ("[CLS]", "[SEP]"), (0, 1)),
    ],
)
def test_the_tokenizers_of_transformers(
    kind: str, text: str, tokens: tuple[str, ...], special: tuple[int, ...]
) -> None:
    vocabulary = vocabulary_of(pieces(kind))
    side = vocabulary.side("text", vocabulary.cut(text, None))
    assert (side.tokens, side.special) == (tokens, special)


def test_a_blank_of_sentencepiece_is_a_blank() -> None:
    vocabulary = vocabulary_of(pieces("t5"))
    side = vocabulary.side("text", vocabulary.cut("the cat", None))
    assert "".join(side.tokens) == " the cat</s>"
    assert set(side.words) == {-1, 0, 1}


def test_words_of_tokens_alone() -> None:
    assert words_of(["<s>", " a", "b", " ", "c"], [0]) == (-1, 0, 0, -1, 1)


def test_without_a_tokenizer_the_same_word_is_the_same_token() -> None:
    cut = by_words("to be, or not to be", "be", 1009)
    assert cut.tokens == ("to", " be", ",", " or", " not", " to", " be", "be")
    assert cut.ids[1] == cut.ids[6] != cut.ids[7] and max(cut.ids) < 1009
    assert cut.types == (0,) * 7 + (1,)
    assert by_words("\ud800", None, 7).ids, "half a letter of a command line is no crash"


def test_an_engine_is_a_tokenizer_and_a_number_is_not() -> None:
    vocabulary = vocabulary_of(Engine(models.WordLevel({"a": 0, "b": 1}, unk_token="b")))
    assert vocabulary.side("text", vocabulary.cut("a", None)).tokens == ("a",)
    with pytest.raises(ValueError, match="a int is no tokenizer"):
        vocabulary_of(3)
