"""Text in pieces: whole characters, the same text as decoding everything at once, and stop strings cut exactly."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, pre_tokenizers, trainers

from headway.data.tokenizer import Tokenizer
from headway.decoding.text import Pieces, Stops, Text, byte_tokens
from tests.thorough import examples

CORPUS = [
    "the cat sat on the mat, the end.",
    "naïve façade, Grüße aus Köln",
    "日本語のテキスト 🙂🙃 — done",
    "a  b   c",
]


def byte_level() -> Tokenizer:
    """GPT-2's kind: every byte has a token, and merges know nothing of characters."""
    engine = Engine(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    engine.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, special_tokens=["<|end|>"])
    )
    return Tokenizer(engine, {"eos_token": "<|end|>"})


def byte_fallback() -> Tokenizer:
    """Llama's kind: pieces with ▁ for a space, bytes for what is in none, one leading space dropped."""
    pieces = [
        "<unk>",
        "<s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        "▁the",
        "▁cat",
        "s",
        "at",
        "é",
        "▁▁",
        "A",
    ]
    engine = Engine(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], byte_fallback=True, unk_token="<unk>"))
    engine.add_special_tokens(["<s>"])
    engine.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return Tokenizer(engine, {"bos_token": "<s>"})


def metaspace() -> Tokenizer:
    """T5's kind: the first ▁ of a text is no space."""
    pieces = [(piece, -1.0) for piece in ["<pad>", "</s>", "▁", "▁the", "▁end", "s", "é", "日本", "."]]
    engine = Engine(models.Unigram(pieces, unk_id=0))
    engine.add_special_tokens(["<pad>", "</s>"])
    engine.decoder = decoders.Metaspace()
    return Tokenizer(engine)


def word_pieces() -> Tokenizer:
    """BERT's kind: ## continues a word, and there is no space before a full stop."""
    pieces = ["[UNK]", "[SEP]", "the", "end", "##ing", "##é", ".", "!", "日", "'"]
    engine = Engine(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    engine.add_special_tokens(["[SEP]"])
    engine.decoder = decoders.WordPiece()
    return Tokenizer(engine)


KINDS: dict[str, Tokenizer] = {make.__name__: make() for make in (byte_level, byte_fallback, metaspace, word_pieces)}


def pieces_of(tokenizer: Tokenizer, before: list[int], tokens: list[int]) -> list[str]:
    pieces = Pieces(tokenizer.decode, before=before, raw=byte_tokens(tokenizer))
    return [*(pieces.add(token) for token in tokens), pieces.finish()]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_pieces_together_are_the_whole_text(kind: str, data: st.DataObject) -> None:
    """Any tokens at all, bytes that are no character included."""
    tokenizer = KINDS[kind]
    tokens = data.draw(st.lists(st.integers(0, tokenizer.size - 1), max_size=23))
    assert "".join(pieces_of(tokenizer, [], tokens)) == tokenizer.decode(tokens)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_pieces_go_on_from_what_was_before(kind: str, data: st.DataObject) -> None:
    """A prompt's last token decides whether the next one begins with a space; the prompt is text, so it ends well."""
    tokenizer = KINDS[kind]
    raw = byte_tokens(tokenizer)
    any_tokens = st.lists(st.integers(0, tokenizer.size - 1), max_size=11)
    before, tokens = data.draw(any_tokens), data.draw(any_tokens)
    while before and ("�" in tokenizer.decode(before) or before[-1] in raw):
        before.pop()
    assert tokenizer.decode(before) + "".join(pieces_of(tokenizer, before, tokens)) == tokenizer.decode(before + tokens)


@pytest.mark.parametrize("kind", ["byte_level", "byte_fallback"])
@given(text=st.text(max_size=13))
def test_no_character_is_split(kind: str, text: str) -> None:
    """Tokens of one byte each: a piece has a whole character or nothing."""
    tokenizer = KINDS[kind]
    if kind == "byte_level":
        tokens = [token for char in text for token in tokenizer.encode(char)]
    else:
        tokens = [tokenizer.engine.token_to_id(f"<0x{byte:02X}>") for byte in text.encode()]
        text = text[1:] if text.startswith(" ") else text
    pieces = pieces_of(tokenizer, [], tokens)
    assert "".join(pieces) == text
    assert "�" in text or not any("�" in piece for piece in pieces)


def test_characters_appear_as_soon_as_they_are_certain() -> None:
    tokenizer = KINDS["byte_level"]
    tokens = [tokenizer.engine.token_to_id(char) for char in ("a", "ð", "Ł", "Ļ", "Ĥ", "b")]  # a, f0 9f 99 82, b
    assert pieces_of(tokenizer, [], tokens) == ["a", "", "", "", "🙂", "b", ""]
    assert pieces_of(tokenizer, [], tokens[:4]) == ["a", "", "", "", "�"]
    assert pieces_of(tokenizer, [], [tokens[1], tokens[0]]) == ["", "�a", ""]


def test_a_run_of_bytes_waits_for_its_end() -> None:
    """é and one byte too many: the engine calls the whole run no text, so é may not have been said."""
    tokenizer = KINDS["byte_fallback"]
    number = tokenizer.engine.token_to_id
    run = [number("<0xC3>"), number("<0xA9>")]
    assert pieces_of(tokenizer, [], [number("s"), *run, number("at")]) == ["s", "", "", "éat", ""]
    assert pieces_of(tokenizer, [], [number("s"), *run, number("<0xFF>")]) == ["s", "", "", "", "���"]
    cut = [number("<0xC2>"), number("<0x80>"), number("<s>"), number("<0x80>")]  # a special token does not end a run
    assert pieces_of(tokenizer, [], cut) == ["", "", "", "", "���"]
    assert pieces_of(tokenizer, [], [number("s"), *run, number("<s>"), number("at")]) == ["s", "", "", "", "éat", ""]
    assert byte_tokens(KINDS["byte_level"]) == byte_tokens(KINDS["word_pieces"]) == frozenset()


def test_the_first_space_goes_and_later_ones_stay() -> None:
    tokenizer = KINDS["byte_fallback"]
    number = tokenizer.engine.token_to_id
    the, cat = number("▁the"), number("▁cat")
    assert pieces_of(tokenizer, [], [the, cat, number("s")]) == ["the", " cat", "s", ""]
    assert pieces_of(tokenizer, [the], [cat, the]) == [" cat", " the", ""]
    words = KINDS["word_pieces"]
    assert pieces_of(words, [2], [3, 4, 6]) == [" end", "ing", ".", ""]


def cut_by_hand(text: str, stops: list[str]) -> tuple[str, bool]:
    """Character by character: the first moment at which the text ends in a stop string, the longest of them."""
    for end in range(len(text) + 1):
        hits = [stop for stop in stops if text[:end].endswith(stop)]
        if hits:
            return text[: end - len(max(hits, key=len))], True
    return text, False


@given(
    text=st.text("abc", max_size=17),
    stops=st.lists(st.text("abc", min_size=1, max_size=4), max_size=3),
    cuts=st.lists(st.integers(0, 17), max_size=8),
)
@examples(200, 1000)
@example(text="abcd", stops=["abcd", "bc"], cuts=[])
def test_stop_strings_are_cut_wherever_the_tokens_are(text: str, stops: list[str], cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    stopper, said = Stops(stops), ""
    for start, end in pairwise(edges):
        said += stopper.add(text[start:end])
        if stopper.found:
            break
    right, found = cut_by_hand(text, stops)
    assert (said + stopper.finish(), stopper.found) == (right, found)


def test_nothing_is_held_back_for_longer_than_it_must_be() -> None:
    stopper = Stops(["abcd"])
    assert [stopper.add(piece) for piece in ("xab", "c", "ab", "y")] == ["x", "", "abc", "aby"]


def test_a_stop_string_may_span_characters_held_back() -> None:
    """The stop is found in what only the end of the text makes certain."""
    tokenizer: Tokenizer = KINDS["byte_fallback"]
    number: Callable[[str], int] = tokenizer.engine.token_to_id  # type: ignore[assignment]
    text = Text(Pieces(tokenizer.decode, raw=byte_tokens(tokenizer)), ["é"])
    said = "".join(text.add(number(piece)) for piece in ("s", "at", "<0xC3>", "<0xA9>"))
    assert (said, text.stopped) == ("sat", False)
    assert (text.finish(), text.stopped) == ("", True)
    assert Text(None).add(3) == Text(None).finish() == ""
