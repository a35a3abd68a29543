"""A recurrent encoder-decoder with additive attention."""

from typing import Literal

from pydantic import Field, model_validator

from headway.config.base import Frozen, Size, forget_derived
from headway.config.language import Special


class RecurrentConfig(Frozen):
    """Bahdanau's encoder-decoder (arXiv:1409.0473): gated recurrent networks joined by additive attention.

    >>> config = RecurrentConfig(source_vocabulary=30000, vocabulary=30000, width=620, hidden=1000)
    >>> config.attention_width, config.output_width, config.annotation_width
    (1000, 500, 2000)
    """

    kind: Literal["recurrent"] = "recurrent"
    family: str = "headway"
    source_vocabulary: Size
    vocabulary: Size  # of the target
    width: Size  # of the embeddings, m of the paper
    hidden: Size  # of the states, n
    own_attention_width: Size | None = Field(default=None, alias="attention_width")  # None: hidden
    own_output_width: Size | None = Field(default=None, alias="output_width")  # None: half of hidden
    bidirectional: bool = True  # whether the encoder also reads from the last word to the first
    special: Special = Special()

    @model_validator(mode="after")
    def _agree(self) -> "RecurrentConfig":
        forget_derived(self, ("attention_width", "output_width"))
        return self

    @property
    def attention_width(self) -> int:
        """Of the hidden layer that gives a score, n' of the paper."""
        return self.hidden if self.own_attention_width is None else self.own_attention_width

    @property
    def output_width(self) -> int:
        """Of the maxout layer, l."""
        return (self.hidden + 1) // 2 if self.own_output_width is None else self.own_output_width

    @property
    def annotation_width(self) -> int:
        """Of the vectors that the encoder gives to each word of the source."""
        return self.hidden * (1 + self.bidirectional)
