"""What is asked of a model: how many rows of what length, in which precision, with what in the cache.

>>> Setting(batch=2, length=5).rows
10
"""

from dataclasses import dataclass, replace

import torch

from headway.config.train import LoraConfig
from headway.ops.mask import Mask, padding
from headway.sizes import Number

# Bytes of an entry.
BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, eq=False)
class Setting:
    """B rows of L tokens; `source` tokens for a model that reads one; `past` tokens held in a cache before these.

    lengths: the real lengths of the rows, where they are padded (on the right); the same for the source.
    image: rows and columns of a picture's pixels, of a model that reads pictures.
    mask: any further rule between the positions of the text (a window, segments).
    training: with dropout, and gradients wanted. logits: how many positions of each row are asked for the vocabulary
    (None: all; prefill and decoding ask the last alone). prepared: the source is read already (decoding). session:
    a text is read into caches (prefill).
    """

    batch: Number = 1
    length: Number = 128
    source: Number | None = None
    past: Number = 0
    lengths: tuple[int, ...] | None = None
    source_lengths: tuple[int, ...] | None = None
    image: tuple[int, int] | None = None
    mask: Mask | None = None
    training: bool = False
    logits: Number | None = None
    prepared: bool = False
    session: bool = False
    dtype: str = "float32"
    checkpointing: bool = False
    lora: LoraConfig | None = None  # adapters, which alone are trained

    @property
    def rows(self) -> Number:
        """Tokens in all: B L."""
        return self.batch * self.length

    @property
    def source_length(self) -> Number:
        """Tokens of the source; as many as of the target where nobody says."""
        return self.length if self.source is None else self.source

    @property
    def itemsize(self) -> int:
        return BYTES[self.dtype]

    @property
    def asked(self) -> Number:
        """Positions of each row that go through the head."""
        return self.length if self.logits is None else self.logits

    @property
    def text_mask(self) -> Mask | None:
        """Padding and the further rule together."""
        return _joined(self.mask, self.lengths, self.length)

    @property
    def source_mask(self) -> Mask | None:
        return _joined(None, self.source_lengths, self.source_length)

    def decode(self, past: Number) -> "Setting":
        """One more token after `past` of them."""
        return replace(
            self, length=1, past=past, source=self.source_length, logits=1, prepared=True, lengths=None, mask=None,
            training=False,
        )  # fmt: skip

    def prefill(self) -> "Setting":
        """The whole prompt at once, and the logits of what follows it alone."""
        return replace(self, logits=1, training=False, session=True)


def _joined(mask: Mask | None, lengths: tuple[int, ...] | None, total: Number) -> Mask | None:
    if lengths is None:
        return mask
    hidden = padding(lengths=torch.tensor(lengths), total=total)
    return hidden if mask is None else mask & hidden
