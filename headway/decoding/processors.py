"""What one request does to its logits before a token is chosen, token by token; nothing where it asks for nothing.

    logit_i + bias_i - frequency · count_i - presence · [count_i > 0]        -∞ for what is forbidden now

Counts are of tokens that were produced. All of it is one row's own, so that no company changes it.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from headway.data.tokenizer import Tokenizer
from headway.decoding.constraint import AllowedTokens, Constraint, pattern_of
from headway.decoding.request import Request


class Processors:
    """The processors of one row, in the order in which they act: additions, n-grams, the least length, a pattern."""

    def __init__(
        self,
        request: Request,
        read: Sequence[int],
        ends: frozenset[int],
        vocabulary: int,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self._request = request
        self._ends = sorted(end for end in ends if end < vocabulary)  # a preset names its own with any vocabulary
        self._made = 0
        self._bias: Tensor | None = None  # what is added to every logit; made when the first logits are seen
        if outside := [token for token in request.logit_bias if token >= vocabulary]:
            raise ValueError(f"token {outside[0]} of logit_bias is outside of the model's vocabulary of {vocabulary}")
        self._adds = bool(request.logit_bias or request.frequency_penalty or request.presence_penalty)
        self._counted: set[int] = set()
        size = request.no_repeat_ngram_size
        self._ngrams = NGrams(size, read) if size else None
        self._constraint = None
        if (pattern := pattern_of(request.regex, request.json_schema)) is not None:
            if tokenizer is None:
                raise ValueError("a regex or a json_schema is about text: give a tokenizer")
            self._constraint = Constraint(AllowedTokens.of(pattern, tokenizer))

    @classmethod
    def of(
        cls,
        request: Request,
        read: Sequence[int],
        ends: frozenset[int],
        vocabulary: int,
        tokenizer: Tokenizer | None = None,
    ) -> "Processors | None":
        """None where a request leaves the logits alone."""
        asks = (
            request.logit_bias or request.frequency_penalty or request.presence_penalty or request.min_new_tokens
            or request.no_repeat_ngram_size or request.regex is not None or request.json_schema is not None
        )  # fmt: skip
        return cls(request, read, ends, vocabulary, tokenizer) if asks else None

    @property
    def complete(self) -> bool:
        """Whether the text matches its pattern, and nothing may follow."""
        return self._constraint is not None and self._constraint.complete

    def apply(self, logits: Float[Tensor, " V"]) -> None:
        """Change the logits of the next token, in place."""
        if self._adds:
            logits += self._additions(logits)
        forbidden = [] if self._ngrams is None else self._ngrams.following()
        if self._made < self._request.min_new_tokens:
            forbidden = [*forbidden, *self._ends]
        if forbidden:
            logits[forbidden] = -math.inf
        if self._constraint is not None:
            self._constraint.apply(logits, self._ends)

    def take(self, token: int) -> None:
        """A token has been produced."""
        self._made += 1
        if self._bias is not None:
            first = 0.0 if token in self._counted else self._request.presence_penalty
            self._bias[token] -= self._request.frequency_penalty + first
            self._counted.add(token)
        if self._ngrams is not None:
            self._ngrams.take(token)
        if self._constraint is not None:
            self._constraint.take(token)

    def _additions(self, like: Tensor) -> Float[Tensor, " V"]:
        if self._bias is None:
            self._bias = torch.zeros_like(like)
            for token, value in self._request.logit_bias.items():
                self._bias[token] = value
        return self._bias


class NGrams:
    """Which tokens would complete a run of `size` tokens that has occurred before.

    >>> runs = NGrams(2, [5, 7, 5])
    >>> runs.following()
    [7]
    >>> runs.take(9)
    >>> runs.following(), runs.take(5), runs.following()
    ([], None, [7, 9])
    """

    def __init__(self, size: int, read: Sequence[int]) -> None:
        self._size, self._last = size, ()
        self._known: dict[tuple[int, ...], list[int]] = {}
        for token in read:
            self.take(token)

    def take(self, token: int) -> None:
        if len(self._last) == self._size - 1:
            self._known.setdefault(self._last, []).append(token)
        self._last = (*self._last, token)[-(self._size - 1) :] if self._size > 1 else ()

    def following(self) -> list[int]:
        """Tokens that must not come next."""
        return self._known.get(self._last, []) if len(self._last) == self._size - 1 else []
