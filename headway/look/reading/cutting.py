"""A text cut into tokens: their numbers, the sentence and the word that each belongs to."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32


@dataclass(frozen=True)
class Cut:
    """The tokens of one text, or of two in one row. `tokens` are their texts where the numbers alone do not tell."""

    ids: tuple[int, ...]
    types: tuple[int, ...] = ()  # the sentence of each token; () where there is one
    words: tuple[int, ...] | None = None  # the word of each token, -1 for none; None: to be told from the tokens
    tokens: tuple[str, ...] | None = None


def numbered(encoding: Any, texts: Sequence[str]) -> tuple[int, ...]:
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


def by_words(text: str, pair: str | None, vocabulary: int) -> Cut:
    """Without a tokenizer: a word, a sign or a blank each, with a number that depends on its text alone.

    >>> by_words("to be, to", None, 1000).tokens
    ('to', ' be', ',', ' to')
    """
    parts = [re.findall(r"\s?\w+|\s?[^\w\s]|\s", one) for one in ([text] if pair is None else [text, pair])]
    tokens = tuple(piece for part in parts for piece in part)
    ids = tuple(crc32(piece.encode("utf-8", "surrogatepass")) % vocabulary for piece in tokens)
    types = tuple(number for number, part in enumerate(parts) for _ in part)
    words = tuple(at if piece.strip() else -1 for at, piece in enumerate(tokens))
    return Cut(ids, types if pair is not None else (), words, tokens)
