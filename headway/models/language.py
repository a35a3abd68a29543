"""A language model: embed, stack, head.

x = scale · tokens[t] + positions[p]        h = stack(x)        logits = h · Wᵀ, with W the embedding itself where tied
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config import LanguageConfig
from headway.config.text import DecoderConfig
from headway.models.model import Model
from headway.models.sessions import CachedSession, RereadSession, RestartingSession, Session
from headway.nn.block import Stack
from headway.nn.cache import BlockCache
from headway.nn.context import Context, as_keep, begin, check_tokens, run_guarded, with_padding
from headway.nn.layers import Linear, embedding
from headway.nn.positions import make_positions
from headway.nn.quantized import QuantizedLinear, float_weight
from headway.ops.linear import linear
from headway.ops.loss import LinearHead, linear_cross_entropy, next_targets
from headway.ops.mask import Mask


class Decoder(Model):
    """Tokens in, the vectors of a causal stack out: what a language model and a classifier share."""

    config: Any

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        c = self.config = config
        width, narrow = c.stack.block.width, c.embedding_width
        self.tokens = embedding(c.vocabulary, narrow)
        self.project_in = Linear(narrow, width, bias=False) if narrow != width else None
        self.positions = make_positions(c.positions, c.length, width, offset=c.offset)
        self.dropout = nn.Dropout(c.stack.block.dropout)
        self.stack = Stack(c.stack)
        self.project_out = Linear(c.stack.block.output_width, narrow, bias=False) if narrow != width else None

    def hidden_states(
        self,
        tokens: Int[Tensor, "B L"],
        *,
        keep: Tensor | None = None,
        positions: Int[Tensor, "b L"] | None = None,
        mask: Mask | None = None,
        caches: list[BlockCache] | None = None,
    ) -> Float[Tensor, "B L D"]:
        """The last layer's vectors, after the final norm; with caches, of tokens that follow what these hold."""
        check_tokens(tokens, self.config.vocabulary)
        keep, own = as_keep(keep, tokens), None if caches is None else caches[0].own
        x, context = begin(self.tokens(tokens), Context(with_padding(mask, keep), positions), own)
        places = None
        if self.positions is not None:
            places = context.table_positions(tokens.shape[1], own, tokens.device)
        return run_guarded(
            lambda guard: self._layers(x, places, context.under(guard), caches),
            () if caches is None else [part for cache in caches for part in cache.parts],
        )

    def _layers(
        self,
        x: Float[Tensor, "B L E"],
        places: Int[Tensor, "b L"] | None,
        context: Context,
        caches: list[BlockCache] | None,
    ) -> Float[Tensor, "B L O"]:
        """From the words' vectors to those of the last layer."""
        scale = self.config.embedding_scale
        x = x if self.project_in is None else self.project_in(x)
        # Rounded to the dtype of the weights, as Gemma was trained: in bfloat16 its √3072 is 55.5.
        x = x if scale == 1.0 else x * torch.tensor(scale, dtype=x.dtype, device=x.device)
        if self.positions is not None:
            x = self.positions(x, places)
        hidden = self.stack(self.dropout(x), context, caches)
        return hidden if self.project_out is None else self.project_out(hidden)


class Language(Decoder):
    """Tokens in, logits of the next token out (GPT-2: Radford et al. 2019; Llama: arXiv:2302.13971)."""

    config: LanguageConfig

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__(config)
        c = self.config
        own = None if c.tied else nn.Linear(c.embedding_width, c.vocabulary, bias=False)
        self.head: nn.Linear | QuantizedLinear | None = own

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        *,
        keep: Tensor | None = None,
        positions: Int[Tensor, "b L"] | None = None,
        mask: Mask | None = None,
        attention_mask: Tensor | None = None,
    ) -> Float[Tensor, "B L V"]:
        """The logits of what follows each token; `keep` (also attention_mask) True = a real token, `mask` any further
        rule."""
        keep = as_keep(keep, tokens, attention_mask)
        return self.logits(self.hidden_states(tokens, keep=keep, positions=positions, mask=mask))

    def logits(self, hidden: Float[Tensor, "*b D"]) -> Float[Tensor, "*b V"]:
        scale, cap = self.config.head_scale, self.config.logit_softcap
        hidden = hidden if scale == 1.0 else hidden * scale
        found = self.head(hidden) if isinstance(self.head, QuantizedLinear) else linear(hidden, self.output_weight)
        return found if cap is None else cap * torch.tanh(found / cap)

    @property
    def output_weight(self) -> Float[Tensor, "V D"]:
        return self.tokens.weight if self.head is None else float_weight(self.head, self.tokens.weight.dtype)

    def cross_entropy(
        self, hidden: Float[Tensor, "B L D"], targets: Int[Tensor, "B L"], *, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Σ -log p(target), without holding all logits at once, and how many targets are the likeliest token."""
        return linear_cross_entropy(
            hidden.flatten(0, 1), self.output_weight, targets.flatten(), scale=self.config.head_scale,
            softcap=self.config.logit_softcap, smoothing=smoothing,
        )  # fmt: skip

    def head_on(self, hidden: Float[Tensor, "N D"]) -> LinearHead:
        """What gives the logits of these vectors, for functions that hold a few of them at a time."""
        return LinearHead(hidden, self.output_weight, self.config.head_scale, self.config.logit_softcap)

    def loss(
        self,
        tokens: Int[Tensor, "B L"],
        targets: Int[Tensor, "B L"] | None = None,
        *,
        keep: Tensor | None = None,
        smoothing: float = 0.0,
    ) -> Float[Tensor, ""]:
        """The mean of -log p over the tokens that follow; `targets`, where given, stand for them (-100: not asked)."""
        keep = as_keep(keep, tokens)
        hidden = self.hidden_states(tokens, keep=keep)
        if targets is None:
            hidden, targets = hidden[:, :-1], next_targets(tokens, keep)
        total, _ = self.cross_entropy(hidden, targets, smoothing=smoothing)
        return total / (targets >= 0).sum()

    def session(self, *, capacity: int | None = None, cache: bool = True) -> Session:
        """An empty session; `capacity` tokens a row are reserved at once, so that nothing is ever copied to make room.

        cache=False reads everything again for each token.
        """
        if not cache:
            return RereadSession(self, self.config.length)

        def cached() -> CachedSession:
            return CachedSession(self, self.stack.new_caches(capacity=capacity), self.config.length)

        stack = self.config.stack
        return cached() if stack.rotation_changes_after is None else RestartingSession(cached, stack.rotation_key)
