"""A text cut into tokens, and each token as text: by our tokenizer, the tokenizers library's or transformers'."""

import codecs
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from zlib import crc32

from tokenizers import Tokenizer as Engine

from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_files import MARK
from headway.look.record import Side

UNFINISHED = "\ufffd"  # what a decoder writes for bytes that are no character
BLANK = "▁"  # how SentencePiece writes one
CONTINUED = "##"  # how WordPiece begins what goes on with a word
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


def token_text(text: str, piece: str | None) -> str:
    """`text` is what the token decodes to, `piece` how the vocabulary writes it; None: nobody knows.

    Bytes that are no whole character are shown by their numbers, as SentencePiece names them.
    """
    piece = None if piece is None else piece.replace(MARK, "")
    if piece is not None and UNFINISHED in text:
        return piece if _BYTE.fullmatch(piece) else _unfinished(piece, text)
    if piece is not None and piece.startswith(BLANK) and not text.startswith(" "):
        return f" {text}"  # a decoder drops the blank that a text begins with
    return text


def _unfinished(piece: str, text: str) -> str:
    numbers = _bytes()
    if not all(letter in numbers for letter in piece):
        return text
    return bytes(numbers[letter] for letter in piece).decode("utf-8", _NUMBERED)


def _numbered(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"<0x{byte:02X}>" for byte in error.object[error.start : error.end]), error.end


_NUMBERED = "headway-numbered"
codecs.register_error(_NUMBERED, _numbered)


@cache
def _bytes() -> dict[str, int]:
    """GPT-2's letters for bytes: those that can be seen stand for themselves, the others come from 256 on."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + at): byte for at, byte in enumerate(hidden)}


def words_of(tokens: Sequence[str], special: Sequence[int] = ()) -> tuple[int, ...]:
    """The number of each token's word where only the tokens are known: a blank, or no mark of going on, begins one.

    >>> words_of(["the", " ca", "t", ".", "</s>"], [4]), words_of(["play", "##ing", "now"])
    ((0, 1, 1, 1, -1), (0, 0, 1))
    """
    apart, found, word, fresh = any(one.startswith(CONTINUED) for one in tokens), list[int](), -1, True
    for place, token in enumerate(tokens):
        if place in special or not token.strip():
            found.append(-1)
            fresh = True
            continue
        new = fresh or (not token.startswith(CONTINUED) if apart else token[0].isspace())
        word, fresh = word + new, token[-1].isspace()
        found.append(word)
    return tuple(found)


@dataclass(frozen=True)
class TokenizedText:
    """The tokens of one text, or of two in one row. `tokens` are their texts where the numbers alone do not tell."""

    ids: tuple[int, ...]
    types: tuple[int, ...] = ()  # the sentence of each token; () where there is one
    words: tuple[int, ...] | None = None  # the word of each token, -1 for none; None: to be told from the tokens
    tokens: tuple[str, ...] | None = None


def word_numbers(encoding: Any, texts: Sequence[str]) -> tuple[int, ...]:
    """The words of an encoding (of the tokenizers library): as it was cut into words first, else at blanks.

    A tokenizer that does not cut a text into words calls all of it one word.
    """
    sentences = [0 if one is None else one for one in encoding.sequence_ids]
    places = list(zip(sentences, encoding.word_ids, encoding.offsets, strict=True))
    apart = [len({word for sentence, word, _ in places if sentence == at} - {None}) > 1 for at in range(len(texts))]
    starts = [[found.start() for found in re.finditer(r"\S+", text)] for text in texts]
    found = [
        None if word is None else (sentence, word if apart[sentence] else _at(texts[sentence], span, starts[sentence]))
        for sentence, word, span in places
    ]
    order: dict[tuple[int, int], int] = {}
    return tuple(-1 if key is None or key[1] < 0 else order.setdefault(key, len(order)) for key in found)


def _at(text: str, span: tuple[int, int], starts: Sequence[int]) -> int:
    """Which word between blanks a stretch of the text is in; -1 for blanks."""
    from bisect import bisect_right

    piece = text[span[0] : span[1]]
    letters = span[0] + len(piece) - len(piece.lstrip())
    return bisect_right(starts, letters) - 1 if piece.strip() else -1


def by_words(text: str, pair: str | None, vocabulary: int) -> TokenizedText:
    """Without a tokenizer: a word, a sign or a blank each, with a number that depends on its text alone.

    >>> by_words("to be, to", None, 1000).tokens
    ('to', ' be', ',', ' to')
    """
    parts = [re.findall(r"\s?\w+|\s?[^\w\s]|\s", one) for one in ([text] if pair is None else [text, pair])]
    tokens = tuple(piece for part in parts for piece in part)
    ids = tuple(crc32(piece.encode("utf-8", "surrogatepass")) % vocabulary for piece in tokens)
    types = tuple(number for number, part in enumerate(parts) for _ in part)
    words = tuple(at if piece.strip() else -1 for at, piece in enumerate(tokens))
    return TokenizedText(ids, types if pair is not None else (), words, tokens)


# Roles of tokens that stand for a text, though they have a name of their own.
STANDS_FOR_TEXT = ("unk_token", "mask_token")


@dataclass(frozen=True)
class Vocabulary:
    """How a text is cut, and what each token says. `target` cuts what a decoder reads, maybe otherwise."""

    cut: Callable[[str, str | None], TokenizedText]
    decode: Callable[[int], str]
    piece: Callable[[int], str | None]
    special: frozenset[int]
    target: Callable[[str], TokenizedText]
    _known: dict[int, str] = field(default_factory=dict)

    def word(self, token: int) -> str:
        """One token as text."""
        if token not in self._known:
            self._known[token] = token_text(self.decode(token), self.piece(token)) or (self.piece(token) or "")
        return self._known[token]

    def side(self, name: str, cut: TokenizedText) -> Side:
        """The row of these tokens."""
        tokens = tuple(map(self.word, cut.ids)) if cut.tokens is None else cut.tokens
        special = tuple(place for place, token in enumerate(cut.ids) if token in self.special)
        words = words_of(tokens, special) if cut.words is None else cut.words
        return Side(name, tokens, special, words)


def vocabulary_of(tokenizer: Any) -> Vocabulary:
    """The vocabulary of any tokenizer."""
    if isinstance(tokenizer, Vocabulary):
        return tokenizer
    if isinstance(tokenizer, Tokenizer):
        return _ours(tokenizer)
    if isinstance(tokenizer, Engine):
        return _ours(Tokenizer(Engine.from_str(tokenizer.to_str())))
    if callable(tokenizer) and callable(getattr(tokenizer, "decode", None)):
        return _theirs(tokenizer)
    raise ValueError(
        f"a {type(tokenizer).__name__} is no tokenizer that headway can ask: give one of headway.load, of the "
        "tokenizers library or of transformers, or inputs= and tokens="
    )


def _ours(tokenizer: Tokenizer) -> Vocabulary:
    engine = tokenizer.engine

    def cut(text: str, pair: str | None) -> TokenizedText:
        found = engine.encode(text, pair)
        texts = [text] if pair is None else [text, pair]
        return TokenizedText(tuple(found.ids), tuple(found.type_ids), word_numbers(found, texts))

    return Vocabulary(
        cut, lambda token: tokenizer.decode([token], special=True), engine.id_to_token,
        _special(engine, tokenizer.special), lambda text: cut(text, None),
    )  # fmt: skip


def _special(engine: Engine, roles: Mapping[str, str]) -> frozenset[int]:
    added = {number for number, one in engine.get_added_tokens_decoder().items() if one.special}
    numbers = {role: engine.token_to_id(word) for role, word in roles.items()}
    return _without_text(added | {one for one in numbers.values() if one is not None}, numbers)


def _without_text(special: Iterable[int], roles: Mapping[str, int | None]) -> frozenset[int]:
    """Those that stand for no text; GPT-2's one token is for the unknown too, and still an end."""
    others = {number for role, number in roles.items() if role not in STANDS_FOR_TEXT}
    text = {roles.get(role) for role in STANDS_FOR_TEXT} - others
    return frozenset(special) - {number for number in text if number is not None}


def _theirs(tokenizer: Any) -> Vocabulary:
    """One in the manner of transformers: called with a text, it gives `input_ids` and more."""
    roles = ("bos_token", "eos_token", "cls_token", "sep_token", "pad_token", *STANDS_FOR_TEXT)
    numbers = {role: getattr(tokenizer, f"{role}_id", None) for role in roles}
    special = _without_text(getattr(tokenizer, "all_special_ids", ()), numbers)
    return Vocabulary(
        lambda text, pair: _called(tokenizer, (text,) if pair is None else (text, pair)),
        lambda token: str(tokenizer.decode([token])), lambda token: _piece(tokenizer, token), special,
        lambda text: _called(tokenizer, (), text_target=text),
    )  # fmt: skip


def _called(tokenizer: Any, texts: Sequence[str], **more: str) -> TokenizedText:
    found = tokenizer(*texts, **more)
    ids, types = tuple(found["input_ids"]), tuple(found.get("token_type_ids") or ())
    encodings = getattr(found, "encodings", None)
    words = word_numbers(encodings[0], [*texts, *more.values()]) if encodings else None
    return TokenizedText(ids, types, words)


def _piece(tokenizer: Any, token: int) -> str | None:
    found = tokenizer.convert_ids_to_tokens([token])[0] if hasattr(tokenizer, "convert_ids_to_tokens") else None
    return found if isinstance(found, str) else None


def numbers(vocabulary: int) -> Vocabulary:
    """Where there is no tokenizer: words get numbers of their own, and a number stands for itself."""
    return Vocabulary(
        lambda text, pair: by_words(text, pair, vocabulary), str, lambda token: None, frozenset(),
        lambda text: by_words(text, None, vocabulary),
    )  # fmt: skip
