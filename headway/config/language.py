"""A language model: tokens in, the logits of the next token out."""

from typing import Literal

from pydantic import model_validator

from headway.config.base import Frozen, Size
from headway.config.layers import StackConfig


class Special(Frozen):
    """Tokens with a meaning of their own; None where a model has none."""

    begin: int | None = None
    end: tuple[int, ...] = ()
    pad: int | None = None
    start: int | None = None  # what a decoder that reads a source begins with


class LanguageConfig(Frozen):
    """Embeddings, a causal stack, and a head that may be the embedding itself (tied).

    `family` names the layout in which the model is saved; "headway" is its own.
    """

    kind: Literal["language"] = "language"
    family: str = "headway"
    vocabulary: Size
    length: Size  # positions it was made for
    stack: StackConfig
    positions: Literal["learned", "sinusoidal", "none"] = "none"
    tied: bool = True
    special: Special = Special()

    @model_validator(mode="after")
    def _agree(self) -> "LanguageConfig":
        if not self.stack.block.attention.causal:
            raise ValueError("a language model predicts what follows: its attention needs causal=True")
        if self.stack.block.cross is not None:
            raise ValueError("a language model reads no source: cross-attention belongs to an encoder-decoder")
        return self
