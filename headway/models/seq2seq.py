"""An encoder-decoder: embed and encode a source, embed and decode a target that attends to it, head.

    x = norm(scale · tokens[t] + positions[p])        m = encoder(x)        h = decoder(y, m)        logits = h Wᵀ

The Transformer of arXiv:1706.03762; T5: arXiv:1910.10683; BART: arXiv:1910.13461; Marian: arXiv:1804.00344.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config import Softmax, StackConfig
from headway.config.seq2seq import Seq2SeqConfig
from headway.models.entrance import Entrance
from headway.models.language import check_tokens, with_padding
from headway.models.session import Session
from headway.models.shared import Shared
from headway.nn.block import BlockState, Context
from headway.nn.embedding import RelativeBias, embedding
from headway.nn.places import places
from headway.nn.stack import Stack
from headway.ops.linear import linear


class Seq2Seq(nn.Module):
    """Source and target in, logits of the target's next token out."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        c = self.config = config
        width = c.decoder.block.width
        self.tokens = embedding(c.vocabulary, c.encoder.block.width)
        self.target_tokens = None if c.target_vocabulary is None else embedding(c.target_vocabulary, width)
        self.source_entrance, self.target_entrance = Entrance(c, c.encoder.block), Entrance(c, c.decoder.block)
        self.source_bias = _bias(c, c.encoder, bidirectional=True)
        self.target_bias = _bias(c, c.decoder, bidirectional=False)
        self.encoder, self.decoder = Stack(c.encoder), Stack(c.decoder)
        self.head = None if c.tied else nn.Linear(c.decoder.block.output_width, c.outputs, bias=False)
        self.head_bias = nn.Parameter(torch.zeros(1, c.outputs)) if c.head_bias else None

    def forward(
        self,
        source: Int[Tensor, "B M"],
        target: Int[Tensor, "B L"],
        *,
        source_keep: Bool[Tensor, "B M"] | None = None,
        target_keep: Bool[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L V"]:
        """The logits of what follows each token of the target; `keep` True = a real token."""
        memory = self.encode(source, keep=source_keep)
        return self.logits(self.read(target, memory, source_keep=source_keep, keep=target_keep))

    def encode(self, source: Int[Tensor, "B M"], *, keep: Bool[Tensor, "B M"] | None = None) -> Float[Tensor, "B M E"]:
        """The encoder's vectors, after its final norm; those of padding mean nothing."""
        check_tokens(source, self.config.vocabulary)
        positions = places(source, keep)
        x = self.source_entrance(self.tokens(source), positions, keep)
        bias = None if self.source_bias is None else Shared(self.source_bias())
        # A bias knows differences only, and the same positions for all rows cost the least.
        alone = bias is not None and isinstance(self.config.encoder.block.attention.mechanism, Softmax)
        positions = places(source) if alone else positions
        return self.encoder(x, Context(with_padding(None, keep), positions, bias))

    def read(
        self,
        tokens: Int[Tensor, "B L"],
        memory: Float[Tensor, "B M E"] | None = None,
        *,
        source_keep: Bool[Tensor, "B M"] | None = None,
        keep: Bool[Tensor, "B L"] | None = None,
        positions: Int[Tensor, "b L"] | None = None,
        states: list[BlockState] | None = None,
    ) -> Float[Tensor, "B L D"]:
        """The decoder's vectors, after its final norm; states that hold the source need no `memory`."""
        check_tokens(tokens, self.config.outputs)
        step = states is not None and memory is None and tokens.shape[1] == 1 and positions is None and keep is None
        if positions is None:
            positions = places(tokens, keep, None if states is None else states[0].own)
        embed = self.tokens if self.target_tokens is None else self.target_tokens
        x = self.target_entrance(embed(tokens), positions, keep)
        bias = None if self.target_bias is None else Shared(self.target_bias())
        context = Context(with_padding(None, keep), positions, bias, memory, with_padding(None, source_keep), step=step)
        return self.decoder(x, context, states)

    def logits(self, hidden: Float[Tensor, "*b D"]) -> Float[Tensor, "*b V"]:
        if self.config.head_scale != 1.0:
            hidden = hidden * self.config.head_scale
        bias = None if self.head_bias is None else self.head_bias[0]
        embed = self.tokens if self.target_tokens is None else self.target_tokens
        return linear(hidden, (embed if self.head is None else self.head).weight, bias)

    @torch.no_grad()
    def session(
        self,
        source: Int[Tensor, "B M"],
        *,
        keep: Bool[Tensor, "B M"] | None = None,
        capacity: int | None = None,
        cache: bool = True,
    ) -> Session:
        """Targets of these sources, of which nothing is read yet: the first read is the start token.

        `capacity` tokens a row are reserved at once; cache=False reads everything again for each token.
        """
        from headway.models.decoding import Anew, Decoding  # which speak of this class

        return Decoding(self, source, keep, capacity) if cache else Anew(self, source, keep)


def _bias(config: Seq2SeqConfig, stack: StackConfig, *, bidirectional: bool) -> RelativeBias | None:
    r = config.relative
    if r is None:
        return None
    heads = stack.block.attention.heads
    return RelativeBias(heads, buckets=r.buckets, max_distance=r.max_distance, bidirectional=bidirectional)
