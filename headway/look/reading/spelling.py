"""A token as text, by itself: what it says at its place, with the blank before it where it has one.

>>> spelled("\\ufffd", "Ã"), spelled("the", "▁the"), spelled("##ing", "##ing")
('<0xC3>', ' the', '##ing')
"""

import codecs
import re
from collections.abc import Sequence
from functools import cache

from headway.data.tokenizer_files import MARK

UNFINISHED = "\ufffd"  # what a decoder writes for bytes that are no character
BLANK = "▁"  # how SentencePiece writes one
CONTINUED = "##"  # how WordPiece begins what goes on with a word
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


def spelled(text: str, piece: str | None) -> str:
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
