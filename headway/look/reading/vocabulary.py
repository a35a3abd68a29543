"""What a tokenizer knows, whoever made it: ours, an engine of the tokenizers library, or one of transformers'."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenizers import Tokenizer as Engine

from headway.data.tokenizer import Tokenizer
from headway.look.reading.cutting import Cut, by_words, numbered
from headway.look.reading.spelling import spelled, words_of
from headway.look.record import Side

# Roles of tokens that stand for a text, though they have a name of their own.
STANDS_FOR_TEXT = ("unk_token", "mask_token")


@dataclass(frozen=True)
class Vocabulary:
    """How a text is cut, and what each token says. `target` cuts what a decoder reads, maybe otherwise."""

    cut: Callable[[str, str | None], Cut]
    decode: Callable[[int], str]
    piece: Callable[[int], str | None]
    special: frozenset[int]
    target: Callable[[str], Cut]
    _known: dict[int, str] = field(default_factory=dict)

    def word(self, token: int) -> str:
        """One token as text."""
        if token not in self._known:
            self._known[token] = spelled(self.decode(token), self.piece(token)) or (self.piece(token) or "")
        return self._known[token]

    def side(self, name: str, cut: Cut) -> Side:
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

    def cut(text: str, pair: str | None) -> Cut:
        found = engine.encode(text, pair)
        texts = [text] if pair is None else [text, pair]
        return Cut(tuple(found.ids), tuple(found.type_ids), numbered(found, texts))

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


def _called(tokenizer: Any, texts: Sequence[str], **more: str) -> Cut:
    found = tokenizer(*texts, **more)
    ids, types = tuple(found["input_ids"]), tuple(found.get("token_type_ids") or ())
    encodings = getattr(found, "encodings", None)
    words = numbered(encodings[0], [*texts, *more.values()]) if encodings else None
    return Cut(ids, types, words)


def _piece(tokenizer: Any, token: int) -> str | None:
    found = tokenizer.convert_ids_to_tokens([token])[0] if hasattr(tokenizer, "convert_ids_to_tokens") else None
    return found if isinstance(found, str) else None


def numbers(vocabulary: int) -> Vocabulary:
    """Where there is no tokenizer: words get numbers of their own, and a number stands for itself."""
    return Vocabulary(
        lambda text, pair: by_words(text, pair, vocabulary), str, lambda token: None, frozenset(),
        lambda text: by_words(text, None, vocabulary),
    )  # fmt: skip
