"""A masked-word model, BERT: embed, norm, stack, and heads for what it is for (arXiv:1810.04805).

x = norm(tokens[t] + positions[p] + types[s])        h = stack(x)        pooled = tanh(h₀ W + b)
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config.text import MaskedConfig
from headway.models.model import Model
from headway.nn.block import Stack
from headway.nn.context import Context, as_keep, begin, check_tokens, run_guarded, with_padding
from headway.nn.layers import embedding, make_norm
from headway.nn.positions import make_positions
from headway.ops.activation import find_activation
from headway.ops.loss import IGNORED, cross_entropy_sum, linear_cross_entropy
from headway.ops.mask import Mask
from headway.ops.values import readable


class Masked(Model):
    """A text in; its vectors, or what the heads make of them, out.

    >>> from headway.presets.bert import bert
    >>> model = Masked(bert(width=12, heads=3, layers=2, hidden=20, vocabulary=7, length=5, classes=2))
    >>> model(torch.zeros(3, 5, dtype=torch.long)).shape
    torch.Size([3, 2])
    """

    config: MaskedConfig

    def __init__(self, config: MaskedConfig) -> None:
        super().__init__()
        c = self.config = config
        block = c.stack.block
        narrow = c.embedding_width
        self.tokens = embedding(c.vocabulary, narrow)
        self.positions = make_positions(c.positions, c.length, narrow, offset=c.offset)
        self.types = embedding(c.types, narrow) if c.types else None
        self.norm = make_norm(block.norm if c.embedding_norm else "none", narrow, eps=c.eps)
        self.dropout = nn.Dropout(block.dropout)
        self.project = nn.Linear(narrow, block.width) if narrow != block.width else None
        self.stack = Stack(c.stack)
        width = block.output_width
        self.pooler = nn.Linear(width, width, bias=c.pooler_bias) if c.pooler else None
        self.pooler_norm = make_norm(block.norm, width, eps=c.eps) if c.pooler and c.pooler_norm else None
        self._pooler_activation = find_activation(c.pooler_activation)
        self.word_head = WordHead(c) if c.words else None
        self.adjacent_head = nn.Linear(width, 2) if c.adjacent else None
        self.inverted_head = nn.Linear(width, 2) if c.inverted else None
        self.inference_head = nn.Linear(width, c.inference) if c.inference else None
        self.class_head = nn.Linear(width, c.classes) if c.classes else None
        self.token_head = nn.Linear(width, c.token_classes) if c.token_classes else None
        self.answer_head = nn.Linear(width, 2) if c.answers else None
        self.replaced_head = ReplacedHead(c) if c.replaced else None

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        *,
        keep: Tensor | None = None,
        types: Int[Tensor, "#B L"] | None = None,
        positions: Int[Tensor, "#B L"] | None = None,
        mask: Mask | None = None,
        attention_mask: Tensor | None = None,
    ) -> Float[Tensor, "B *L O"]:
        """What the model is for: classes (B C), else classes of tokens (B L C), else where an answer begins and ends
        (B L 2), else words (B L V), else which tokens were replaced (B L 1), else what its first head says of two
        sentences (adjacent, inverted, inference), else the vectors (B L D)."""
        keep = as_keep(keep, tokens, attention_mask)
        hidden = self.hidden_states(tokens, keep=keep, types=types, positions=positions, mask=mask)
        if self.class_head is not None:
            return self.classify(hidden, keep)
        if self.token_head is not None:
            return self.classify_tokens(hidden)
        if self.answer_head is not None:
            return self.answers(hidden)
        if self.word_head is not None:
            return self.words(hidden)
        if self.replaced_head is not None:
            return self.replaced(hidden)
        if self.adjacent_head is not None:
            return self.adjacent(hidden, keep)
        if self.inverted_head is not None:
            return self.inverted(hidden, keep)
        return hidden if self.inference_head is None else self.inference(hidden, keep)

    def hidden_states(
        self,
        tokens: Int[Tensor, "B L"],
        *,
        keep: Tensor | None = None,
        types: Int[Tensor, "#B L"] | None = None,
        positions: Int[Tensor, "#B L"] | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "B L D"]:
        """The last layer's vectors; `keep` True = a real token, `types` the sentence of each token (0, 1, …).

        `mask` is any further rule: with `segments(...)` and positions of their own, several texts share one row.
        """
        check_tokens(tokens, self.config.vocabulary)
        keep = as_keep(keep, tokens)
        x = self._embed(tokens, types)
        x, context = begin(x, Context(with_padding(mask, keep), positions))
        if self.positions is not None:
            x = self.positions(x, context.table_positions(tokens.shape[1], None, tokens.device))
        x = self.norm(x)
        return run_guarded(lambda guard: self.stack(self._enter(x), context.under(guard)))

    def _enter(self, x: Float[Tensor, "B L E"]) -> Float[Tensor, "B L D"]:
        """What the stack reads of an embedding."""
        x = self.dropout(x)
        return x if self.project is None else self.project(x)

    def pooled(self, hidden: Float[Tensor, "B L D"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B D"]:
        """tanh (or another curve) of a linear map of each row's vector at its first real token, or of their mean."""
        _present(self.pooler, "pooler", "pooler=True")
        return self._map(first_real(hidden, keep) if self.config.pooler_over == "first" else mean_real(hidden, keep))

    def _map(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """What the pooler makes of a vector."""
        x = self._pooler_activation(_present(self.pooler, "pooler", "pooler=True")(x))
        return x if self.pooler_norm is None else self.pooler_norm(x)

    def _of_tokens(self, hidden: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """What heads of tokens read."""
        return self._map(hidden) if self.config.pooler_tokens else hidden

    def words(self, hidden: Float[Tensor, "*b D"]) -> Float[Tensor, "*b V"]:
        """The logits of the word at each place; the output map is the embedding itself."""
        return _present(self.word_head, "masked-word head", "words=True")(hidden, self.tokens.weight)

    def adjacent(self, hidden: Float[Tensor, "B L D"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B 2"]:
        """Logits of: 0, the second sentence follows the first; 1, it does not."""
        head = _present(self.adjacent_head, "next-sentence head", "adjacent=True")
        return head(self.pooled(hidden, keep))

    def inverted(self, hidden: Float[Tensor, "B L D"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B 2"]:
        """Logits of: 0, the second sentence is a different one; 1, it is the first in another order."""
        head = _present(self.inverted_head, "inversion head", "inverted=True")
        return head(self.pooled(hidden, keep))

    def inference(
        self, hidden: Float[Tensor, "B L D"], keep: Bool[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B C"]:
        """The logits of whether the second sentence follows from the first, in as many classes as the data has."""
        head = _present(self.inference_head, "inference head", "inference=2, or more")
        return head(self.pooled(hidden, keep))

    def classify(self, hidden: Float[Tensor, "B L D"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B C"]:
        """The logits of the classes of each row's text."""
        head = _present(self.class_head, "classifier", "classes=2, or more")
        return head(self.dropout(self.pooled(hidden, keep)))

    def classify_tokens(self, hidden: Float[Tensor, "B L D"]) -> Float[Tensor, "B L C"]:
        """The logits of the classes of each token."""
        return _present(self.token_head, "classifier of tokens", "token_classes=2, or more")(
            self.dropout(self._of_tokens(hidden))
        )

    def answers(self, hidden: Float[Tensor, "B L D"]) -> Float[Tensor, "B L 2"]:
        """The logits of: an answer begins at this token; it ends there."""
        return _present(self.answer_head, "head for answers", "answers=True")(self._of_tokens(hidden))

    def replaced(self, hidden: Float[Tensor, "B L D"]) -> Float[Tensor, "B L 1"]:
        """The logit of: this token stands in the place of another."""
        return _present(self.replaced_head, "head for replaced tokens", "replaced=True")(hidden)

    def word_loss(
        self, hidden: Float[Tensor, "B L D"], words: Int[Tensor, "B L"], *, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Σ -log p of the words asked for (-100: not asked), and how many are right; no others go through the head."""
        asked, head = words != IGNORED, self.word_head
        if head is None:
            raise ValueError("this model has no masked-word head: its configuration would need words=True")
        features = head.features(hidden[asked])
        return linear_cross_entropy(features, self.tokens.weight, words[asked], bias=head.bias, smoothing=smoothing)

    def loss(
        self,
        tokens: Int[Tensor, "B L"],
        *,
        words: Int[Tensor, "B L"] | None = None,
        labels: Int[Tensor, " B"] | None = None,
        adjacent: Int[Tensor, " B"] | None = None,
        inverted: Int[Tensor, " B"] | None = None,
        inference: Int[Tensor, " B"] | None = None,
        token_labels: Int[Tensor, "B L"] | None = None,
        spans: Int[Tensor, "B 2"] | None = None,
        keep: Tensor | None = None,
        types: Int[Tensor, "#B L"] | None = None,
        smoothing: float = 0.0,
    ) -> Float[Tensor, ""]:
        """The mean of -log p for each head that has answers, added up; -100 is an answer that nobody asks for.

        `spans` are the tokens at which the answer to a question begins and ends.
        """
        keep = as_keep(keep, tokens)
        hidden = self.hidden_states(tokens, keep=keep, types=types)
        asked = {self.classify: labels, self.adjacent: adjacent, self.inverted: inverted, self.inference: inference}
        found = [
            cross_entropy_sum(head(hidden, keep), right, smoothing=smoothing)[0] / (right >= 0).sum()
            for head, right in asked.items()
            if right is not None
        ]
        if words is not None:
            found.append(self.word_loss(hidden, words, smoothing=smoothing)[0] / (words >= 0).sum())
        if token_labels is not None:
            scores, right = self.classify_tokens(hidden).flatten(0, 1), token_labels.flatten()
            found.append(cross_entropy_sum(scores, right, smoothing=smoothing)[0] / (right >= 0).sum())
        if spans is not None:
            found.append(self.span_loss(hidden, spans, keep))
        if not found:
            raise ValueError(
                "a loss needs answers: words=, labels=, adjacent=, inverted=, inference=, token_labels= or spans="
            )
        return torch.stack(found).sum()

    def span_loss(
        self, hidden: Float[Tensor, "B L D"], spans: Int[Tensor, "B 2"], keep: Bool[Tensor, "B L"] | None = None
    ) -> Float[Tensor, ""]:
        """The mean of -log p of where answers begin and end; none does at padding."""
        places = self.answers(hidden).movedim(2, 1)
        if keep is not None:
            places = places.masked_fill(~keep[:, None], -torch.inf)
        return cross_entropy_sum(places.flatten(0, 1), spans.flatten())[0] / (spans >= 0).sum()

    def told_apart(self, types: Int[Tensor, "B L"]) -> Int[Tensor, "B L"] | None:
        """The sentences that a tokenizer found, where the model tells them apart; RoBERTa and DistilBERT do not."""
        return types if self.config.types > 1 else None

    def _embed(self, tokens: Int[Tensor, "B L"], types: Int[Tensor, "#B L"] | None) -> Float[Tensor, "B L E"]:
        """tokens[t] + types[s], without positions."""
        if self.types is None and types is not None:
            raise ValueError("this model has no table of sentences (types=0): leave types out")
        return self.tokens(tokens) if self.types is None else self.tokens(tokens) + self._sentences(types, tokens)

    def _sentences(self, types: Int[Tensor, "#B L"] | None, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "#B L E"]:
        assert self.types is not None
        if types is None:
            return self.types.weight[0].expand(1, tokens.shape[1], -1)
        if types.ndim != 2 or types.shape[0] not in (1, tokens.shape[0]) or types.shape[1] != tokens.shape[1]:
            raise ValueError(f"types of shape {tuple(types.shape)} do not fit tokens of shape {tuple(tokens.shape)}")
        if types.numel() and readable(types) and not 0 <= int(types.min()) <= int(types.max()) < self.config.types:
            bounds = f"{int(types.min())} to {int(types.max())}"
            raise ValueError(f"types are numbers of sentences from 0 to {self.config.types - 1}, not {bounds}")
        return self.types(types)


class WordHead(nn.Module):
    """logits = norm(act(h W + b)) · Eᵀ + c, with E the embedding of the words."""

    def __init__(self, config: MaskedConfig) -> None:
        super().__init__()
        block = config.stack.block
        self._act = find_activation(config.word_activation)
        self.dense = nn.Linear(block.output_width, config.embedding_width, bias=config.pooler_bias)
        self.norm = make_norm(block.norm, config.embedding_width, eps=config.eps)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))

    def forward(self, hidden: Float[Tensor, "*b D"], embedding: Float[Tensor, "V E"]) -> Float[Tensor, "*b V"]:
        return F.linear(self.features(hidden), embedding, self.bias)

    def features(self, hidden: Float[Tensor, "*b D"]) -> Float[Tensor, "*b E"]:
        """What the words' embeddings are compared with."""
        return self.norm(self._act(self.dense(hidden)))


class ReplacedHead(nn.Module):
    """logit = act(h W + b) · w + c (ELECTRA, arXiv:2003.10555)."""

    def __init__(self, config: MaskedConfig) -> None:
        super().__init__()
        width, feedforward = config.stack.block.output_width, config.stack.block.feedforward
        self._act = find_activation("gelu" if feedforward is None else feedforward.activation)
        self.dense, self.out = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, hidden: Float[Tensor, "*b D"]) -> Float[Tensor, "*b 1"]:
        return self.out(self._act(self.dense(hidden)))


def first_real(hidden: Float[Tensor, "B L D"], keep: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B D"]:
    """Each row's vector at its first real token."""
    if keep is None:
        return hidden[:, 0]
    if readable(keep) and not bool(keep.any(-1).all()):
        raise ValueError("a row of nothing but padding has no first token: leave it out of the batch")
    return hidden[torch.arange(len(hidden), device=hidden.device), keep.int().argmax(-1)]


def mean_real(hidden: Float[Tensor, "B L D"], keep: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B D"]:
    """The mean of each row's vectors at its real tokens."""
    if keep is None:
        return hidden.mean(1)
    if readable(keep) and not bool(keep.any(-1).all()):
        raise ValueError("a row of nothing but padding has no mean: leave it out of the batch")
    return hidden.masked_fill(~keep[..., None], 0.0).sum(1) / keep.sum(1, keepdim=True)


def _present(head: nn.Module | None, name: str, option: str) -> nn.Module:
    if head is None:
        raise ValueError(f"this model has no {name}: its configuration would need {option}")
    return head
