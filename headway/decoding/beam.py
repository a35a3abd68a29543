"""Beam search: of all texts that the best `beams` beginnings lead to, those of the highest score.

    score = log p(tokens) / lengthᵅ        length: tokens produced, the one that ends the text included

Each step looks at all continuations of the running texts, best first. Those that end, if they are among the first
`beams`, are finished; the first `beams` that do not end run on. (Wu et al. 2016, arXiv:1609.08144, divide by another
power; this is the plain one, as in Hugging Face's library.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headway.config.text import Forced
from headway.data.tokenizer import Tokenizer
from headway.decoding.reader import Pad, PastLength, Reader
from headway.decoding.request import Finish, Generation, Request
from headway.decoding.row import forced, naming, pieces_of
from headway.decoding.text import byte_tokens
from headway.ops.sampling.logits import check_finite, log_total, steer

POWER = 50  # a text of a million tokens to this power is a number yet
Until = Literal["full", "likely", "certain"]
PLAIN = (
    "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty",
    "logit_bias", "min_new_tokens", "no_repeat_ngram_size", "stop", "regex", "json_schema", "logprobs",
)  # fmt: skip


@dataclass(frozen=True)
class Beams:
    """How to search. `until` says when: "full", as soon as `beams` texts are finished; "likely", when moreover no
    running text would enter them if it ended at its present length; "certain", when none can at any length."""

    beams: int = 4
    alpha: float = 1.0
    until: Until = "likely"

    def __post_init__(self) -> None:
        if self.beams < 1:
            raise ValueError(f"a beam search keeps at least one text, not {self.beams}")
        if not abs(self.alpha) <= POWER:  # so that nan is refused too
            raise ValueError(f"a length penalty is a power from -{POWER} to {POWER}, not {self.alpha}")
        if self.until not in ("full", "likely", "certain"):
            raise ValueError(f"a beam search goes on until full, likely or certain, not {self.until!r}")

    def score(self, total: float, length: int) -> float:
        return total / length**self.alpha


@dataclass(frozen=True)
class Beginning:
    """The first tokens of a text, and their log-probability."""

    tokens: tuple[int, ...]
    total: float


@dataclass
class Search:
    """The beams of one request."""

    rule: Beams
    ends: frozenset[int]
    stops: frozenset[int]
    most: int
    limit: Finish
    rules: Forced  # tokens that must come first or last
    running: list[Beginning] = field(default_factory=lambda: [Beginning((), 0.0)])
    finished: list[tuple[float, Finish, Beginning]] = field(default_factory=list)

    @property
    def candidates(self) -> int:
        """So many that `beams` go on even if each running text may end in every way."""
        return (1 + len(self.ends | self.stops)) * self.rule.beams

    def take(self, totals: Float[Tensor, "R C"], tokens: list[list[int]]) -> list[int]:
        """Go on with the best continuations; which running text each new one continues."""
        order = totals.flatten().topk(min(self.candidates, totals.numel()))
        parents, running = [], []
        for rank, (total, flat) in enumerate(zip(order.values.tolist(), order.indices.tolist(), strict=True)):
            if total == float("-inf"):
                break
            parent, place = divmod(flat, totals.shape[1])
            text = Beginning((*self.running[parent].tokens, tokens[parent][place]), total)
            finish = self.finish(text)
            if finish is None and len(running) < self.rule.beams:
                running.append(text)
                parents.append(parent)
            elif finish is not None and rank < self.rule.beams:
                self.finished.append((self.rule.score(total, len(text.tokens)), finish, text))
        self.finished = sorted(self.finished, key=lambda one: -one[0])[: self.rule.beams]
        self.running = running if not running or self._goes_on(running) else []
        return parents if self.running else []

    def finish(self, text: Beginning) -> Finish | None:
        last = len(text.tokens) == self.most
        if last and text.tokens[-1] == self.rules.last:
            return self.limit
        if text.tokens[-1] in self.ends:
            return "end"
        if text.tokens[-1] in self.stops:
            return "stop"
        return self.limit if last else None

    def _goes_on(self, running: list[Beginning]) -> bool:
        """Whether a running text may still enter the finished ones; the first of them has the best chance."""
        if len(self.finished) < self.rule.beams:
            return True
        if self.rule.until == "full":
            return False
        best, length = running[0].total, len(running[0].tokens)
        # A total only falls, so what a longer text can gain is its length alone.
        longest = self.most if self.rule.until == "certain" and self.rule.alpha > 0 else length
        return self.rule.score(best, longest) > self.finished[-1][0]


@torch.no_grad()
def beam(
    model: Any,
    requests: Sequence[Request],
    *,
    beams: int = 4,
    alpha: float = 1.0,
    until: Until = "likely",
    tokenizer: Tokenizer | None = None,
    pad: Pad = "left",
    cache: bool = True,
    past_length: PastLength = "refuse",
) -> list[list[Generation]]:
    """For each request its `beams` best texts, best first; all requests are searched in one batch."""
    reader = Reader(model, tokenizer, pad, cache, past_length)
    rule, ends = Beams(beams, alpha, until), frozenset(reader.special.end)
    for request in requests:
        _plain(request)
    prompts = [reader.prompt(request) for request in requests]
    searches = [
        Search(rule, ends, frozenset(request.stop_tokens), *reader.most(request, prompt), reader.forced_of(request))
        for request, prompt in zip(requests, prompts, strict=True)
    ]
    if searches:
        _run(reader, searches, prompts)
    return [_results(reader, search, prompt) for search, prompt in zip(searches, prompts, strict=True)]


def _run(reader: Reader, searches: list[Search], prompts: list[tuple[int, ...]]) -> None:
    session, logits = reader.open(prompts, max(search.most for search in searches))
    while True:
        rows, last = _step(reader, searches, logits)
        if not rows:
            return
        session.select(torch.tensor(rows, device=logits.device))
        logits = session.read(torch.tensor(last, device=logits.device))


def _step(reader: Reader, searches: list[Search], logits: Float[Tensor, "B V"]) -> tuple[list[int], list[list[int]]]:
    """One step of every search: which rows the running texts continue, and with which token."""
    must = [forced(search.rules, len(text.tokens), search.most) for search in searches for text in search.running]
    count = min(max(search.candidates for search in searches), logits.shape[1])
    logits = steer(logits, (), must)  # before the total is taken: what is forced costs nothing
    top = steer(logits, reader.forced.never).topk(count)
    with naming(logits, [place for place, search in enumerate(searches) for _ in search.running]):
        check_finite(top.values[:, 0])
        totals = top.values - log_total(logits)[:, None]
    tokens, rows, last, start = top.indices.tolist(), [], [], 0
    for search in searches:
        end = start + len(search.running)
        own = totals.new_tensor([text.total for text in search.running])
        parents = search.take(totals[start:end] + own[:, None], tokens[start:end]) if search.running else []
        rows += [start + parent for parent in parents]
        last += [[text.tokens[-1]] for text in search.running]
        start = end
    return rows, last


def _results(reader: Reader, search: Search, prompt: tuple[int, ...]) -> list[Generation]:
    raw = frozenset() if reader.tokenizer is None else byte_tokens(reader.tokenizer)
    found = []
    for score, finish, text in search.finished:
        pieces = pieces_of(reader, prompt, raw)
        shown = text.tokens[:-1] if text.tokens[-1] in search.ends | search.stops else text.tokens
        words = "" if pieces is None else "".join(map(pieces.add, shown)) + pieces.finish()
        found.append(Generation(text.tokens, words, finish, score=score))
    return found


def _plain(request: Request) -> None:
    for name in PLAIN:
        if getattr(request, name) != Request.model_fields[name].get_default(call_default_factory=True):
            raise ValueError(f"a beam search chooses by score alone: leave {name} of the request at its default")
