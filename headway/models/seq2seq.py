"""An encoder-decoder: embed and encode a source, embed and decode a target that attends to it, head.

    x = norm(scale · tokens[t] + positions[p])        m = encoder(x)        h = decoder(y, m)        logits = h Wᵀ

The Transformer of arXiv:1706.03762; T5: arXiv:1910.10683; BART: arXiv:1910.13461; Marian: arXiv:1804.00344;
mT5: arXiv:2010.11934; Pegasus: arXiv:1912.08777; mBART: arXiv:2001.08210; M2M-100: arXiv:2010.11125.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config import BlockConfig
from headway.config.text import Seq2SeqConfig
from headway.models.model import Model
from headway.models.sessions import CachedSession, RereadPairSession, Session
from headway.nn.block import Block, Stack
from headway.nn.cache import BlockCache, Cache
from headway.nn.context import Context, as_keep, begin, check_tokens, run_guarded, with_padding
from headway.nn.layers import LearnedPositions, embedding, make_norm
from headway.nn.positions import SinusoidalPositions
from headway.nn.quantized import QuantizedLinear, float_weight
from headway.ops.linear import linear
from headway.ops.loss import linear_cross_entropy, next_targets
from headway.ops.mask import padding
from headway.ops.position import angles_of, sinusoidal
from headway.ops.values import readable


class HalvedPositions(nn.Module):
    """x + sinusoids with all sines in the first half of the channels and all cosines in the second.

    The same numbers as `ops.position.sinusoidal`, in Marian's order (arXiv:1804.00344).

    >>> HalvedPositions(4)(torch.zeros(1, 1, 4), torch.tensor([1])).round(decimals=4)[0, 0].tolist()
    [0.8415, 0.01, 0.5403, 1.0]
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "*b L"]) -> Float[Tensor, "B L D"]:
        table = sinusoidal(positions, width=self.width, dtype=x.dtype)
        return x + torch.cat([table[..., 0::2], table[..., 1::2]], dim=-1)

    def extra_repr(self) -> str:
        return str(self.width)


class TimingPositions(nn.Module):
    """x + sinusoids of the waves 1 to exactly 1/10000, sines first, that begin at position `offset`.

        w_i = 10000^(-i / (D/2 - 1))        p[j] = [sin(w_i (j + offset)) …, cos(w_i (j + offset)) …]

    The timing signal of tensor2tensor (arXiv:1803.07416), which M2M-100 has (arXiv:2010.11125).

    >>> TimingPositions(4, offset=2)(torch.zeros(1, 1, 4), torch.tensor([1])).round(decimals=4)[0, 0].tolist()
    [0.1411, 0.0003, -0.99, 1.0]
    """

    def __init__(self, width: int, *, offset: int) -> None:
        super().__init__()
        self.width, self.offset = width, offset

    def forward(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "*b L"]) -> Float[Tensor, "B L D"]:
        half = self.width // 2
        waves = 10000.0 ** (-torch.arange(half, dtype=torch.float64, device=positions.device) / (half - 1))
        angles = angles_of(positions + self.offset, waves)
        return x + torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.width}, offset={self.offset}"


class Entrance(nn.Module):
    """What a token's vector passes before the first layer: norm(scale · x + position), where the model has them."""

    def __init__(self, config: Seq2SeqConfig, block: BlockConfig) -> None:
        super().__init__()
        self.scale, self.length = config.embedding_scale, config.length
        self.positions = _positions(config, block.width)
        self.norm = make_norm(block.norm if config.embedding_norm else "none", block.width, eps=block.eps)
        self.dropout = nn.Dropout(block.dropout)

    def forward(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "b L"]) -> Float[Tensor, "B L D"]:
        x = x if self.scale == 1.0 else x * self.scale
        if self.positions is not None:
            self._check(positions)
            x = self.positions(x, positions)
        return self.dropout(self.norm(x))

    def _check(self, positions: Tensor) -> None:
        known = self.length is not None and positions.numel() and readable(positions)
        if known and (last := int(positions.max())) >= self.length:  # type: ignore[operator]
            raise ValueError(f"this model has {self.length} positions, and the text has a token at position {last}: "
                             f"shorten it to {self.length} tokens")  # fmt: skip


def _positions(config: Seq2SeqConfig, width: int) -> nn.Module | None:
    if config.positions == "learned":
        assert config.length is not None
        return LearnedPositions(config.length, width, offset=config.offset)
    if config.positions == "sinusoidal":
        return SinusoidalPositions(width)
    if config.positions == "timing":
        return TimingPositions(width, offset=config.offset)
    return HalvedPositions(width) if config.positions == "halves" else None


class Seq2Seq(Model):
    """Source and target in, logits of the target's next token out."""

    config: Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        c = self.config = config
        width = c.decoder.block.width
        self.tokens = embedding(c.vocabulary, c.encoder.block.width)
        self.target_tokens = None if c.target_vocabulary is None else embedding(c.target_vocabulary, width)
        self.source_entrance, self.target_entrance = Entrance(c, c.encoder.block), Entrance(c, c.decoder.block)
        self.encoder, self.decoder = Stack(c.encoder), Stack(c.decoder)
        own = None if c.tied else nn.Linear(c.decoder.block.output_width, c.outputs, bias=False)
        self.head: nn.Linear | QuantizedLinear | None = own
        self.head_bias = nn.Parameter(torch.zeros(1, c.outputs)) if c.head_bias else None

    @property
    def positions(self) -> nn.Module | None:
        """Of the target's tokens."""
        return self.target_entrance.positions

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
        """The logits of what follows each token of the target; `keep` (also attention_mask) True = a real token."""
        source_keep = as_keep(source_keep, source, attention_mask)
        target_keep = as_keep(target_keep, target, decoder_attention_mask)
        memory = self.encode(source, keep=source_keep)
        return self.logits(self.hidden_states(target, memory, source_keep=source_keep, keep=target_keep))

    def encode(self, source: Int[Tensor, "B M"], *, keep: Tensor | None = None) -> Float[Tensor, "B M E"]:
        """The encoder's vectors, after its final norm; those of padding mean nothing."""
        check_tokens(source, self.config.vocabulary)
        keep = as_keep(keep, source)
        x, context = begin(self.tokens(source), Context(with_padding(None, keep)))
        x = self.source_entrance(x, context.table_positions(source.shape[1], None, source.device))
        if self._knows_differences_only():
            # The same positions for all rows cost the least.
            context = Context(context.mask, keep=keep)
        return run_guarded(lambda guard: self.encoder(x, context.under(guard)))

    def _knows_differences_only(self) -> bool:
        """Whether the encoder asks how far apart tokens stand, and never where: a bias alone."""
        blocks = self.encoder.blocks
        patterns = any(block.attention.needs_positions for block in blocks if isinstance(block, Block))
        rotary = any(block.attention.rotary is not None for block in self.config.encoder.pattern)
        return self.encoder.bias is not None and not patterns and not rotary

    def hidden_states(
        self,
        tokens: Int[Tensor, "B L"],
        memory: Float[Tensor, "B M E"] | None = None,
        *,
        source_keep: Tensor | None = None,
        keep: Tensor | None = None,
        positions: Int[Tensor, "b L"] | None = None,
        caches: list[BlockCache] | None = None,
    ) -> Float[Tensor, "B L D"]:
        """The decoder's vectors, after its final norm; caches that hold the source need no `memory`."""
        check_tokens(tokens, self.config.outputs)
        keep, own = as_keep(keep, tokens), None if caches is None else caches[0].own
        source_keep = source_keep if memory is None else as_keep(source_keep, memory)
        embed = self.tokens if self.target_tokens is None else self.target_tokens
        given = Context(with_padding(None, keep), positions, None, memory, with_padding(None, source_keep))
        x, context = begin(embed(tokens), given, own)
        x = self.target_entrance(x, context.table_positions(tokens.shape[1], own, tokens.device))
        return run_guarded(
            lambda guard: self.decoder(x, context.under(guard), caches),
            () if caches is None else [part for cache in caches for part in cache.parts],
        )

    def logits(self, hidden: Float[Tensor, "*b D"]) -> Float[Tensor, "*b V"]:
        if self.config.head_scale != 1.0:
            hidden = hidden * self.config.head_scale
        bias = None if self.head_bias is None else self.head_bias[0]
        if isinstance(self.head, QuantizedLinear):
            return self.head(hidden) if bias is None else self.head(hidden) + bias
        return linear(hidden, self.output_weight, bias)

    @property
    def output_weight(self) -> Float[Tensor, "V D"]:
        embed = self.tokens if self.target_tokens is None else self.target_tokens
        return float_weight(embed if self.head is None else self.head, embed.weight.dtype)

    def cross_entropy(
        self, hidden: Float[Tensor, "B L D"], targets: Int[Tensor, "B L"], *, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Σ -log p(target), without holding all logits at once, and how many targets are the likeliest token."""
        return linear_cross_entropy(
            hidden.flatten(0, 1),
            self.output_weight,
            targets.flatten(),
            bias=None if self.head_bias is None else self.head_bias[0],
            scale=self.config.head_scale,
            smoothing=smoothing,
        )

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
        memory = self.encode(source, keep=source_keep)
        hidden = self.hidden_states(target, memory, source_keep=source_keep, keep=keep)
        targets = next_targets(target, keep)
        return self.cross_entropy(hidden[:, :-1], targets, smoothing=smoothing)[0] / (targets >= 0).sum()

    @torch.no_grad()
    def session(
        self,
        source: Int[Tensor, "B M"],
        *,
        keep: Tensor | None = None,
        capacity: int | None = None,
        cache: bool = True,
    ) -> Session:
        """Targets of these sources, of which nothing is read yet: the first read is the start token.

        `capacity` tokens a row are reserved at once; cache=False reads everything again for each token.
        """
        keep = as_keep(keep, source)
        if not cache:
            return RereadPairSession(self, source, keep)
        caches = self.decoder.new_caches(capacity=capacity)
        if len(source):
            self._take_in(source, keep, [one.cross for one in caches])
        return CachedSession(self, caches, self.config.length)

    def _take_in(self, source: Tensor, keep: Tensor | None, caches: list[Cache | None]) -> None:
        """Keys and values of the source, made once."""
        memory, mask = self.encode(source, keep=keep), None if keep is None else padding(keep=keep)
        nothing = memory.new_zeros(len(source), 0, self.config.decoder.block.width)
        for block, cache in zip(self.decoder.blocks, caches, strict=True):
            assert isinstance(block, Block) and block.cross is not None
            block.cross(nothing, memory, mask=mask, cache=cache)  # nobody asks anything yet
