"""Sessions of an encoder-decoder: sources that were read once, and targets that grow token by token."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.models.seq2seq import Seq2Seq
from headway.models.session import Reread, join_states, last_real, select_states
from headway.nn.block import Block
from headway.nn.state import Cross
from headway.ops.mask import padding


class Decoding:
    """A session with caches: the source's keys and values are made once, when it opens."""

    def __init__(
        self, model: Seq2Seq, source: Int[Tensor, "B M"], keep: Bool[Tensor, "B M"] | None, capacity: int | None
    ) -> None:
        self._model = model
        self._states = model.decoder.new_states(capacity=capacity)
        if len(source):
            self._take_in(source, keep)

    def _take_in(self, source: Int[Tensor, "B M"], keep: Bool[Tensor, "B M"] | None) -> None:
        memory = self._model.encode(source, keep=keep)
        mask = None if keep is None else padding(keep=keep)
        nothing = memory.new_zeros(len(source), 0, self._model.config.decoder.block.width)
        for block, state in zip(self._model.decoder.blocks, self._states, strict=True):
            assert isinstance(block, Block)
            block.cross(nothing, memory, mask=mask, state=state.cross)  # nobody asks anything yet

    @property
    def rows(self) -> int:
        cross = self._states[0].cross
        assert isinstance(cross, Cross)
        return len(cross.lengths)

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        own = self._states[0].own
        assert own is not None
        return own.lengths if len(own.lengths) else torch.zeros(self.rows, dtype=torch.long)

    @property
    def room(self) -> int | None:
        length, own = self._model.config.length, self._states[0].own
        assert own is not None
        return None if length is None else length - own.longest

    @torch.inference_mode()
    def read(self, tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B V"]:
        if len(tokens) != self.rows:
            raise ValueError(f"this session has {self.rows} sources, and there are tokens for {len(tokens)} targets")
        if keep is not None and bool(keep.all()):
            keep = None
        return self._model.logits(last_real(self._model.read(tokens, keep=keep, states=self._states), keep))

    def select(self, rows: Int[Tensor, " R"]) -> None:
        select_states(self._states, rows)

    def join(self, other: "Decoding") -> None:
        if self.rows == 0:
            self._states = other._states
        else:
            join_states(self._states, other._states)


class Anew:
    """A session without caches: source and target are read again for each new token. Slow, right by construction."""

    def __init__(self, model: Seq2Seq, source: Int[Tensor, "B M"], keep: Bool[Tensor, "B M"] | None) -> None:
        keep = torch.ones_like(source, dtype=torch.bool) if keep is None else keep
        self._sources = _Sources(model, source, keep)
        self._targets = Reread(self._sources, model.config.length)

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

    def join(self, other: "Anew") -> None:
        self._sources.join(other._sources)
        self._targets.join(other._targets)


@dataclass
class _Sources:
    """A model that reads targets of given sources, so that nobody need hand them over each time."""

    model: Seq2Seq
    source: Int[Tensor, "B M"]
    keep: Bool[Tensor, "B M"]

    def read(self, tokens: Int[Tensor, "B L"], *, keep: Bool[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
        memory = self.model.encode(self.source, keep=self.keep)
        return self.model.read(tokens, memory, source_keep=self.keep, keep=keep)

    def logits(self, hidden: Float[Tensor, "B D"]) -> Float[Tensor, "B V"]:
        return self.model.logits(hidden)

    def join(self, other: "_Sources") -> None:
        total = max(self.source.shape[1], other.source.shape[1])
        both = [[F.pad(x, (0, total - x.shape[1])) for x in (one.source, one.keep)] for one in (self, other)]
        self.source, self.keep = (torch.cat(pair) for pair in zip(*both, strict=True))
