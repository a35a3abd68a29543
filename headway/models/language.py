"""A language model: embed, stack, head.

x = tokens[t] + positions[p]        h = stack(x)        logits = h · Wᵀ, with W the embedding itself where tied
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config import LanguageConfig
from headway.models.session import Reread, Session, join_states, last_real, select_states, slides
from headway.nn.block import BlockState, Context
from headway.nn.embedding import LearnedPositions, SinusoidalPositions, embedding
from headway.nn.places import places
from headway.nn.stack import Stack
from headway.nn.state import State
from headway.ops.linear import linear
from headway.ops.mask import Mask, padding


class Language(nn.Module):
    """Tokens in, logits of the next token out (GPT-2: Radford et al. 2019; Llama: arXiv:2302.13971)."""

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__()
        c = self.config = config
        width = c.stack.block.width
        self.tokens = embedding(c.vocabulary, width)
        self.positions = make_positions(c.positions, c.length, width)
        self.dropout = nn.Dropout(c.stack.block.dropout)
        self.stack = Stack(c.stack)
        self.head = None if c.tied else nn.Linear(width, c.vocabulary, bias=False)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        *,
        keep: Bool[Tensor, "B L"] | None = None,
        positions: Int[Tensor, "b L"] | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "B L V"]:
        """The logits of what follows each token; `keep` True = a real token, `mask` any further rule."""
        return self.logits(self.read(tokens, keep=keep, positions=positions, mask=mask))

    def read(
        self,
        tokens: Int[Tensor, "B L"],
        *,
        keep: Bool[Tensor, "B L"] | None = None,
        positions: Int[Tensor, "b L"] | None = None,
        mask: Mask | None = None,
        states: list[BlockState] | None = None,
    ) -> Float[Tensor, "B L D"]:
        """The last layer's vectors, after the final norm."""
        check_tokens(tokens, self.config.vocabulary)
        step = states is not None and tokens.shape[1] == 1 and positions is None and keep is None and mask is None
        # Layers count 0, 1, 2 … themselves, and need not look at positions to know; a rotation is made once for all.
        counted = (
            positions is None and keep is None and states is None and self.config.stack.block.attention.rotary is None
        )
        if positions is None:
            positions = places(tokens, keep, None if states is None else states[0].own)
        x = self.tokens(tokens)
        if self.positions is not None:
            # Padding before the first token has positions below 0, and its vector is never looked at.
            x = self.positions(x, positions if keep is None else positions.masked_fill(~keep, 0))
        context = Context(with_padding(mask, keep), None if counted else positions, step=step)
        return self.stack(self.dropout(x), context, states)

    def logits(self, hidden: Float[Tensor, "*b D"]) -> Float[Tensor, "*b V"]:
        return linear(hidden, self.tokens.weight if self.head is None else self.head.weight)

    def session(self, *, capacity: int | None = None, cache: bool = True) -> Session:
        """An empty session; `capacity` tokens a row are reserved at once, so that nothing is ever copied to make room.

        cache=False reads everything again for each token.
        """
        return Reading(self, capacity) if cache else Reread(self, self.config.length)


class Reading:
    """A session of a language model: the prompt is its first read."""

    def __init__(self, model: Language, capacity: int | None) -> None:
        self._model = model
        self._states = model.stack.new_states(capacity=capacity)

    @property
    def rows(self) -> int:
        return len(self.lengths)

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        following = self._own.following(1)
        assert following is not None
        return following[:, 0] if self._own.longest else following[:0, 0]

    @property
    def _own(self) -> State:
        state = self._states[0].own
        assert state is not None
        return state

    @property
    def room(self) -> int | None:
        if self._model.positions is None and slides(self._states):
            return None
        return self._model.config.length - self._own.longest

    @torch.inference_mode()
    def read(self, tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B V"]:
        if tokens.shape[1] == 0:
            raise ValueError("a session reads at least one token at a time")
        if keep is not None and bool(keep.all()):
            keep = None
        return self._model.logits(last_real(self._model.read(tokens, keep=keep, states=self._states), keep))

    def select(self, rows: Int[Tensor, " R"]) -> None:
        select_states(self._states, rows)

    def join(self, other: "Reading") -> None:
        if self.rows == 0:
            self._states = other._states
        else:
            join_states(self._states, other._states)


def make_positions(kind: str, length: int, width: int) -> nn.Module | None:
    """The position embedding of that kind; None where positions live elsewhere (rotary, biases)."""
    if kind == "learned":
        return LearnedPositions(length, width)
    return SinusoidalPositions(width) if kind == "sinusoidal" else None


def with_padding(mask: Mask | None, keep: Bool[Tensor, "B L"] | None) -> Mask | None:
    """The mask, and padding hidden."""
    if keep is None:
        return mask
    return padding(keep=keep) if mask is None else mask & padding(keep=keep)


def check_tokens(tokens: Tensor, vocabulary: int) -> None:
    """Refuse what an embedding would answer with a crash or with another token's vector."""
    if tokens.ndim != 2 or tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise ValueError(f"tokens are whole numbers of shape B L, not {tokens.dtype} of shape {tuple(tokens.shape)}")
    if tokens.numel():
        low, high = (int(bound) for bound in tokens.aminmax())
        if low < 0 or high >= vocabulary:
            raise ValueError(f"token {low if low < 0 else high} is outside of the vocabulary of {vocabulary}")
