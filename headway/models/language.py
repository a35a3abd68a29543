"""A language model: embed, stack, head.

x = tokens[t] + positions[p]        h = stack(x)        logits = h · Wᵀ, with W the embedding itself where tied
"""

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config import LanguageConfig
from headway.models.model import Model
from headway.models.sessions import CachedSession, RereadSession, Session
from headway.nn.block import Stack
from headway.nn.cache import BlockCache
from headway.nn.context import Context, as_keep, begin, check_tokens, guarded, with_padding
from headway.nn.layers import embedding
from headway.nn.positions import make_positions
from headway.ops.linear import linear
from headway.ops.loss import linear_cross_entropy, next_targets
from headway.ops.mask import Mask


class Language(Model):
    """Tokens in, logits of the next token out (GPT-2: Radford et al. 2019; Llama: arXiv:2302.13971)."""

    config: LanguageConfig

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
        keep: Tensor | None = None,
        positions: Int[Tensor, "b L"] | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "B L V"]:
        """The logits of what follows each token; `keep` True = a real token, `mask` any further rule."""
        return self.logits(self.hidden_states(tokens, keep=keep, positions=positions, mask=mask))

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
        if self.positions is not None:
            x = self.positions(x, context.table_positions(tokens.shape[1], own, tokens.device))
        return guarded(
            lambda guard: self.stack(self.dropout(x), context.under(guard), caches),
            () if caches is None else [part for cache in caches for part in cache.parts],
        )

    def logits(self, hidden: Float[Tensor, "*b D"]) -> Float[Tensor, "*b V"]:
        return linear(hidden, self.output_weight)

    @property
    def output_weight(self) -> Float[Tensor, "V D"]:
        return self.tokens.weight if self.head is None else self.head.weight

    def cross_entropy(
        self, hidden: Float[Tensor, "B L D"], targets: Int[Tensor, "B L"], *, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Σ -log p(target), without holding all logits at once, and how many targets are the likeliest token."""
        return linear_cross_entropy(hidden.flatten(0, 1), self.output_weight, targets.flatten(), smoothing=smoothing)

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
        return CachedSession(self, self.stack.new_caches(capacity=capacity), self.config.length)
