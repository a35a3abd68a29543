"""A tower for images, one for texts, vectors of one space: CLIP (arXiv:2103.00020), SigLIP (arXiv:2303.15343)."""

from typing import Literal

from pydantic import model_validator

from headway.config.base import Size
from headway.config.layers import StackConfig
from headway.config.model import ModelConfig
from headway.config.text import Special
from headway.config.vision import VisionConfig


class ClipConfig(ModelConfig):
    """Images and texts as vectors of `width` numbers and length 1, and how well each image fits each text.

        logit = exp(logit_scale) · image · text + logit_bias

    `vision` is the tower of images; the other fields are of the tower of texts: learned positions, a `stack`, and of
    each text the vector of its first `end` token (CLIP), of its `highest` number (CLIP's first releases) or of its
    `last` token (SigLIP, where every text is filled up to `length` with padding that is read like any token).
    `objective` is what it was trained with: "softmax" over a batch, or a "sigmoid" of each pair, which has a bias.
    """

    module = "headway.models.clip:Clip"
    reads = "images and tokens"

    kind: Literal["clip"] = "clip"
    family: str = "headway"
    vision: VisionConfig
    vocabulary: Size
    length: Size  # tokens of a text at most
    stack: StackConfig  # of the texts
    pooling: Literal["end", "highest", "last"] = "end"
    width: Size  # of the vectors that both towers give
    image_projection: bool = True  # a linear map of the image's vector; without it that has the width already
    text_bias: bool = False  # of the linear map of the text's vector
    objective: Literal["softmax", "sigmoid"] = "softmax"
    special: Special = Special()

    @property
    def limit(self) -> int:
        """How many tokens of a text are read."""
        return self.length

    @property
    def prompt(self) -> str:
        """Nothing stands before a text."""
        return ""

    @model_validator(mode="after")
    def _agree(self) -> "ClipConfig":
        if self.vision.classes or self.vision.pooler:
            raise ValueError("the tower of images gives a vector and knows no classes: vision.classes=0, no pooler")
        if self.stack.block.cross is not None:
            raise ValueError("the tower of texts reads no source: cross-attention belongs to an encoder-decoder")
        if not self.image_projection and self.vision.vector_width != self.width:
            raise ValueError(
                f"without a map the image's vector has {self.vision.vector_width} numbers, and the text's "
                f"{self.width}: image_projection=True"
            )
        if self.pooling == "end" and not self.special.end:
            raise ValueError("pooling='end' needs the number of the token that ends a text: special.end")
        if self.pooling == "last" and self.special.pad is None:
            raise ValueError("pooling='last' fills every text up with padding: special.pad is its number")
        return self
