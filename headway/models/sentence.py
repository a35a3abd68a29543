"""A sentence encoder: a text in, one vector out (Sentence-BERT: arXiv:1908.10084).

h = encoder(text)        pooled = mean_i h_i        vector = pooled / |pooled|

Texts are packed one after the other into one row, without padding: each sees itself alone, positions start again in
each, and vectors are pooled over the row by sums of segments.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config.text import SentenceConfig
from headway.models.encoder import Masked
from headway.models.model import Model
from headway.nn.context import as_keep
from headway.ops.activation import find_activation
from headway.ops.mask import packed
from headway.ops.nonfinite_rows import at_least_float32
from headway.ops.values import real_numbers

# Tokens packed into one row: enough to fill the matrix units, few enough that a layer's rows stay near the processor.
TOKENS = 2048


class SentenceEncoder(Model):
    """Texts in, a vector for each out.

    >>> from headway.presets.bert import bert
    >>> encoder = bert(width=12, heads=3, layers=2, hidden=20, vocabulary=7, length=5)
    >>> model = SentenceEncoder(SentenceConfig(encoder=encoder, limit=5)).eval()
    >>> model.encode([[1, 4, 2], [1, 2], [1, 4, 3, 2]]).shape
    torch.Size([3, 12])
    """

    config: SentenceConfig

    def __init__(self, config: SentenceConfig) -> None:
        super().__init__()
        c = self.config = config
        self.encoder = Masked(c.encoder)
        width = c.encoder.stack.block.output_width
        self.dense = None if c.dense is None else nn.Linear(width, c.dense.width, bias=c.dense.bias)

    def forward(
        self, tokens: Int[Tensor, "B L"], *, keep: Tensor | None = None, attention_mask: Tensor | None = None
    ) -> Float[Tensor, "B O"]:
        """One vector a row; `keep` True = a real token. For texts that differ in length, `encode_row` pads nothing."""
        keep = as_keep(keep, tokens, attention_mask)
        hidden = self.encoder.hidden_states(tokens, keep=keep)
        if keep is None:
            return self.pool(hidden.flatten(0, 1), [tokens.shape[1]] * len(tokens))
        return self.pool(hidden[keep], keep.sum(-1).tolist())

    def encode_row(self, tokens: Int[Tensor, " T"], lengths: Sequence[int]) -> Float[Tensor, "N O"]:
        """One vector for each of the texts that stand one after the other in one row, with gradients where wanted."""
        with real_numbers():
            sizes = torch.tensor(lengths, device=tokens.device)
            starts = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
            places, mask = torch.arange(len(starts), device=tokens.device) - starts, packed(lengths)
        hidden = self.encoder.hidden_states(tokens[None], positions=places[None], mask=mask)
        return self.pool(hidden[0], lengths)

    @torch.no_grad()
    def encode(
        self,
        texts: Sequence[Sequence[int]] | Sequence[str],
        *,
        tokens: int = TOKENS,
        done: Callable[[int], None] | None = None,
    ) -> Float[Tensor, "N O"]:
        """One vector for each text of token numbers, in the order given; about `tokens` of them are read at once.

        Texts of words are read with the tokenizer that the model was loaded with. `done` is told from time to time how
        many texts are finished.
        """
        numbers = self._numbers(texts)
        weight, kept = self.encoder.tokens.weight, [self.shortened(text) for text in numbers]
        lengths = [len(text) for text in kept]
        _require_tokens(lengths)
        found = torch.empty(len(kept), self.config.width, device=weight.device, dtype=at_least_float32(weight.dtype))
        finished = 0
        for rows in batches(lengths, tokens):
            line = torch.tensor([number for row in rows for number in kept[row]], device=weight.device)
            found[rows] = self.encode_row(line, [lengths[row] for row in rows])
            finished += len(rows)
            if done is not None:
                done(finished)
        return found

    def _numbers(self, texts: Sequence[Any]) -> Sequence[Sequence[int]]:
        if isinstance(texts, str):
            raise ValueError(f"encode takes a list of texts: encode([{texts[:20]!r}])")
        if not any(isinstance(text, str) for text in texts):
            return texts
        if self.tokenizer is None:
            raise ValueError("this model has no tokenizer to read words with: give texts of token numbers")
        return self.tokenizer.encode_all([self.config.prompt + text for text in texts])

    def shortened(self, text: Sequence[int]) -> Sequence[int]:
        """A text of at most `limit` tokens, its last ones kept."""
        limit, tail = self.config.limit, self.config.tail
        if len(text) <= limit:
            return text
        return [*text[: limit - tail], *text[len(text) - tail :]]

    def pool(self, hidden: Float[Tensor, "T D"], lengths: Sequence[int]) -> Float[Tensor, "N O"]:
        """One vector for each of the texts whose tokens' vectors stand one after the other, in at least float32."""
        _require_tokens(lengths)
        dtype = at_least_float32(hidden.dtype)
        with real_numbers():
            sizes = torch.tensor(lengths, device=hidden.device)
            text = torch.arange(len(lengths), device=hidden.device).repeat_interleave(sizes)
        found = _pooled(self.config.pooling, hidden, sizes, text, dtype)
        if self.dense is not None and self.config.dense is not None:
            curve = find_activation(self.config.dense.activation)
            found = curve(self.dense(found.to(hidden.dtype))).to(dtype)
        return F.normalize(found, dim=-1) if self.config.normalise else found


def _pooled(
    kind: str, hidden: Float[Tensor, "T D"], sizes: Int[Tensor, " N"], text: Int[Tensor, " T"], dtype: torch.dtype
) -> Float[Tensor, "N D"]:
    """Of each text the first vector, the largest of each channel, the mean, or the sum over √length."""
    if kind == "cls":
        return hidden[sizes.cumsum(0) - sizes].to(dtype)
    wide, shape = hidden.to(dtype), (len(sizes), hidden.shape[1])
    if kind == "max":
        return wide.new_full(shape, float("-inf")).scatter_reduce(0, text[:, None].expand_as(wide), wide, "amax")
    total = wide.new_zeros(shape).index_add(0, text, wide)
    return total / (sizes if kind == "mean" else sizes.to(dtype).sqrt())[:, None]


def _require_tokens(lengths: Sequence[int]) -> None:
    if 0 in lengths:
        raise ValueError(f"text {list(lengths).index(0)} has no tokens, and nothing has no meaning: leave it out")


def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Rows of texts, the longest first, each of at most `tokens` tokens together (one text may have more).

    >>> list(batches([2, 9, 2, 4], 6))
    [[1], [3, 0], [2]]
    """
    rows: list[int] = []
    total = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if rows and total + lengths[row] > tokens:
            yield rows
            rows, total = [], 0
        rows.append(row)
        total += lengths[row]
    if rows:
        yield rows
