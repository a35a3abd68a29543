"""A classifier on a decoder: embed, stack, and a linear map of each text's last vector."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config.text import ClassifierConfig
from headway.models.language import Decoder
from headway.models.sessions import last_real
from headway.nn.context import as_keep
from headway.ops.loss import cross_entropy_sum
from headway.ops.mask import Mask


class DecoderClassifier(Decoder):
    """Tokens in, the logits of each text's classes out.

    >>> from headway.presets.gpt2 import gpt2
    >>> tiny = gpt2(width=12, heads=3, layers=2, vocabulary=7, length=5)
    >>> DecoderClassifier(ClassifierConfig.on(tiny, classes=3))(torch.zeros(2, 5, dtype=torch.long)).shape
    torch.Size([2, 3])
    """

    config: ClassifierConfig

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__(config)
        self.class_head = nn.Linear(config.embedding_width, config.classes, bias=False)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        *,
        keep: Tensor | None = None,
        types: Int[Tensor, "#B L"] | None = None,
        positions: Int[Tensor, "b L"] | None = None,
        mask: Mask | None = None,
        attention_mask: Tensor | None = None,
    ) -> Float[Tensor, "B C"]:
        """The logits of the classes; `keep` True = a real token."""
        if types is not None:
            raise ValueError("a decoder has no table of sentences: leave types out")
        keep = as_keep(keep, tokens, attention_mask)
        return self.classify(self.hidden_states(tokens, keep=keep, positions=positions, mask=mask), tokens, keep)

    def told_apart(self, types: Any) -> None:
        """What it reads of the numbers of sentences that a tokenizer gives: nothing."""

    def classify(
        self,
        hidden: Float[Tensor, "B L D"],
        tokens: Int[Tensor, "B L"],
        keep: Bool[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B C"]:
        """The logits of the classes of each row's text."""
        return self.class_head(last_real(hidden, self._words(tokens, keep)))

    def _words(self, tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None) -> Bool[Tensor, "B L"] | None:
        """The tokens of which the last is read.

        Also where nothing is padding, transformers reads the last token that is not `special.pad`: a text that ends in
        it, as many do where it is the end token too, is read at the token before. A text of nothing else, at its first.
        """
        if (pad := self.config.special.pad) is None:
            return keep
        real = torch.ones_like(tokens, dtype=torch.bool) if keep is None else keep
        words = real & (tokens != pad)
        first = real & (real.cumsum(-1) == 1)
        return words | (first & ~words.any(-1, keepdim=True))

    def loss(
        self,
        tokens: Int[Tensor, "B L"],
        labels: Int[Tensor, " B"],
        *,
        keep: Tensor | None = None,
        smoothing: float = 0.0,
    ) -> Float[Tensor, ""]:
        """The mean of -log p over the right classes."""
        total, _ = cross_entropy_sum(self(tokens, keep=keep), labels, smoothing=smoothing)
        return total / len(labels)
