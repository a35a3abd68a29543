"""Bahdanau's recurrent encoder-decoder (Bahdanau, Cho & Bengio 2015, arXiv:1409.0473, appendix A), without biases.

Encoder: two gated networks read the source, one from each end; h_j joins their states at word j, the annotation of j.
Decoder, for the word y before (e its embedding) and the state s before:

    c  = Σ_j softmax_j(v · tanh(W_a s + U_a h_j)) h_j
    z  = σ(W_z e + U_z s + C_z c)        r  = σ(W_r e + U_r s + C_r c)
    s̃  = tanh(W e + U [r∘s] + C c)       s' = (1 − z)∘s + z∘s̃

It starts from s = tanh(W_s h), h being the backward state at the first word (the forward one at the last word where the
encoder reads one way). The output is the paper's deep one with a maxout layer, p(y') ∝ exp(W_o t), t_k = max(t̃_2k,
t̃_2k+1), t̃ = U_o s' + V_o e + C_o c: of the new state, as section 3.1 has it (appendix A.2.2 prints the state before).

Each query is the state that the answer to the query before has made. So the steps of one text cannot run in parallel,
neither in training nor in decoding; what the state does not need or make (W e, U_a h, t) is taken for all at once.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config import read_spec
from headway.config.text import RecurrentConfig
from headway.models.model import Model
from headway.models.sessions import last_real
from headway.nn.attention import Core
from headway.nn.cache.base import check_rows
from headway.nn.context import Guard, as_keep, check_tokens, run_guarded, zero_padding
from headway.nn.layers import Linear, embedding
from headway.ops.attention import Call, record_of
from headway.ops.loss import linear_cross_entropy, next_targets
from headway.ops.mask import allowed

_SPEC = read_spec("additive")


def linear(inputs: int, outputs: int) -> Linear:
    return Linear(inputs, outputs, bias=False)


class Cell(nn.Module):
    """One gated step: s' = (1 − z)∘s + z∘tanh(W e + U [r∘s] + C c), with z and r of their own W, U, C.

    Not torch's GRUCell, which resets after U and gives z to the old state.
    """

    def __init__(self, width: int, hidden: int, *, context: int | None = None) -> None:
        super().__init__()
        self.input = linear(width, 3 * hidden)  # W_z, W_r, W
        self.gates = linear(hidden, 2 * hidden)  # U_z, U_r
        self.candidate = linear(hidden, hidden)  # U
        self.context = None if context is None else linear(context, 3 * hidden)  # C_z, C_r, C

    def forward(
        self,
        given: Float[Tensor, "B three_h"],
        state: Float[Tensor, "B h"],
        context: Float[Tensor, "B A"] | None = None,
    ) -> Float[Tensor, "B h"]:
        """The next state; `given` is self.input(e), which the caller takes of all words at once."""
        if self.context is not None:
            given = given + self.context(context)
        gates, new = given.split([2 * state.shape[1], state.shape[1]], -1)
        z, r = torch.sigmoid(gates + self.gates(state)).chunk(2, -1)
        return (1 - z) * state + z * torch.tanh(new + self.candidate(r * state))


@dataclass(frozen=True)
class DecoderState:
    """What a decoder goes on from: the annotations of its sources, U_a of them, and its state."""

    annotations: Float[Tensor, "B M A"]
    keys: Float[Tensor, "B M K"]
    keep: Bool[Tensor, "B M"]
    state: Float[Tensor, "B h"]

    def rows(self, rows: Int[Tensor, " R"]) -> "DecoderState":
        return DecoderState(self.annotations[rows], self.keys[rows], self.keep[rows], self.state[rows])

    def join(self, other: "DecoderState") -> "DecoderState":
        """The rows of both; the shorter sources are padded on the right."""
        length = max(self.keep.shape[1], other.keep.shape[1])
        a, b = self._padded(length), other._padded(length)
        return DecoderState(
            torch.cat([a.annotations, b.annotations]),
            torch.cat([a.keys, b.keys]),
            torch.cat([a.keep, b.keep]),
            torch.cat([a.state, b.state]),
        )

    def _padded(self, length: int) -> "DecoderState":
        more = length - self.keep.shape[1]
        annotations, keys = (F.pad(x, (0, 0, 0, more)) for x in (self.annotations, self.keys))
        return replace(self, annotations=annotations, keys=keys, keep=F.pad(self.keep, (0, more)))


class Encoder(nn.Module):
    """A gated network over the source, and another one from its end where it is bidirectional."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.tokens = embedding(config.source_vocabulary, config.width)
        self.ahead = Cell(config.width, config.hidden)
        self.back = Cell(config.width, config.hidden) if config.bidirectional else None

    def forward(
        self, tokens: Int[Tensor, "B M"], keep: Bool[Tensor, "B M"]
    ) -> tuple[Float[Tensor, "B M A"], Float[Tensor, "B h"]]:
        """The annotations (0 for padding), and the last state of the network that read last."""
        x = zero_padding(self.tokens(tokens), keep)
        states = _scan(self.ahead, x, keep)
        if self.back is None:
            return zero_padding(states, keep), states[:, -1]
        from_end = _scan(self.back, x.flip(1), keep.flip(1))
        return zero_padding(torch.cat([states, from_end.flip(1)], -1), keep), from_end[:, -1]


def _scan(cell: Cell, x: Float[Tensor, "B M D"], keep: Bool[Tensor, "B M"]) -> Float[Tensor, "B M h"]:
    """The states from 0 on; padding leaves a state as it is."""
    found = [x.new_zeros(len(x), cell.candidate.out_features)]
    for given, real in zip(cell.input(x).unbind(1), keep.unbind(1), strict=True):
        found.append(torch.where(real[:, None], cell(given, found[-1]), found[-1]))
    return torch.stack(found[1:], 1)


class Alignment(nn.Module):
    """c = Σ_j softmax_j(v · tanh(W_a s + U_a h_j)) h_j: one query, keys made once, the annotations as values."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.query = linear(config.hidden, config.attention_width)  # W_a
        self.key = linear(config.annotation_width, config.attention_width)  # U_a
        self.vector = nn.Parameter(torch.randn(1, config.attention_width) * config.attention_width**-0.5)  # v
        self.core = Core(record_of(_SPEC))

    def forward(self, memory: DecoderState, guard: Guard) -> Float[Tensor, "B A"]:
        q, k, v = self.query(memory.state)[:, None, None], memory.keys[:, None], memory.annotations[:, None]
        guard.watch(q)
        # A table rather than padding(): one tile then serves the whole batch, and what padding holds is 0 already.
        mask = allowed(memory.keep[:, None, None])
        return self.core(Call(q, k, v, _SPEC, mask, parameters={"vector": self.vector}, guard=guard))[:, 0, 0]


class DeepOutput(nn.Module):
    """t_k = max(t̃_2k, t̃_2k+1), t̃ = U_o s + V_o e + C_o c (maxout: Goodfellow et al. 2013, arXiv:1302.4389)."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.state = linear(config.hidden, 2 * config.output_width)  # U_o
        self.input = linear(config.width, 2 * config.output_width)  # V_o
        self.context = linear(config.annotation_width, 2 * config.output_width)  # C_o

    def forward(
        self, state: Float[Tensor, "B L h"], x: Float[Tensor, "B L D"], context: Float[Tensor, "B L A"]
    ) -> Float[Tensor, "B L T"]:
        return (self.state(state) + self.input(x) + self.context(context)).unflatten(-1, (-1, 2)).amax(-1)


class Recurrent(Model):
    """Source and target in, logits of the target's next token out.

    >>> model = Recurrent(RecurrentConfig(source_vocabulary=7, vocabulary=11, width=3, hidden=5))
    >>> model(torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5]])).shape
    torch.Size([1, 2, 11])
    """

    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        c = self.config = config
        self.encoder = Encoder(c)
        self.start = linear(c.hidden, c.hidden)  # W_s
        self.tokens = embedding(c.vocabulary, c.width)
        self.alignment = Alignment(c)
        self.cell = Cell(c.width, c.hidden, context=c.annotation_width)
        self.deep = DeepOutput(c)
        self.head = linear(c.output_width, c.vocabulary)  # W_o

    def forward(
        self,
        source: Int[Tensor, "B M"],
        target: Int[Tensor, "B L"],
        *,
        source_keep: Tensor | None = None,
        target_keep: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
    ) -> Float[Tensor, "B L V"]:
        """The logits of what follows each token of the target; `keep` (also attention_mask) True = a real token,
        anywhere in its row."""
        source_keep = as_keep(source_keep, source, attention_mask)
        target_keep = as_keep(target_keep, target, decoder_attention_mask)
        return self.logits(self.hidden_states(target, self.encode(source, keep=source_keep), keep=target_keep))

    def encode(self, source: Int[Tensor, "B M"], *, keep: Tensor | None = None) -> DecoderState:
        """What the decoder starts from."""
        _check(source, self.config.source_vocabulary)
        keep = as_keep(keep, source)
        keep = torch.ones_like(source, dtype=torch.bool) if keep is None else keep
        annotations, last = self.encoder(source, keep)
        return DecoderState(annotations, self.alignment.key(annotations), keep, torch.tanh(self.start(last)))

    def hidden_states(
        self, tokens: Int[Tensor, "B L"], memory: DecoderState, *, keep: Tensor | None = None
    ) -> Float[Tensor, "B L T"]:
        """The maxout layer at each token of the target."""
        return self.advance(tokens, memory, keep=keep)[0]

    def advance(
        self, tokens: Int[Tensor, "B L"], memory: DecoderState, *, keep: Tensor | None = None
    ) -> tuple[Float[Tensor, "B L T"], DecoderState]:
        """The same, and what the decoder goes on from after each row's last real token."""
        _check(tokens, self.config.vocabulary)
        keep = as_keep(keep, tokens)
        real = torch.ones_like(tokens, dtype=torch.bool) if keep is None else keep
        x, after = zero_padding(self.tokens(tokens), real), [memory]

        def run(guard: Guard) -> Tensor:
            found, after[0] = self._follow(x, memory, real, guard)
            return found

        return run_guarded(run), after[0]

    def _follow(
        self, x: Float[Tensor, "B L D"], memory: DecoderState, keep: Bool[Tensor, "B L"], guard: Guard
    ) -> tuple[Float[Tensor, "B L T"], DecoderState]:
        """One word after the other: the answer to each query makes the next."""
        guard.watch(memory.keys)
        guard.watch(memory.annotations)
        states, contexts = [], []
        for given, real in zip(self.cell.input(x).unbind(1), keep.unbind(1), strict=True):
            context = self.alignment(memory, guard)
            state = torch.where(real[:, None], self.cell(given, memory.state, context), memory.state)
            memory = replace(memory, state=state)
            states.append(state)
            contexts.append(context)
        return self.deep(torch.stack(states, 1), x, torch.stack(contexts, 1)), memory

    def logits(self, hidden: Float[Tensor, "*b T"]) -> Float[Tensor, "*b V"]:
        return self.head(hidden)

    def cross_entropy(
        self, hidden: Float[Tensor, "B L T"], targets: Int[Tensor, "B L"], *, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Σ -log p(target), without holding all logits at once, and how many targets are the likeliest token."""
        return linear_cross_entropy(hidden.flatten(0, 1), self.head.weight, targets.flatten(), smoothing=smoothing)

    def loss(
        self,
        source: Int[Tensor, "B M"],
        target: Int[Tensor, "B L"],
        *,
        source_keep: Tensor | None = None,
        target_keep: Tensor | None = None,
        smoothing: float = 0.0,
    ) -> Float[Tensor, ""]:
        """The mean of -log p over the tokens of the target that follow its first, the start token."""
        keep = as_keep(target_keep, target)
        hidden = self.hidden_states(target, self.encode(source, keep=source_keep), keep=keep)
        targets = next_targets(target, keep)
        return self.cross_entropy(hidden[:, :-1], targets, smoothing=smoothing)[0] / (targets >= 0).sum()

    def session(self, source: Int[Tensor, "B M"], *, keep: Tensor | None = None) -> "RecurrentSession":
        """Targets of these sources, of which nothing is read yet: the first read is the start token."""
        return RecurrentSession(self, source, keep)


class RecurrentSession:
    """A session of a recurrent encoder-decoder: its cache is one state a row, however much was read."""

    @torch.no_grad()
    def __init__(self, model: Recurrent, source: Int[Tensor, "B M"], keep: Tensor | None) -> None:
        self._model, self._memory = model, model.encode(source, keep=keep)
        self._lengths = torch.zeros(len(source), dtype=torch.long, device=source.device)

    @property
    def rows(self) -> int:
        return len(self._lengths)

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        return self._lengths

    @property
    def room(self) -> int | None:
        return None

    @torch.no_grad()
    def read(self, tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B V"]:
        if len(tokens) != self.rows:
            raise ValueError(f"this session has {self.rows} sources, and there are tokens for {len(tokens)} targets")
        hidden, memory = self._model.advance(tokens, self._memory, keep=keep)
        found = self._model.logits(last_real(hidden, keep))
        self._memory = memory
        self._lengths = self._lengths + (tokens.shape[1] if keep is None else keep.sum(-1))
        return found

    def select(self, rows: Int[Tensor, " R"]) -> None:
        check_rows(rows, self.rows)
        self._memory, self._lengths = self._memory.rows(rows), self._lengths[rows]

    def join(self, other: "RecurrentSession") -> None:
        self._memory = self._memory.join(other._memory)
        self._lengths = torch.cat([self._lengths, other._lengths])


def _check(tokens: Tensor, vocabulary: int) -> None:
    check_tokens(tokens, vocabulary)
    if tokens.shape[1] == 0:
        raise ValueError(f"a recurrent network needs something to read: these tokens have shape {tuple(tokens.shape)}")
