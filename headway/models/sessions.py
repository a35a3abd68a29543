"""What the decoding loop asks of any model: rows that are being read, one per sequence.

A session owns the caches. Rows leave (`select`), are repeated for a beam (`select`), and others join (`join`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.models.compiled_steps import CompiledSteps
from headway.nn.cache import BlockCache, KVCache, TotalCache, WindowCache
from headway.ops.values import readable


@runtime_checkable
class Session(Protocol):
    """Sequences that are being read together; a session of no rows takes as many as its first read brings."""

    @property
    def rows(self) -> int: ...

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        """How many real tokens each row has read."""
        ...

    @property
    def room(self) -> int | None:
        """How many more tokens the fullest row can take; None where there is no limit."""
        ...

    def read(self, tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B V"]:
        """Take in tokens (`keep` True = real) and return the logits after each row's last real one."""
        ...

    def select(self, rows: Int[Tensor, " R"]) -> None:
        """Keep these rows, in this order, repeated where asked."""
        ...

    def join(self, other: Any) -> None:
        """Take in the rows of another session of the same model, below these."""
        ...


def last_real(hidden: Float[Tensor, "B L D"], keep: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B D"]:
    """Each row's vector at its last real token."""
    known = keep is not None and readable(keep)
    if keep is None or (known and bool(keep[:, -1].all())):
        return hidden[:, -1]
    if known and not bool(keep.any(-1).all()):
        raise ValueError("a row of nothing but padding has no last token: leave it out of the batch")
    last = keep.shape[1] - 1 - keep.flip(1).int().argmax(-1)
    return hidden[torch.arange(len(hidden), device=hidden.device), last]


class CachedSession:
    """A session with caches; of a model that reads a source, its keys and values are in them when it opens."""

    def __init__(self, model: Any, caches: list[BlockCache], length: int | None) -> None:
        self._model, self.caches, self._length = model, caches, length
        self._steps = CompiledSteps(model)

    @property
    def _own(self) -> Any:
        return self.caches[0].own

    @property
    def rows(self) -> int:
        source = self.caches[0].cross
        return len(self._own.lengths if source is None else source.lengths)

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        following = self._own.following(1)[:, 0]
        return following.expand(self.rows) if len(following) == 1 else following

    @property
    def room(self) -> int | None:
        if self._length is None or (self._model.positions is None and _slides(self.caches)):
            return None
        return self._length - self._own.longest

    @torch.inference_mode()
    def read(self, tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B V"]:
        if tokens.shape[1] == 0:
            raise ValueError("a session reads at least one token at a time")
        if self.caches[0].cross is not None and len(tokens) != self.rows:
            raise ValueError(f"this session has {self.rows} sources, and there are tokens for {len(tokens)} targets")
        if keep is not None and bool(keep.all()):
            keep = None
        if keep is None and tokens.shape[1] == 1:
            logits = self._steps.read(tokens, self.caches)
            if logits is not None:
                return logits
        return self._model.logits(last_real(self._model.hidden_states(tokens, keep=keep, caches=self.caches), keep))

    def trial(self, tokens: Int[Tensor, "B L"] | None = None) -> "TrialRead":
        """Before tokens are read of which some may have to be forgotten again."""
        return TrialRead(self, [cache.own.mark() for cache in self.caches if cache.own is not None], tokens)

    @torch.inference_mode()
    def read_all(self, tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B L V"]:
        """Take in tokens and return the logits after every one of them."""
        return self._model.logits(self._model.hidden_states(tokens, keep=keep, caches=self.caches))

    def select(self, rows: Int[Tensor, " R"]) -> None:
        for cache in self.caches:
            for part in cache.parts:
                part.select(rows)

    def join(self, other: "CachedSession") -> None:
        if self.rows == 0:
            self.caches = other.caches
            return
        for ours, theirs in zip(self.caches, other.caches, strict=True):
            for mine, more in zip(ours.parts, theirs.parts, strict=True):
                mine.join(more)


@dataclass(frozen=True)
class TrialRead:
    """What a session has read since a moment: in a `KVCache` any tokens, with other caches `tokens` in one read."""

    session: CachedSession
    marks: list[Any]
    tokens: Int[Tensor, "B L"] | None = None

    @torch.inference_mode()
    def keep_first(self, counts: Int[Tensor, " B"]) -> None:
        """Keep so many tokens of each row and forget the others.

        Caches that do not hold every key go back to the moment, and what stays is read again.
        """
        own = [cache.own for cache in self.session.caches if cache.own is not None]
        if all(type(cache) is KVCache for cache in own):
            for cache, mark in zip(own, self.marks, strict=True):
                cache.keep_first(mark, counts)  # pyright: ignore[reportAttributeAccessIssue]
            return
        assert self.tokens is not None
        for cache, mark in zip(own, self.marks, strict=True):
            cache.rewind(mark)
        most = int(counts.max())
        keep = torch.arange(most, device=self.tokens.device) < counts[:, None].to(self.tokens.device)
        self.session.read(self.tokens[:, :most], keep)


def _slides(caches: list[BlockCache]) -> bool:
    """Whether no cache grows with the text, so that reading can go on for ever."""
    return all(isinstance(cache.own, WindowCache | TotalCache) for cache in caches)


@dataclass
class _Texts:
    """All that was read, row by row."""

    rows: list[list[int]] = field(default_factory=list)

    @property
    def lengths(self) -> list[int]:
        return [len(text) for text in self.rows]

    def extend(self, tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None) -> None:
        keep = torch.ones_like(tokens, dtype=torch.bool) if keep is None else keep
        new = [row[kept].tolist() for row, kept in zip(tokens, keep, strict=True)]
        self.rows = [old + more for old, more in zip(self.rows or [[] for _ in new], new, strict=True)]

    def padded(self, device: torch.device) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"]]:
        """All of it in one batch, and what is real there."""
        longest = max(self.lengths)
        tokens = torch.tensor([text + [0] * (longest - len(text)) for text in self.rows], device=device)
        return tokens, torch.arange(longest, device=device) < torch.tensor(self.lengths, device=device)[:, None]

    def select(self, rows: Int[Tensor, " R"]) -> None:
        self.rows = [list(self.rows[row]) for row in rows.tolist()]


class RereadSession:
    """A session without a cache: everything is read again for each new token. Slow, and right by construction."""

    def __init__(self, model: Any, length: int | None) -> None:
        self._model, self._length = model, length
        self._texts = _Texts()

    @property
    def rows(self) -> int:
        return len(self._texts.rows)

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        return torch.tensor(self._texts.lengths, dtype=torch.long)

    @property
    def room(self) -> int | None:
        return None if self._length is None else self._length - max(self._texts.lengths, default=0)

    @torch.inference_mode()
    def read(self, tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B V"]:
        self._texts.extend(tokens, keep)
        padded, real = self._texts.padded(tokens.device)
        return self._model.logits(last_real(self._model.hidden_states(padded, keep=real), real))

    def select(self, rows: Int[Tensor, " R"]) -> None:
        self._texts.select(rows)

    def join(self, other: "RereadSession") -> None:
        self._texts.rows = self._texts.rows + other._texts.rows


class RestartingSession:
    """A session of a model in which the length of a text changes how all of its tokens are read.

    While what `rotation_key` makes of its length stays the same, a cache serves. When it changes, what was read before
    was read otherwise: everything is read anew. `make` gives an empty session with caches.
    """

    def __init__(self, make: Callable[[], CachedSession], rotation_key: Callable[[int], Any]) -> None:
        self._make, self._rotation_key = make, rotation_key
        self._inner, self._texts = make(), _Texts()

    @property
    def caches(self) -> list[BlockCache]:
        return self._inner.caches

    @property
    def rows(self) -> int:
        return self._inner.rows

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        return self._inner.lengths

    @property
    def room(self) -> int | None:
        return self._inner.room

    def read(self, tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B V"]:
        before = self._texts.lengths
        self._texts.extend(tokens, keep)
        after = self._texts.lengths
        if all(self._rotation_key(old) == self._rotation_key(new) for old, new in zip(before, after, strict=False)):
            return self._inner.read(tokens, keep)
        self._inner = self._make()
        padded, real = self._texts.padded(tokens.device)
        return self._inner.read(padded, real)

    def select(self, rows: Int[Tensor, " R"]) -> None:
        self._texts.select(rows)
        self._inner.select(rows)

    def join(self, other: "RestartingSession") -> None:
        self._texts.rows = self._texts.rows + other._texts.rows
        self._inner.join(other._inner)


class RereadPairSession:
    """A session without caches: source and target are read again for each new token. Slow, right by construction."""

    def __init__(self, model: Any, source: Int[Tensor, "B M"], keep: Bool[Tensor, "B M"] | None) -> None:
        keep = torch.ones_like(source, dtype=torch.bool) if keep is None else keep
        self._sources = _Sources(model, source, keep)
        self._targets = RereadSession(self._sources, model.config.length)

    @property
    def rows(self) -> int:
        return len(self._sources.source)

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        return self._targets.lengths if self._targets.rows else torch.zeros(self.rows, dtype=torch.long)

    @property
    def room(self) -> int | None:
        return self._targets.room

    @torch.inference_mode()
    def read(self, tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B V"]:
        return self._targets.read(tokens, keep)

    def select(self, rows: Int[Tensor, " R"]) -> None:
        self._sources.source, self._sources.keep = self._sources.source[rows], self._sources.keep[rows]
        if self._targets.rows:
            self._targets.select(rows)

    def join(self, other: "RereadPairSession") -> None:
        self._sources.join(other._sources)
        self._targets.join(other._targets)


@dataclass
class _Sources:
    """A model that reads targets of given sources, so that nobody need hand them over each time."""

    model: Any
    source: Int[Tensor, "B M"]
    keep: Bool[Tensor, "B M"]

    def hidden_states(self, tokens: Int[Tensor, "B L"], *, keep: Bool[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
        memory = self.model.encode(self.source, keep=self.keep)
        return self.model.hidden_states(tokens, memory, source_keep=self.keep, keep=keep)

    def logits(self, hidden: Float[Tensor, "B D"]) -> Float[Tensor, "B V"]:
        return self.model.logits(hidden)

    def join(self, other: "_Sources") -> None:
        total = max(self.source.shape[1], other.source.shape[1])
        both = [[F.pad(x, (0, total - x.shape[1])) for x in (one.source, one.keep)] for one in (self, other)]
        self.source, self.keep = (torch.cat(pair) for pair in zip(*both, strict=True))
