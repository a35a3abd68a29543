"""A recurrent encoder-decoder with additive attention."""

from typing import Any, Literal

from pydantic import model_validator

from headway.config.base import Frozen, Size
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
    attention_width: Size = 0  # of the hidden layer that gives a score, n'; hidden, where left out
    output_width: Size = 0  # of the maxout layer, l; half of hidden, where left out
    bidirectional: bool = True  # whether the encoder also reads from the last word to the first
    special: Special = Special()

    @model_validator(mode="before")
    @classmethod
    def _follow(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("hidden"), int) or given["hidden"] < 1:
            return given
        hidden = given["hidden"]
        said = {name: value for name, value in given.items() if value is not None}
        return {"attention_width": hidden, "output_width": (hidden + 1) // 2} | said

    @property
    def annotation_width(self) -> int:
        """Of the vectors that the encoder gives to each word of the source."""
        return self.hidden * (1 + self.bidirectional)
