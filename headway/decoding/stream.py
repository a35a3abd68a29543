"""The decoding loop: one for any model, any cache and any way to choose a token.

Rows leave the batch when they are finished, and new ones join it while others run. What a request gets does not depend
on its company: its draws are keyed by its own seed and positions, and every choice reports by how much it was decided.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict, Unpack, overload

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.config import nearest
from headway.config.size_limits import SAMPLES, check_size
from headway.data.tokenizer import Tokenizer
from headway.decoding.draft import draft_of
from headway.decoding.processors import Processors
from headway.decoding.reader import Pad, PastLength, Reader, padded
from headway.decoding.request import Generation, Prompt, Prompts, Request, RequestOptions, TokenEvent, as_requests
from headway.decoding.row import DecodingRow, naming
from headway.decoding.text import byte_tokens
from headway.hub.load import with_tokenizer
from headway.models.sessions import CachedSession, Session
from headway.nn.modes import evaluating
from headway.ops.nonfinite_rows import at_least_float32
from headway.ops.sampling.choose import choose
from headway.ops.sampling.cut import Rules
from headway.ops.sampling.logits import log_total, penalise, steer
from headway.ops.sampling.uniform import uniform


class DecodingBatch:
    """Requests that are decoded together; `rows` of them at once (None: all), the others wait.

    pad: prompts that begin together are padded on the "left" or "right", or read one by one ("none").
    past_length: a request that does not fit into the model is refused; or it may "stop" there; or, where every layer
    has a window or a running total and positions are not learned, "slide" on.
    ignore_defaults: what the model's generation_config.json suggests is not followed where a request says nothing.
    draft: "prompt", or a smaller language model with the same vocabulary: it proposes `draft_tokens` at a time, which
    the model reads at once. The tokens are the same; a step may give a row several.
    """

    def __init__(
        self,
        model: Any,
        *,
        tokenizer: Tokenizer | None = None,
        pad: Pad = "left",
        cache: bool = True,
        past_length: PastLength = "refuse",
        rows: int | None = None,
        ignore_defaults: bool = False,
        draft: Any = None,
        draft_tokens: int | None = None,
    ) -> None:
        if rows is not None and rows < 1:
            raise ValueError(f"a batch has at least one row, not {rows}")
        self._reader = Reader(model, tokenizer, pad, cache, past_length, ignore_defaults)
        self._draft = draft_of(draft, draft_tokens, self._reader)
        self._raw = frozenset() if tokenizer is None else byte_tokens(tokenizer)
        self._most_rows, self._joined = rows, 0
        self._waiting: list[DecodingRow] = []
        self._rows: list[DecodingRow] = []
        self._session: Session | None = None
        self._device: torch.device | None = None
        self._rules = Rules([], [], [], [])
        self._seen: Int[Tensor, "B T"] | None = None  # tokens read and produced, where a request penalises them
        self._processed: list[tuple[int, Processors]] = []  # rows whose logits are changed, and by what

    @property
    def running(self) -> int:
        """How many requests are not finished, those that wait included."""
        return sum(not row.done for row in (*self._rows, *self._waiting))

    def join(self, requests: Sequence[Request]) -> list[int]:
        """Take in requests and return their numbers; refuses all of them if one cannot be served."""
        asked = [self._reader.completed(request) for request in requests]
        new = [DecodingRow(self._joined + i, request, self._reader, self._raw) for i, request in enumerate(asked)]
        self._joined += len(new)
        self._waiting += new
        return [row.index for row in new]

    def samples(self, request: Request, n: int) -> list[Request]:
        """The request n times, each with a seed of its own."""
        if n < 1:
            raise ValueError(f"a prompt has at least one sample, not n={n}")
        check_size(n, SAMPLES, "the list of a prompt's samples")
        if n > 1 and not self._reader.completed(request).temperature:
            raise ValueError(f"n={n} samples of one prompt are the same text at temperature 0: give a temperature")
        return [request, *(request.unchecked(seed=(request.seed + i) % 2**64) for i in range(1, n))]

    def leave(self, request: int) -> None:
        """Give up a request: it produces nothing more."""
        for row in (*self._rows, *self._waiting):
            row.left = row.left or row.index == request
        self._drop()

    @torch.no_grad()
    def step(self) -> list[TokenEvent]:
        """One more token for every row, new rows included; nothing when no request is left. With a draft, some more."""
        if self._draft is not None and self._session is not None and not self._admissible:
            events = self._step_with_draft(self._draft.propose(self._rows))
            if events is not None:
                return events
        logits = self._advance()
        if logits is None:
            return []
        events = self._take(logits, self._rows, self._rules)
        self._drop()
        return events

    def _take(self, logits: Float[Tensor, "B V"], rows: Sequence[DecodingRow], rules: Rules) -> list[TokenEvent]:
        """One more token for each of these rows, by its logits."""
        uniforms = [uniform(row.request.seed, row.position) if row.request.temperature else 0.0 for row in rows]
        with naming(logits, [row.index for row in rows]):
            choice = choose(self._constrain(logits, rows), rules, uniforms)
            extras = _log_probabilities(logits, choice.tokens, rows)
        if self._seen is not None:
            self._seen = torch.cat([self._seen, choice.tokens[:, None]], dim=1)
        chosen = zip(choice.tokens.tolist(), choice.margins.tolist(), strict=True)
        return [row.take(*one, *extra) for row, one, extra in zip(rows, chosen, extras, strict=True)]

    def _step_with_draft(self, drafts: Sequence[Sequence[int]]) -> list[TokenEvent] | None:
        """Read each row's last token and what is proposed behind it; None where nothing is.

        Token by token, a row goes on while what it chooses is what was proposed.
        """
        if not any(drafts):
            return None
        assert isinstance(self._session, CachedSession)
        texts = [(row.tokens[-1], *draft) for row, draft in zip(self._rows, drafts, strict=True)]
        tokens, keep = padded(texts, left=False, device=self._device)
        trial = self._session.trial(tokens)
        logits = self._session.read_all(tokens, keep)
        events, taken, going = [], [0] * len(texts), list(range(len(texts)))
        while going:
            at, rows = taken[going[0]], [self._rows[place] for place in going]
            self._gather(rows)
            new = self._take(logits[going, at], rows, self._rules)
            events += new
            for place in going:
                taken[place] += 1
            going = [
                place
                for place, row, event in zip(going, rows, new, strict=True)
                if not row.done and texts[place][at + 1 : at + 2] == (event.token,)
            ]
        trial.keep_first(torch.tensor(taken))
        self._gather(self._rows)
        self._drop()
        return events

    def _advance(self) -> Float[Tensor, "B V"] | None:
        """Read the last token of every row and the prompts of new ones: logits of what follows."""
        found = []
        if self._session is not None:
            last = [[row.tokens[-1]] for row in self._rows]
            found.append(self._session.read(torch.tensor(last, device=self._device)))
        new = self._admit()
        if new:
            session, logits = self._open(new)
            if self._session is None:
                self._session, self._device = session, logits.device
            else:
                self._session.join(session)
            found.append(logits)
            self._rows += new
            self._gather(self._rows)
        return torch.cat(found) if len(found) > 1 else found[0] if found else None

    def _open(self, new: list[DecodingRow]) -> tuple[Session, Float[Tensor, "B V"]]:
        """A session that has read the prompts of new rows; one that several of them have is read once."""
        prompts = list(dict.fromkeys(row.prompt for row in new))
        session, logits = self._reader.open(prompts, max(row.most for row in new))
        if len(prompts) == len(new):
            return session, logits
        places = {prompt: place for place, prompt in enumerate(prompts)}
        rows = torch.tensor([places[row.prompt] for row in new], device=logits.device)
        session.select(rows)
        return session, logits[rows]

    def _drop(self) -> None:
        """Let finished rows go, and with the last one everything that was kept for them."""
        stay = [place for place, row in enumerate(self._rows) if not row.done]
        if len(stay) == len(self._rows):
            return
        self._rows = [self._rows[place] for place in stay]
        if not stay:
            self._session, self._seen, self._processed = None, None, []
            return
        assert self._session is not None
        rows = torch.tensor(stay, device=self._device)
        self._session.select(rows)
        self._rules = self._rules.of(stay)
        self._seen = None if self._seen is None else self._seen[rows]
        self._processed = _changed(self._rows)

    @property
    def _admissible(self) -> bool:
        return bool(self._waiting) and (self._most_rows is None or len(self._rows) < self._most_rows)

    def _admit(self) -> list[DecodingRow]:
        waiting = [row for row in self._waiting if not row.done]
        room = len(waiting) if self._most_rows is None else self._most_rows - len(self._rows)
        self._waiting = waiting[room:]
        return waiting[:room]

    def _gather(self, rows: Sequence[DecodingRow]) -> None:
        """What rows ask for, as columns; without a draft once for every row that joins, not for every token."""
        asked = [row.request for row in rows]
        names = ("temperature", "top_k", "top_p", "min_p")
        self._rules = Rules(*([getattr(request, name) for request in asked] for name in names))
        self._seen, self._processed = None, _changed(rows)
        if any(request.repetition_penalty != 1 for request in asked):
            texts = [(*row.read, *row.tokens) for row in rows]
            longest = max(map(len, texts))
            full = [text + text[:1] * (longest - len(text)) for text in texts]  # to see a token twice changes nothing
            self._seen = torch.tensor(full, device=self._device)

    def _constrain(self, logits: Float[Tensor, "B V"], rows: Sequence[DecodingRow]) -> Float[Tensor, "B V"]:
        """Logits after what the requests and the model's configuration forbid or force."""
        if self._seen is not None:
            penalties = [row.request.repetition_penalty for row in rows]
            logits = penalise(logits, self._seen, torch.tensor(penalties, device=logits.device))
        if self._processed:
            logits = logits.to(at_least_float32(logits.dtype), copy=True)  # in bfloat16 a small penalty would be lost
            for place, processors in self._processed:
                processors.apply(logits[place])
        return steer(logits, self._reader.forced.never, [row.forced for row in rows])


def _changed(rows: Sequence[DecodingRow]) -> list[tuple[int, Processors]]:
    """The rows whose logits are changed before a token is chosen, by their places."""
    return [(place, row.processors) for place, row in enumerate(rows) if row.processors is not None]


def _log_probabilities(
    logits: Float[Tensor, "B V"], tokens: Int[Tensor, " B"], rows: Sequence[DecodingRow]
) -> list[tuple]:
    """For each row the log-probability of its token, and the likeliest tokens with theirs; () where not asked."""
    counts = [row.request.logprobs for row in rows]
    if all(count is None for count in counts):
        return [()] * len(counts)
    total, most = log_total(logits)[:, None], max(count or 0 for count in counts)
    own = (logits.gather(1, tokens[:, None]) - total)[:, 0].tolist()
    likeliest: list[list[tuple[int, float]]] = [[] for _ in counts]
    if most:
        top = logits.topk(min(most, logits.shape[1]))
        pairs = zip(top.indices.tolist(), (top.values - total).tolist(), strict=True)
        likeliest = [list(zip(*pair, strict=True)) for pair in pairs]
    found = zip(own, likeliest, counts, strict=True)
    return [() if count is None else (one, some[:count]) for one, some, count in found]


class BatchOptions(TypedDict, total=False):
    """The options of a DecodingBatch by name, for whoever reads without one."""

    tokenizer: Tokenizer | None
    pad: Pad
    cache: bool
    past_length: PastLength
    rows: int | None
    ignore_defaults: bool
    draft: Any
    draft_tokens: int | None


class DecodingOptions(RequestOptions, BatchOptions, total=False):
    """All that may be said beside a model and its prompts."""


def stream(
    model: Any, prompts: Prompt | Prompts, *, n: int = 1, **options: Unpack[DecodingOptions]
) -> Iterator[TokenEvent]:
    """Tokens and pieces of text as they come, a prompt's number with each; options: `DecodingBatch`, `Request`.

    The model is one that `headway.build` or `headway.load` gave, or the name or path of one to load; without a
    tokenizer it is read with its own. While it is read it is in eval mode. With `n` each prompt has n samples, drawn
    with the seeds seed, seed + 1, …; those of prompt i have the numbers i · n and on.
    """
    choosing, reading = _split_options({**options})
    model, tokenizer = with_tokenizer(model, reading.pop("tokenizer", None))
    requests, _ = as_requests(prompts, choosing)
    with evaluating(model):
        batch = DecodingBatch(model, tokenizer=tokenizer, **reading)
        # Here and not in the iterator, so that a mistake is said before a token is asked for.
        batch.join([one for request in requests for one in batch.samples(request, n)])
    return _events(batch, model)


def _split_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is for the requests, and what for the batch that reads them."""
    known = (*RequestOptions.__annotations__, *BatchOptions.__annotations__)
    for name in options:
        if name not in known:
            raise ValueError(f"there is no option {name!r}{nearest(name, known)}; there are {', '.join(known)}")
    reading = {name: options.pop(name) for name in BatchOptions.__annotations__ if name in options}
    return options, reading


def _events(batch: DecodingBatch, model: Any) -> Iterator[TokenEvent]:
    while batch.running:
        with evaluating(model):
            events = batch.step()
        yield from events


@overload
def generate(model: Any, prompts: Prompt, **options: Unpack[DecodingOptions]) -> Generation: ...
@overload
def generate(model: Any, prompts: Prompts, **options: Unpack[DecodingOptions]) -> list[Generation]: ...
@overload
def generate(model: Any, prompts: Prompt, *, n: int, **options: Unpack[DecodingOptions]) -> list[Generation]: ...
@overload
def generate(model: Any, prompts: Prompts, *, n: int, **options: Unpack[DecodingOptions]) -> list[list[Generation]]: ...
def generate(model: Any, prompts: Any, *, n: int | None = None, **options: Any) -> Any:
    """All tokens and the whole text that follow a prompt, or each of several, in their order; options as for `stream`.

    With `n`, a list of so many samples in place of each.

    >>> from headway.models import build
    >>> model = build("gpt2", layers=2, width=12, heads=3, vocabulary=65, length=16, seed=5)
    >>> generate(model, [3, 1, 4], max_new_tokens=4).tokens == generate(model, [[3, 1, 4]], max_new_tokens=4)[0].tokens
    True
    >>> len(generate(model, [3, 1, 4], max_new_tokens=4, temperature=1.0, n=5))
    5
    """
    choosing, reading = _split_options(options)
    requests, single = as_requests(prompts, choosing)
    each = 1 if n is None else n
    events = stream(model, requests, n=each, **reading)  # which refuses what cannot be asked for
    found: list[list[TokenEvent]] = [[] for _ in range(len(requests) * each)]
    for event in events:
        found[event.request].append(event)
    results: list[Any] = [Generation.of(events) for events in found]
    if n is not None:
        results = [results[start : start + n] for start in range(0, len(results), n)]
    return results[0] if single else results
