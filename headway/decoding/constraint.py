"""Which tokens may come next in a text that has to match a pattern: exactly those whose bytes the pattern can read.

The bytes of every token come from the tokenizer's decoder. Tokens are kept in the order of their bytes, so that those
which begin alike are tried together: where a pattern cannot read the first bytes, all that share them are left out.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool
from torch import Tensor

from headway.data.tokenizer import Tokenizer
from headway.decoding.automaton import BytePattern
from headway.decoding.json_schema import json_schema
from headway.decoding.regex import regex

KEPT = 16  # patterns of a tokenizer whose tokens are remembered
SPACE = "▁"  # what SentencePiece writes for a space


def pattern_of(expression: str | None, schema: Any) -> BytePattern | None:
    """What a request asks its text to match, if anything."""
    if expression is not None:
        return regex(expression)
    return None if schema is None else json_schema(json.dumps(schema))


class AllowedTokens:
    """Of one tokenizer and one pattern: the tokens that may follow each state; all requests share what was found."""

    def __init__(self, pattern: BytePattern, tokens: "TokenBytes") -> None:
        self.pattern, self._tokens = pattern, tokens
        self._known: dict[int, Bool[Tensor, " V"]] = {}

    @classmethod
    def of(cls, pattern: BytePattern, tokenizer: Tokenizer) -> "AllowedTokens":
        found = _FOUND.setdefault(tokenizer, {})
        if pattern not in found:
            tokens = next(iter(found.values()))._tokens if found else TokenBytes(tokenizer)
            while len(found) >= KEPT:
                del found[next(iter(found))]
            found[pattern] = cls(pattern, tokens)
        return found[pattern]

    def mask(self, state: int) -> Bool[Tensor, " V"]:
        """True for tokens that the pattern can read from this state on."""
        if state not in self._known:
            mask = torch.zeros(self._tokens.size, dtype=torch.bool)
            mask[self._tokens.readable(self.pattern, state)] = True
            self._known[state] = mask
        return self._known[state]

    def after(self, state: int, token: int) -> int | None:
        return self.pattern.after(state, self._tokens.bytes_of(token))


_FOUND: WeakKeyDictionary[Tokenizer, dict[BytePattern, AllowedTokens]] = WeakKeyDictionary()


class Constraint:
    """One text on its way through a pattern."""

    def __init__(self, allowed: AllowedTokens) -> None:
        self._allowed = allowed
        self._state: int | None = allowed.pattern.start

    @property
    def complete(self) -> bool:
        """Whether nothing may follow."""
        return self._state is not None and self._allowed.pattern.complete(self._state)

    def apply(self, logits: Tensor, ends: Sequence[int]) -> None:
        """Forbid, in place, tokens that the text cannot go on with; it may end where the pattern is matched."""
        assert self._state is not None
        mask = self._allowed.mask(self._state)
        may_end = logits[list(ends)].clone()
        logits[: len(mask)].masked_fill_(~mask.to(logits.device), -torch.inf)
        logits[len(mask) :] = -torch.inf
        logits[list(ends)] = may_end if self._allowed.pattern.accepts(self._state) else -torch.inf

    def take(self, token: int) -> None:
        """A token has been produced; one that ends the text, or was forced, leaves the pattern."""
        self._state = None if self._state is None else self._allowed.after(self._state, token)


class TokenBytes:
    """The bytes that each token adds to a text, in the order of the bytes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        decoder = json.loads(tokenizer.engine.to_str())["decoder"]
        special = {number for number, token in tokenizer.engine.get_added_tokens_decoder().items() if token.special}
        added = {token.content for token in tokenizer.engine.get_added_tokens_decoder().values()}
        words = tokenizer.engine.get_vocab()
        found = {
            number: word.encode() if word in added else _bytes(word, decoder)
            for word, number in words.items()
            if number not in special
        }
        self.size = max(words.values()) + 1
        self._bytes = found
        self._ordered = sorted(((value, number) for number, value in found.items() if value))
        values = [value for value, _ in self._ordered]
        self._shared = [0, *map(_shared, values, values[1:])]  # first bytes that a token has in common with the last

    def bytes_of(self, token: int) -> bytes:
        return self._bytes.get(token, b"")

    def readable(self, pattern: BytePattern, state: int) -> list[int]:
        """The tokens whose bytes a pattern can read from a state on."""
        found, states = [], [state]  # the states after the first bytes of the last token that was tried
        broken = -1  # the place of its first byte that cannot be read
        for (value, number), shared in zip(self._ordered, self._shared, strict=True):
            if broken >= 0 and shared > broken:
                continue
            broken = -1
            del states[shared + 1 :]
            for place in range(shared, len(value)):
                after = pattern.table(states[-1])[value[place]]
                if after is None:
                    broken = place
                    break
                states.append(after)
            else:
                found.append(number)
        return found


def _shared(one: bytes, other: bytes) -> int:
    """
    >>> _shared(b"abc", b"abd")
    2
    """
    least = min(len(one), len(other))
    return next((place for place in range(least) if one[place] != other[place]), least)


def _bytes(word: str, decoder: Mapping[str, Any] | None) -> bytes:
    """What a decoder makes of a token behind others."""
    steps = decoder.get("decoders", [decoder]) if decoder is not None else []
    kinds = {step["type"] for step in steps}
    if "ByteLevel" in kinds:
        return bytes(map(_LETTERS.__getitem__, word)) if all(map(_LETTERS.__contains__, word)) else word.encode()
    if decoder is None or kinds - {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}:
        names = ", ".join(sorted(kinds)) or "none"
        raise ValueError(
            f"a regex or a json_schema needs a tokenizer whose tokens are pieces of text as they are; the decoder of "
            f"this one ({names}) changes them"
        )
    if "ByteFallback" in kinds and len(word) == 6 and word.startswith("<0x") and word.endswith(">"):
        return bytes([int(word[3:5], 16)])
    for step in steps:
        if step["type"] == "Replace":
            word = word.replace(step["pattern"]["String"], step["content"])
        elif step["type"] == "Metaspace":
            word = word.replace(step.get("replacement", SPACE), " ")
    return word.encode()


def _byte_letters() -> dict[str, int]:
    """The letter of each byte in vocabularies of GPT-2's kind: printable ones as they are, the others from 256 on.

    >>> _LETTERS["Ġ"], _LETTERS["A"]
    (32, 65)
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}


_LETTERS = _byte_letters()
