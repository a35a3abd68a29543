"""The parts of Bahdanau's encoder-decoder (arXiv:1409.0473, appendix A): cell, encoder, alignment, deep output."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config import Additive
from headway.config.recurrent import RecurrentConfig
from headway.nn.attention import Core
from headway.nn.embedding import embedding
from headway.nn.quarantine import Projection, zero_padding
from headway.ops.attention import build
from headway.ops.mask import allowed


def linear(inputs: int, outputs: int) -> Projection:
    return Projection(inputs, outputs, bias=False)


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
class Memory:
    """What a decoder goes on from: the annotations of its sources, U_a of them, and its state."""

    annotations: Float[Tensor, "B M A"]
    keys: Float[Tensor, "B M K"]
    keep: Bool[Tensor, "B M"]
    state: Float[Tensor, "B h"]

    def rows(self, rows: Int[Tensor, " R"]) -> "Memory":
        return Memory(self.annotations[rows], self.keys[rows], self.keep[rows], self.state[rows])

    def join(self, other: "Memory") -> "Memory":
        """The rows of both; the shorter sources are padded on the right."""
        length = max(self.keep.shape[1], other.keep.shape[1])
        a, b = self._padded(length), other._padded(length)
        return Memory(
            torch.cat([a.annotations, b.annotations]),
            torch.cat([a.keys, b.keys]),
            torch.cat([a.keep, b.keep]),
            torch.cat([a.state, b.state]),
        )

    def _padded(self, length: int) -> "Memory":
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
        self.core = Core()

    def forward(self, memory: Memory) -> Float[Tensor, "B A"]:
        q, k, v = self.query(memory.state)[:, None, None], memory.keys[:, None], memory.annotations[:, None]
        # A table rather than padding(): one tile then serves the whole batch, and what padding holds is 0 already.
        mask = allowed(memory.keep[:, None, None])
        call = build(q, k, v, mask=mask, mechanism=Additive(), vector=self.vector, options={})
        return self.core(call)[:, 0, 0]


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
