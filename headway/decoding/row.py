"""One request on its way through a batch: what it has produced, and whether it is finished."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from headway.config.text import Forced
from headway.decoding.processors import Processors
from headway.decoding.reader import Reader
from headway.decoding.request import Finish, NonFiniteLogits, Request, TokenEvent
from headway.decoding.text import Pieces, Text


class DecodingRow:
    """The tokens, the text and the end of one request."""

    def __init__(self, index: int, request: Request, reader: Reader, raw: frozenset[int]) -> None:
        if request.stop and reader.tokenizer is None:
            raise ValueError(f"the stop string {request.stop[0]!r} needs a tokenizer: give one, or use stop_tokens")
        self.index, self.request, self.prompt = index, request, reader.prompt(request)
        self._limit: Finish
        self.most, self._limit = reader.most(request, self.prompt)
        # What the decoder has read: a model that reads a source begins with one token of its own.
        start = reader.special.start if reader.reads_source else None
        self.read = self.prompt if start is None else (start,)
        self.tokens: list[int] = []
        self.finish: Finish | None = None
        self.left = False
        self._forced, self._ends = reader.forced_of(request), reader.ends(request)
        ends = self._ends.union(request.stop_tokens)
        self.processors = Processors.of(request, self.read, ends, reader.words, reader.tokenizer)
        self._text = Text(pieces_of(reader, self.prompt, raw), request.stop)

    @property
    def done(self) -> bool:
        return self.left or self.finish is not None

    @property
    def position(self) -> int:
        """Of the next token in its own sequence, whatever the batch."""
        return len(self.read) + len(self.tokens)

    @property
    def left_to_make(self) -> int:
        """How many tokens can still come."""
        return self.most - len(self.tokens)

    @property
    def forced(self) -> int | None:
        """The one token that may come next, if there is no choice."""
        return forced(self._forced, len(self.tokens), self.most)

    def take(
        self, token: int, margin: float, logprob: float | None = None, likeliest: Sequence[tuple[int, float]] = ()
    ) -> TokenEvent:
        """Add a token, and say what it brings."""
        must = self.forced
        self.tokens.append(token)
        if self.processors is not None:
            self.processors.take(token)
        text = self._add(token)
        last = len(self.tokens) == self.most
        if last and (self.finish is None or (self.finish == "end" and token == must)):
            self.finish = self._limit
        if self.finish is not None:
            text += self._text.finish()
            if self._text.stopped:
                self.finish = "stop"
        return TokenEvent(self.index, token, text, margin, logprob, tuple(likeliest), self.finish)

    def _add(self, token: int) -> str:
        if token in self._ends or token in self.request.stop_tokens:
            self.finish = "end" if token in self._ends else "stop"
            return ""
        text = self._text.add(token)
        complete = self.processors is not None and self.processors.complete
        self.finish = "stop" if self._text.stopped or complete else None
        return text


def forced(rules: Forced, made: int, most: int) -> int | None:
    """The token that must come after `made` of at most `most` tokens; None where there is a choice.

    >>> forced(Forced(first=3, last=2), 0, 5), forced(Forced(first=3, last=2), 4, 5), forced(Forced(first=3), 1, 5)
    (3, 2, None)
    """
    if made == 0 and rules.first is not None:
        return rules.first
    return rules.last if made == most - 1 else None


@contextmanager
def naming(logits: Tensor, requests: Sequence[int]) -> Iterator[None]:
    """Inside, a complaint about broken logits names the request of the row; a row's place says nothing to its owner.

    Logits that are sound where nothing can be chosen were all forbidden.
    """
    try:
        yield
    except ValueError:
        for request, best in zip(requests, logits.amax(-1).tolist(), strict=True):
            if not math.isfinite(best):
                raise NonFiniteLogits(request, best) from None
        raise ValueError(
            "no token is left to choose: logit_bias, no_repeat_ngram_size, min_new_tokens, regex, json_schema and the "
            "tokens that the model never writes forbid all of them"
        ) from None


def pieces_of(reader: Reader, prompt: tuple[int, ...], raw: frozenset[int]) -> Pieces | None:
    if reader.tokenizer is None:
        return None
    return Pieces(reader.tokenizer.decode, before=() if reader.reads_source else prompt, raw=raw)
