"""An encoder-decoder: a source in, the logits of the next token of a target out."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from headway.config.base import Frozen, Size
from headway.config.language import Special
from headway.config.layers import StackConfig


class Forced(Frozen):
    """What decoding must or must not produce, whatever the logits say."""

    first: int | None = None  # the one token that may follow the start token
    last: int | None = None  # the token that ends a text which reached its greatest length
    never: tuple[int, ...] = ()  # tokens that are never produced


class Seq2SeqConfig(Frozen):
    """Embeddings, an encoder, a decoder that attends to it, and a head that may be the target's embedding (tied).

        x = norm(scale · tokens[t] + positions[p])        logits = head_scale · h Wᵀ + bias

    `positions` "halves" are sinusoids whose sines stand in the first half of the channels (Marian); `offset` rows of a
    learned table come before position 0 (BART). `family` names the layout in which the model is saved.
    """

    kind: Literal["seq2seq"] = "seq2seq"
    family: str = "headway"
    vocabulary: Size
    target_vocabulary: Size | None = None  # None: source and target share one vocabulary and one embedding
    length: Size | None = None  # positions it was made for; None: no limit
    encoder: StackConfig
    decoder: StackConfig
    positions: Literal["learned", "sinusoidal", "halves", "none"] = "none"
    offset: Annotated[int, Field(ge=0, strict=True)] = 0
    embedding_scale: float = 1.0
    embedding_norm: bool = False
    tied: bool = True
    head_scale: float = 1.0
    head_bias: bool = False
    special: Special = Special()
    forced: Forced = Forced()

    @model_validator(mode="before")
    @classmethod
    def _read_relative(cls, given: Any) -> Any:
        """`relative`, which older files have, is a bias of both stacks."""
        if not isinstance(given, dict) or "relative" not in given:
            return given
        found = {name: value for name, value in given.items() if name != "relative"}
        if given["relative"] is not None:
            bias = {"kind": "relative", **given["relative"]}
            found |= {name: {**given[name], "bias": bias} for name in ("encoder", "decoder")}
        return found

    @model_validator(mode="after")
    def _agree(self) -> "Seq2SeqConfig":
        encoder, decoder = self.encoder.block, self.decoder.block
        if encoder.attention.causal or encoder.cross is not None:
            raise ValueError("an encoder sees its whole source and nothing else: causal=False and no cross-attention")
        if decoder.cross is None or not decoder.attention.causal:
            raise ValueError("a decoder predicts what follows from a source: causal=True and cross-attention")
        if decoder.cross.source_width != encoder.output_width:
            raise ValueError(
                f"the decoder attends to a source of width {decoder.cross.source_width}, and the encoder gives "
                f"{encoder.output_width}"
            )
        return self._entrances()

    def _entrances(self) -> "Seq2SeqConfig":
        if self.target_vocabulary is None and self.encoder.block.width != self.decoder.block.width:
            raise ValueError(
                f"one embedding serves stacks of one width, not {self.encoder.block.width} and "
                f"{self.decoder.block.width}: give target_vocabulary for an embedding of its own"
            )
        if self.positions == "learned" and self.length is None:
            raise ValueError("a table of learned positions has a length: give one")
        if self.offset and self.positions != "learned":
            raise ValueError(f"an offset of {self.offset} is for learned positions; {self.positions} has no table")
        return self

    @property
    def outputs(self) -> int:
        """How many tokens the head tells apart."""
        return self.vocabulary if self.target_vocabulary is None else self.target_vocabulary
