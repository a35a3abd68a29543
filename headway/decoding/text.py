"""Tokens to text while they come: whole characters only, and nothing of a stop string.

decode(before) + all pieces = decode(before + tokens)
"""

from collections.abc import Callable, Collection, Sequence

from headway.data.tokenizer import Tokenizer

UNFINISHED = "�"  # what a decoder writes for bytes that are no character, or not yet


class Pieces:
    """The text that each token adds.

    A token is decoded together with those said just before it, since its text may depend on them (a first space is
    dropped, a word is continued). `raw` are tokens of one byte each whose run is decoded as a whole, and tokens without
    text, which do not end a run: none of it is certain before the run has ended.

    >>> words = ["Gr", "\\xc3", "\\xbc", "n", "!"]
    >>> pieces = Pieces(lambda ids: "".join(words[i] for i in ids).encode("latin-1").decode("utf-8", "replace"))
    >>> [pieces.add(token) for token in range(5)]
    ['Gr', '', 'ü', 'n', '!']
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        *,
        before: Sequence[int] = (),
        raw: Collection[int] = frozenset(),
    ) -> None:
        self._decode, self._raw = decode, raw
        self._tokens = list(before)  # the context, then what was said last, then what is not said yet
        self._context = len(before)
        self._said = len(_whole(decode(self._tokens))) if before else 0

    def add(self, token: int) -> str:
        self._tokens.append(token)
        if token in self._raw:
            return ""
        text = self._decode(self._tokens)
        whole = _whole(text)
        piece, self._said = whole[self._said :], max(self._said, len(whole))
        if piece and whole == text:
            self._tokens = self._tokens[self._context :]
            self._context, self._said = len(self._tokens), len(self._decode(self._tokens))
        return piece

    def finish(self) -> str:
        """What was held back: no more tokens will come to make it whole."""
        piece = self._decode(self._tokens)[self._said :] if len(self._tokens) > self._context else ""
        self._tokens, self._context, self._said = [], 0, 0
        return piece


def _whole(text: str) -> str:
    """Only the last replacement character may still become another one: it stands for the bytes at the end."""
    return text[:-1] if text.endswith(UNFINISHED) else text


class Stops:
    """Text up to the first stop string, in pieces. A possible beginning of one is held back until it is decided.

    The stop string that is complete first wins, and of two that end together the longer one: so it does not matter how
    the text was cut into tokens.

    >>> stops = Stops(["END"])
    >>> [stops.add(piece) for piece in ("a E", "N", "E", "ND b")], stops.found
    (['a ', '', 'EN', ''], True)
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops, self._held, self.found = stops, "", False

    def add(self, piece: str) -> str:
        text = self._held + piece
        hits = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if hits:
            self.found, self._held = True, ""
            return text[: min(hits)[1]]
        safe = len(text) - max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[safe:]
        return text[:safe]

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """How much of the end of a text may be the beginning of a stop string."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)


class Text:
    """The text of one sequence: pieces without stop strings. Without a decoder there is none."""

    def __init__(self, pieces: Pieces | None, stops: Sequence[str] = ()) -> None:
        self._pieces, self._stops = pieces, Stops(stops)

    @property
    def stopped(self) -> bool:
        return self._stops.found

    def add(self, token: int) -> str:
        return "" if self._pieces is None else self._stops.add(self._pieces.add(token))

    def finish(self) -> str:
        """What was held back; it may still hold a stop string."""
        if self._pieces is None or self.stopped:
            return ""
        last = self._stops.add(self._pieces.finish())
        return last if self.stopped else last + self._stops.finish()


def byte_tokens(tokenizer: Tokenizer) -> frozenset[int]:
    """The tokens <0x00> … <0xFF> of a vocabulary that falls back on bytes (SentencePiece); none in others.

    With its special tokens: a decoder leaves them out, so the bytes before and after one are a single run.
    """
    numbers = [tokenizer.engine.token_to_id(f"<0x{byte:02X}>") for byte in range(256)]
    letter = numbers[ord("A")]
    if letter is None or tokenizer.decode([letter]) != "A":
        return frozenset()
    added = tokenizer.engine.get_added_tokens_decoder()
    special = (number for number, token in added.items() if token.special)
    return frozenset(number for number in numbers if number is not None).union(special)
