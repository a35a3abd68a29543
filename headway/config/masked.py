"""A masked-word model: a text in, read in both directions; heads on top say what it is for."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from headway.config.base import Frozen, Size
from headway.config.language import Special
from headway.config.layers import StackConfig

# What the numbers of a classifier mean: one class of several (softmax), several at once (sigmoid), or plain values.
Outcome = Literal["one", "several", "value"]


class MaskedConfig(Frozen):
    """BERT (arXiv:1810.04805): word, position and sentence embeddings, a norm, a stack that looks both ways, heads.

    Each head is a choice: `words` predicts hidden words, `adjacent` whether the second sentence follows the first,
    `inverted` whether it is the first in another order, `inference` > 0 what follows logically from the first, and
    `classes` > 0 classifies; all but `words` read the `pooler`'s vector. `family` names the layout it is saved in.
    """

    kind: Literal["masked"] = "masked"
    family: str = "headway"
    vocabulary: Size
    length: Size  # positions it was made for
    types: Size = 2  # sentences that are told apart
    stack: StackConfig
    positions: Literal["learned", "sinusoidal", "none"] = "learned"
    eps: float = 1e-12  # of the norms outside of the stack
    pooler: bool = True
    words: bool = False
    adjacent: bool = False
    inverted: bool = False
    inference: Annotated[int, Field(ge=0, strict=True)] = 0
    inference_labels: tuple[str, ...] = ()  # names of its classes; none, or one each
    classes: Annotated[int, Field(ge=0, strict=True)] = 0
    labels: tuple[str, ...] = ()  # names of the classes; none, or one each
    outcome: Outcome = "one"
    special: Special = Special()

    @model_validator(mode="after")
    def _agree(self) -> "MaskedConfig":
        if self.stack.block.attention.causal:
            raise ValueError("a masked-word model looks both ways: its attention needs causal=False")
        if self.stack.block.cross is not None:
            raise ValueError("a masked-word model reads no source: cross-attention belongs to an encoder-decoder")
        if not self.pooler and (self.adjacent or self.inverted or self.inference or self.classes):
            raise ValueError("heads that judge sentences and the classifier read the pooled vector: need pooler=True")
        for classes, labels in ((self.classes, self.labels), (self.inference, self.inference_labels)):
            if labels and len(labels) != classes:
                raise ValueError(f"{classes} classes have {classes} labels, not {len(labels)}")
        return self

    def label(self, index: int) -> str:
        """What a class is called; its number where nobody named it."""
        return self.labels[index] if self.labels else str(index)
