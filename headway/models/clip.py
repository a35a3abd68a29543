"""Two towers that give images and texts vectors of one space (CLIP: arXiv:2103.00020; SigLIP: arXiv:2303.15343).

u = unit(P vision(image))        v = unit(Q stack(tokens + positions)[place])        logit = exp(s) · u·v + b
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config.clip import ClipConfig
from headway.models.model import Model
from headway.models.sentence import TOKENS, batches
from headway.models.vit import Vision
from headway.nn.block import Stack
from headway.nn.context import Context, as_keep, begin, check_tokens, run_guarded, with_padding
from headway.nn.layers import LearnedPositions, Linear, embedding
from headway.ops.nonfinite_rows import at_least_float32

START = 2.6592  # ln(1 / 0.07), where CLIP's scale began


class Clip(Model):
    """Images and texts in, how well each image fits each text out.

    >>> from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Special, StackConfig
    >>> from headway.presets.vision import vit
    >>> attention = AttentionConfig(width=12, heads=3, causal=True)
    >>> stack = StackConfig(block=BlockConfig(attention=attention, feedforward=FeedForwardConfig(hidden=20)), layers=2)
    >>> config = ClipConfig(vision=vit(width=10, heads=2, layers=1, image=10, patch=5), vocabulary=7, length=5,
    ...                     stack=stack, width=6, special=Special(end=(6,)))
    >>> Clip(config)(torch.zeros(2, 3, 10, 10), torch.zeros(4, 5, dtype=torch.long)).shape
    torch.Size([2, 4])
    """

    config: ClipConfig

    def __init__(self, config: ClipConfig) -> None:
        super().__init__()
        c = self.config = config
        block = c.stack.block
        self.vision = Vision(c.vision)
        self.tokens = embedding(c.vocabulary, block.width)
        self.positions = LearnedPositions(c.length, block.width)
        self.dropout = nn.Dropout(block.dropout)
        self.stack = Stack(c.stack)
        self.image_projection = Linear(c.vision.vector_width, c.width, bias=False) if c.image_projection else None
        self.text_projection = Linear(block.output_width, c.width, bias=c.text_bias)
        self.logit_scale = nn.Parameter(torch.full((1,), START))
        self.logit_bias = nn.Parameter(torch.zeros(1)) if c.objective == "sigmoid" else None

    def forward(
        self, images: Float[Tensor, "I C Y X"], tokens: Int[Tensor, "T L"], *, keep: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Float[Tensor, "I T"]:  # fmt: skip
        """The logits of every image with every text."""
        keep = as_keep(keep, tokens, attention_mask)
        return self.logits(self.image_vectors(images), self.text_vectors(tokens, keep=keep))

    def image_vectors(self, images: Float[Tensor, "I C Y X"]) -> Float[Tensor, "I O"]:
        """One vector of length 1 for each image."""
        found = self.vision(images)
        return F.normalize(found if self.image_projection is None else self.image_projection(found), dim=-1)

    def text_vectors(self, tokens: Int[Tensor, "T L"], *, keep: Tensor | None = None) -> Float[Tensor, "T O"]:
        """One vector of length 1 for each text; `keep` True = a real token."""
        keep = as_keep(keep, tokens)
        hidden = self.hidden_states(tokens, keep=keep)
        found = hidden[torch.arange(len(tokens), device=tokens.device), self._places(tokens, keep)]
        return F.normalize(self.text_projection(found), dim=-1)

    def hidden_states(self, tokens: Int[Tensor, "T L"], *, keep: Tensor | None = None) -> Float[Tensor, "T L D"]:
        """The last layer's vectors of the tokens of texts."""
        check_tokens(tokens, self.config.vocabulary)
        keep = as_keep(keep, tokens)
        x, context = begin(self.tokens(tokens), Context(with_padding(None, keep)))
        x = self.positions(x, context.table_positions(tokens.shape[1], None, tokens.device))
        return run_guarded(lambda guard: self.stack(self.dropout(x), context.under(guard)))

    def _places(self, tokens: Int[Tensor, "T L"], keep: Tensor | None) -> Int[Tensor, " T"]:
        """Of each text the token whose vector stands for it; the last real one where none of those is asked for."""
        real = torch.ones_like(tokens, dtype=torch.bool) if keep is None else keep
        if self.config.pooling == "highest":
            return tokens.masked_fill(~real, -1).argmax(-1)
        last = torch.where(real, torch.arange(tokens.shape[1], device=tokens.device), 0).amax(-1)
        if self.config.pooling == "last":
            return last
        ends = real & (tokens[..., None] == tokens.new_tensor(self.config.special.end)).any(-1)
        return torch.where(ends.any(-1), ends.int().argmax(-1), last)

    def logits(self, images: Float[Tensor, "I O"], texts: Float[Tensor, "T O"]) -> Float[Tensor, "I T"]:
        """How well images fit texts, of vectors of length 1."""
        found = images @ texts.T * self.logit_scale.exp()
        return found if self.logit_bias is None else found + self.logit_bias

    def loss(
        self, images: Float[Tensor, "B C Y X"], tokens: Int[Tensor, "B L"], *, keep: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """Of images and their own texts: the mean of -log p over both ways, or over images of -log σ of every pair."""
        logits = self(images, tokens, keep=keep)
        right = torch.arange(len(logits), device=logits.device)
        if self.config.objective == "softmax":
            return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2
        sign = 2 * torch.eye(len(logits), dtype=logits.dtype, device=logits.device) - 1
        return -F.logsigmoid(sign * logits).sum(-1).mean()

    @torch.no_grad()
    def encode(
        self,
        texts: Sequence[Sequence[int]] | Sequence[str],
        *,
        tokens: int = TOKENS,
        done: Callable[[int], None] | None = None,
    ) -> Float[Tensor, "N O"]:
        """One vector for each text of token numbers or of words, in the order given; about `tokens` are read at once.

        Of a text that is too long its last token stays, which ends it. What a text gets does not depend on the others.
        """
        kept = [self._filled(text) for text in self._numbers(texts)]
        device, dtype = self.tokens.weight.device, at_least_float32(self.tokens.weight.dtype)
        found, finished = torch.empty(len(kept), self.config.width, device=device, dtype=dtype), 0
        for rows in batches([len(text) for text in kept], tokens):
            longest = max(len(kept[row]) for row in rows)
            line = torch.zeros(len(rows), longest, dtype=torch.long, device=device)
            keep = torch.zeros(len(rows), longest, dtype=torch.bool, device=device)
            for place, row in enumerate(rows):
                line[place, : len(kept[row])] = torch.tensor(kept[row])
                keep[place, : len(kept[row])] = True
            found[rows] = self.text_vectors(line, keep=None if bool(keep.all()) else keep).to(dtype)
            finished += len(rows)
            if done is not None:
                done(finished)
        return found

    def _filled(self, text: Sequence[int]) -> list[int]:
        """At most as many tokens as the model reads; as many in every text where the last one counts."""
        limit = self.config.length
        if not text:
            raise ValueError("a text has no tokens, and nothing has no meaning: leave it out")
        kept = list(text) if len(text) <= limit else [*text[: limit - 1], text[-1]]
        if self.config.pooling == "last":
            assert self.config.special.pad is not None
            kept += [self.config.special.pad] * (limit - len(kept))
        return kept

    def _numbers(self, texts: Sequence[Any]) -> Sequence[Sequence[int]]:
        if isinstance(texts, str):
            raise ValueError(f"encode takes a list of texts: encode([{texts[:20]!r}])")
        if not any(isinstance(text, str) for text in texts):
            return texts
        if self.tokenizer is None:
            raise ValueError("this model has no tokenizer to read words with: give texts of token numbers")
        return self.tokenizer.encode_all(list(texts))
