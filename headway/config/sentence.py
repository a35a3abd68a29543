"""A sentence encoder: a text in, one vector out."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from headway.config.base import Frozen, Size
from headway.config.masked import MaskedConfig

Pooling = Literal["cls", "mean", "max", "mean_sqrt_len"]
Whole = Annotated[int, Field(ge=0, strict=True)]


class DenseConfig(Frozen):
    """A last linear map of a text's vector, and its curve."""

    width: Size  # of the vectors it gives
    activation: str = "tanh"
    bias: bool = True


class SentenceConfig(Frozen):
    """Sentence-BERT (arXiv:1908.10084): an encoder, a pooling of its vectors, a linear map, a norm.

    A text has at most `limit` tokens: of a longer one the middle is left out, so that its last `tail` tokens stay (BERT
    closes each text with one). A `prompt` stands before every text. `family` names the layout it is saved in.
    """

    kind: Literal["sentence"] = "sentence"
    family: str = "sentence"
    encoder: MaskedConfig
    pooling: Pooling = "mean"
    dense: DenseConfig | None = None
    normalise: bool = True
    limit: Size
    tail: Whole = 1
    prompt: str = ""

    @model_validator(mode="after")
    def _agree(self) -> "SentenceConfig":
        if self.limit > self.encoder.length:
            raise ValueError(f"the encoder has {self.encoder.length} positions, too few for a limit of {self.limit}")
        if self.tail >= self.limit:
            raise ValueError(f"the last {self.tail} tokens of every text leave no room in a limit of {self.limit}")
        return self

    @property
    def width(self) -> int:
        """Of the vectors it gives."""
        return self.encoder.stack.block.output_width if self.dense is None else self.dense.width
