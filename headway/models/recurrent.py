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

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config.recurrent import RecurrentConfig
from headway.models.gated import Alignment, Cell, DeepOutput, Encoder, Memory, linear
from headway.models.language import check_tokens
from headway.models.session import last_real
from headway.nn.embedding import embedding
from headway.nn.held import check_rows
from headway.nn.quarantine import zero_padding


class Recurrent(nn.Module):
    """Source and target in, logits of the target's next token out.

    >>> model = Recurrent(RecurrentConfig(source_vocabulary=7, vocabulary=11, width=3, hidden=5))
    >>> model(torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5]])).shape
    torch.Size([1, 2, 11])
    """

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
        source_keep: Bool[Tensor, "B M"] | None = None,
        target_keep: Bool[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L V"]:
        """The logits of what follows each token of the target; `keep` True = a real token, anywhere in its row."""
        return self.logits(self.read(target, self.encode(source, keep=source_keep), keep=target_keep))

    def encode(self, source: Int[Tensor, "B M"], *, keep: Bool[Tensor, "B M"] | None = None) -> Memory:
        """What the decoder starts from."""
        _check(source, self.config.source_vocabulary)
        keep = torch.ones_like(source, dtype=torch.bool) if keep is None else keep
        annotations, last = self.encoder(source, keep)
        return Memory(annotations, self.alignment.key(annotations), keep, torch.tanh(self.start(last)))

    def read(
        self, tokens: Int[Tensor, "B L"], memory: Memory, *, keep: Bool[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B L T"]:
        """The maxout layer at each token of the target."""
        return self.advance(tokens, memory, keep=keep)[0]

    def advance(
        self, tokens: Int[Tensor, "B L"], memory: Memory, *, keep: Bool[Tensor, "B L"] | None = None
    ) -> tuple[Float[Tensor, "B L T"], Memory]:
        """The same, and what the decoder goes on from after each row's last real token."""
        _check(tokens, self.config.vocabulary)
        keep = torch.ones_like(tokens, dtype=torch.bool) if keep is None else keep
        x = zero_padding(self.tokens(tokens), keep)
        states, contexts = [], []
        for given, real in zip(self.cell.input(x).unbind(1), keep.unbind(1), strict=True):
            context = self.alignment(memory)
            state = torch.where(real[:, None], self.cell(given, memory.state, context), memory.state)
            memory = replace(memory, state=state)
            states.append(state)
            contexts.append(context)
        return self.deep(torch.stack(states, 1), x, torch.stack(contexts, 1)), memory

    def logits(self, hidden: Float[Tensor, "*b T"]) -> Float[Tensor, "*b V"]:
        return self.head(hidden)

    def session(self, source: Int[Tensor, "B M"], *, keep: Bool[Tensor, "B M"] | None = None) -> "Following":
        """Targets of these sources, of which nothing is read yet: the first read is the start token."""
        return Following(self, source, keep)


class Following:
    """A session of a recurrent encoder-decoder: its cache is one state a row, however much was read."""

    @torch.no_grad()
    def __init__(self, model: Recurrent, source: Int[Tensor, "B M"], keep: Bool[Tensor, "B M"] | None) -> None:
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

    def join(self, other: "Following") -> None:
        self._memory = self._memory.join(other._memory)
        self._lengths = torch.cat([self._lengths, other._lengths])


def _check(tokens: Tensor, vocabulary: int) -> None:
    check_tokens(tokens, vocabulary)
    if tokens.shape[1] == 0:
        raise ValueError(f"a recurrent network needs something to read: these tokens have shape {tuple(tokens.shape)}")
