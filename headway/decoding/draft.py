"""Speculation: tokens that are likely to follow are proposed cheaply, and the model reads several of them at once.

A proposed token stays where it is what the model itself chooses there: with the request's temperature, seed, penalties
and pattern. The tokens are those of decoding without proposals, and only the number of passes changes (Leviathan et al.
2022, arXiv:2211.17192; proposals from the text itself: Saxena 2023, "Prompt Lookup Decoding").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from headway.decoding.reader import Reader, padded
from headway.decoding.row import DecodingRow
from headway.hub.load import load
from headway.models.sessions import CachedSession, TrialRead
from headway.nn.cache import KVCache

TOKENS = 8  # proposed at once, at most


@runtime_checkable
class Draft(Protocol):
    """Whatever proposes tokens."""

    def propose(self, rows: Sequence[DecodingRow]) -> list[list[int]]:
        """For each row the tokens that may follow; none where it knows none."""
        ...


def draft_of(given: Any, tokens: int | None, reader: Reader) -> Draft | None:
    """What proposes for a model: nothing, the texts themselves ("prompt"), or another model with its vocabulary."""
    if given is None:
        if tokens is not None:
            raise ValueError('draft_tokens is how many tokens a draft proposes: choose one, such as draft="prompt"')
        return None
    most = TOKENS if tokens is None else tokens
    if most < 1:
        raise ValueError(f"a draft proposes at least one token, not draft_tokens={most}")
    opened = None if reader.reads_source else reader.model.session(cache=reader.cache)
    if not reader.cache or reader.kind == "recurrent" or not isinstance(opened, CachedSession | None):
        raise ValueError("a draft needs a model whose caches can take tokens back, and this one has none of these")
    if given == "prompt":
        return PromptLookup(most)
    return DraftModel(_fitting(load(given).model if isinstance(given, str | Path) else given, reader), most)


def _fitting(draft: Any, reader: Reader) -> Any:
    """Another model that can propose tokens of this one."""
    if reader.reads_source:
        raise ValueError(f'a draft model continues texts, and a {reader.kind} model reads a source: use draft="prompt"')
    kind = getattr(getattr(draft, "config", None), "kind", type(draft).__name__)
    if kind != "language":
        raise ValueError(f'a draft is "prompt" or a language model, not a {kind}')
    if (theirs := draft.config.vocabulary) != reader.words:
        raise ValueError(f"the draft model has a vocabulary of {theirs:,}, and the model one of {reader.words:,}")
    session = draft.session()
    if not isinstance(session, CachedSession) or any(type(one.own) is not KVCache for one in session.caches):
        raise ValueError("a draft model attends to the whole text in every layer, so that tokens can be taken back")
    return draft


@dataclass
class PromptLookup:
    """Proposes what followed the last time that the text ended as it does now."""

    most: int
    longest: int = 3  # tokens that must be the same; then fewer
    _texts: dict[int, "_Places"] = field(default_factory=dict)

    def propose(self, rows: Sequence[DecodingRow]) -> list[list[int]]:
        self._texts = {row.index: self._texts.get(row.index) or _Places(row.prompt, self.longest) for row in rows}
        found = []
        for row in rows:
            places = self._texts[row.index]
            places.extend(row.tokens[len(places.text) - len(row.prompt) :])
            found.append(places.following(min(self.most, row.left_to_make - 1)))
        return found


class _Places:
    """Where each run of tokens in a text was last followed by another.

    >>> places = _Places((5, 7, 9, 2, 5), 3)
    >>> places.following(2)
    [7, 9]
    >>> places.extend([7])
    >>> places.following(6)
    [9, 2, 5, 7, 9, 2]
    """

    def __init__(self, text: Sequence[int], longest: int) -> None:
        self.text: list[int] = []
        self._after: list[dict[tuple[int, ...], int]] = [{} for _ in range(longest)]
        self.extend(text)

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            end = len(self.text)  # runs that end before this token are followed by it
            for size, known in enumerate(self._after, 1):
                if size <= end:
                    known[tuple(self.text[end - size :])] = end
            self.text.append(token)

    def following(self, most: int) -> list[int]:
        """The tokens after the last place that had the same run; where the text ends, it goes on as it began there."""
        for size in range(min(len(self._after), len(self.text)), 0, -1):
            start = self._after[size - 1].get(tuple(self.text[-size:]))
            if start is not None:
                again = self.text[start:]
                return [again[i % len(again)] for i in range(most)]
        return []


@dataclass
class DraftModel:
    """Proposes what a smaller model takes for the likeliest tokens."""

    model: Any
    most: int
    _session: CachedSession | None = None
    _texts: dict[int, tuple[int, ...]] = field(default_factory=dict)  # of each row in the session, before its proposals
    _trial: TrialRead | None = None
    _tried: list[list[int]] = field(default_factory=list)  # proposals that the session has read since, row by row

    @torch.inference_mode()
    def propose(self, rows: Sequence[DecodingRow]) -> list[list[int]]:
        length = self.model.config.length
        served = [
            row for row in rows if row.left_to_make > 1 and (length is None or row.position + self.most <= length)
        ]
        if not served:
            self._session, self._texts = None, {}
            return [[] for _ in rows]
        made = [self._catch_up({row.index: (*row.read, *row.tokens) for row in served}).argmax(-1)]
        assert self._session is not None
        self._trial = self._session.trial()
        for _ in range(min(self.most, max(row.left_to_make for row in served) - 1) - 1):
            made.append(self._session.read(made[-1][:, None]).argmax(-1))
        proposed = torch.stack(made, 1).tolist()
        self._tried = [tokens[:-1] for tokens in proposed]
        found = dict(zip(self._texts, proposed, strict=True))
        return [found.get(row.index, [])[: max(0, row.left_to_make - 1)] for row in rows]

    def _catch_up(self, texts: Mapping[int, tuple[int, ...]]) -> Float[Tensor, "B V"]:
        """Read each text to its end: the logits of what follows."""
        found = []
        if self._session is not None:
            self._take_back(texts)
        if self._session is not None:
            found.append(self._read(self._session, [texts[index][len(one) :] for index, one in self._texts.items()]))
        if new := {index: text for index, text in texts.items() if index not in self._texts}:
            session = self.model.session(capacity=max(map(len, new.values())) + 8 * self.most)
            found.append(self._read(session, list(new.values())))
            if self._session is None:
                self._session = session
            else:
                self._session.join(session)
        self._texts = {index: texts[index] for index in (*self._texts, *new)}
        return torch.cat(found)

    def _take_back(self, texts: Mapping[int, tuple[int, ...]]) -> None:
        """Forget proposals that are not in the texts, and rows that have left; of each text a token is left to read."""
        assert self._trial is not None and self._session is not None
        counts = [
            _common(tried, texts[index][len(before) : -1]) if index in texts else 0
            for (index, before), tried in zip(self._texts.items(), self._tried, strict=True)
        ]
        self._trial.keep_first(torch.tensor(counts))
        stay = [place for place, index in enumerate(self._texts) if index in texts]
        read = {
            index: texts[index][: len(before) + count]
            for (index, before), count in zip(self._texts.items(), counts, strict=True)
            if index in texts
        }
        if not stay:
            self._session = None
        elif len(stay) < len(self._texts):
            self._session.select(torch.tensor(stay, device=self._device))
        self._texts = read

    def _read(self, session: CachedSession, texts: Sequence[tuple[int, ...]]) -> Float[Tensor, "B V"]:
        return session.read(*padded(texts, left=True, device=self._device))

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens are the same from the first on.

    >>> _common([5, 7, 9], [5, 7, 2, 9])
    2
    """
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
