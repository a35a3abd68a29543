"""Models of text: language models (also modules of the user's own), BERT, sentence encoders, encoder-decoders."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from headway.config.base import Cap, Frozen, Size, forget_derived
from headway.config.importing import split_name
from headway.config.layers import DerivedSize, StackConfig
from headway.config.model import ModelConfig
from headway.config.size_limits import SIZE

Whole = Annotated[int, Field(ge=0, le=SIZE, strict=True)]


class Special(Frozen):
    """Tokens with a meaning of their own; None where a model has none."""

    begin: int | None = None
    end: tuple[int, ...] = ()
    pad: int | None = None
    start: int | None = None  # what a decoder that reads a source begins with


class DecoderConfig(ModelConfig):
    """Embeddings and a causal stack, whatever is made of its vectors.

        x = scale · tokens[t] W_in + positions[offset + p]        h = stack(x) W_out

    `embedding_width` is that of the words' vectors where it is not the stack's own (OPT): then maps lead in and out.
    `offset` rows of a learned table come before position 0. `family` names the layout in which the model is saved;
    "headway" is its own.
    """

    family: str = "headway"
    vocabulary: Size
    length: Size  # positions it was made for
    stack: StackConfig
    positions: Literal["learned", "sinusoidal", "none"] = "none"
    offset: Whole = 0
    own_embedding_width: Size | None = Field(default=None, alias="embedding_width")  # None: that of the stack
    embedding_scale: float = 1.0
    special: Special = Special()

    @property
    def embedding_width(self) -> DerivedSize:
        return self.stack.block.width if self.own_embedding_width is None else self.own_embedding_width

    @model_validator(mode="after")
    def _decodes(self) -> "DecoderConfig":
        what = self.kind_or_name()
        if not self.stack.block.attention.causal:
            raise ValueError(f"a {what} model predicts what follows: its attention needs causal=True")
        if self.stack.block.cross is not None:
            raise ValueError(f"a {what} model reads no source: cross-attention belongs to an encoder-decoder")
        if self.offset and self.positions != "learned":
            raise ValueError(f"an offset of {self.offset} is for learned positions; {self.positions} has no table")
        forget_derived(self, ("embedding_width",))
        return self


class LanguageConfig(DecoderConfig):
    """A decoder with a head that may be the embedding itself (tied).

    logits = cap(head_scale · h Wᵀ)        cap(z) = c · tanh(z / c) with c = logit_softcap (Gemma 2, arXiv:2408.00118)
    """

    module = "headway.models.language:Language"
    writes = True
    tasks = ("language", "instruct", "dpo", "classify")
    measures = ("language",)

    kind: Literal["language"] = "language"
    tied: bool = True
    head_scale: float = 1.0
    logit_softcap: Cap | None = None


class ModuleConfig(ModelConfig):
    """A module of the user's own: tokens in, logits out. `function` is package.module:function, which makes it.

    >>> ModuleConfig(function="my_model:build", vocabulary=65, length=128).writes
    True
    """

    module = "headway.models.own_module:OwnModule"
    writes = True
    tasks = ("language",)
    measures = ("language",)

    kind: Literal["module"] = "module"
    family: Literal["headway"] = "headway"
    function: str
    vocabulary: Size
    length: Size  # tokens that it reads at most
    special: Special = Special()

    @field_validator("function")
    @classmethod
    def _named(cls, given: str) -> str:
        if split_name(given) is None:
            raise ValueError(f"a module of your own is named package.module:function, not {given!r}")
        return given


# What the numbers of a classifier mean: one class of several (softmax), several at once (sigmoid), or plain values.
Outcome = Literal["one", "several", "value"]


class ClassifierConfig(DecoderConfig):
    """A decoder that says of each text which class it has, by the vector of its last token (Radford et al. 2018).

    logits = h_last Wᵀ
    """

    module = "headway.models.classifier:DecoderClassifier"
    tasks = ("classify",)
    measures = ("classify",)

    kind: Literal["classifier"] = "classifier"
    classes: Size
    labels: tuple[str, ...] = ()  # names of the classes; none, or one each
    outcome: Outcome = "one"

    @model_validator(mode="after")
    def _named(self) -> "ClassifierConfig":
        if self.labels and len(self.labels) != self.classes:
            raise ValueError(f"{self.classes} classes have {self.classes} labels, not {len(self.labels)}")
        return self

    def label(self, index: int) -> str:
        """What a class is called; its number where nobody named it."""
        return self.labels[index] if self.labels else str(index)

    @classmethod
    def on(cls, decoder: DecoderConfig, **head: Any) -> "ClassifierConfig":
        """A classifier on the layers of another decoder."""
        return cls(**{**_shared(decoder), **head})

    @property
    def language(self) -> LanguageConfig:
        """A language model with the same layers."""
        return LanguageConfig(**_shared(self))


def _shared(decoder: DecoderConfig) -> dict[str, Any]:
    """What every decoder has."""
    names = {field.alias or name: name for name, field in DecoderConfig.model_fields.items()}
    return {alias: getattr(decoder, name) for alias, name in names.items()}


class MaskedConfig(ModelConfig):
    """BERT (arXiv:1810.04805): word, position and sentence embeddings, a norm, a stack that looks both ways, heads.

        x = norm(tokens[t] + positions[offset + p] + types[s]) W_in        h = stack(x)

    Each head is a choice: `words` predicts hidden words, `adjacent` whether the second sentence follows the first,
    `inverted` whether it is the first in another order, `inference` > 0 what follows logically from the first,
    `classes` > 0 classifies a text; all but `words` read the `pooler`'s vector. `token_classes` > 0 classifies every
    token, `answers` finds where in a text the answer to a question begins and ends, and `replaced` says of every token
    whether it stands in the place of another (ELECTRA, arXiv:2003.10555). `offset` rows of a learned
    table come before position 0 (RoBERTa); `embedding_width` is that of the embeddings where it is not the stack's
    (ALBERT, ELECTRA): then a map leads in. `family` names the layout it is saved in.
    """

    module = "headway.models.encoder:Masked"
    tasks = ("masked", "classify", "embed")
    measures = ("classify", "masked", "inference")

    kind: Literal["masked"] = "masked"
    family: str = "headway"
    vocabulary: Size
    length: Size  # positions it was made for
    types: Whole = 2  # sentences that are told apart; 0: there is no table for them
    stack: StackConfig
    positions: Literal["learned", "sinusoidal", "none"] = "learned"
    offset: Whole = 0
    own_embedding_width: Size | None = Field(default=None, alias="embedding_width")  # None: that of the stack
    eps: float = 1e-12  # of the norms outside of the stack
    embedding_norm: bool = True  # of what enters the stack
    pooler: bool = True
    pooler_activation: str = "tanh"
    pooler_over: Literal["first", "mean"] = "first"  # the first token's vector, or the mean of all
    pooler_bias: bool = True  # also of the masked-word head's map
    pooler_norm: bool = False
    pooler_tokens: bool = False  # whether heads of tokens read the pooler's map of each token
    words: bool = False
    own_word_activation: str | None = Field(default=None, alias="word_activation")  # None: that of the feed-forward
    adjacent: bool = False
    inverted: bool = False
    inference: Whole = 0
    inference_labels: tuple[str, ...] = ()  # names of its classes; none, or one each
    classes: Whole = 0
    labels: tuple[str, ...] = ()  # names of the classes; none, or one each
    outcome: Outcome = "one"
    token_classes: Whole = 0
    token_labels: tuple[str, ...] = ()  # names of the tokens' classes; none, or one each
    answers: bool = False
    replaced: bool = False
    special: Special = Special()

    @property
    def embedding_width(self) -> DerivedSize:
        return self.stack.block.width if self.own_embedding_width is None else self.own_embedding_width

    @property
    def word_activation(self) -> str:
        """The curve of the masked-word head."""
        feedforward = self.stack.block.feedforward
        usual = "gelu" if feedforward is None else feedforward.activation
        return usual if self.own_word_activation is None else self.own_word_activation

    @model_validator(mode="after")
    def _agree(self) -> "MaskedConfig":
        if self.stack.block.attention.causal:
            raise ValueError("a masked-word model looks both ways: its attention needs causal=False")
        if self.stack.block.cross is not None:
            raise ValueError("a masked-word model reads no source: cross-attention belongs to an encoder-decoder")
        if not self.pooler and (self.adjacent or self.inverted or self.inference or self.classes):
            raise ValueError("heads that judge sentences and the classifier read the pooled vector: need pooler=True")
        if self.pooler_tokens and not self.pooler and (self.token_classes or self.answers):
            raise ValueError("pooler_tokens=True: heads of tokens read the pooler's map, so they need pooler=True")
        for classes, labels in (
            (self.classes, self.labels), (self.inference, self.inference_labels),
            (self.token_classes, self.token_labels),
        ):  # fmt: skip
            if labels and len(labels) != classes:
                raise ValueError(f"{classes} classes have {classes} labels, not {len(labels)}")
        if self.offset and self.positions != "learned":
            raise ValueError(f"an offset of {self.offset} is for learned positions; {self.positions} has no table")
        forget_derived(self, ("embedding_width", "word_activation"))
        return self

    def label(self, index: int) -> str:
        """What a class is called; its number where nobody named it."""
        return self.labels[index] if self.labels else str(index)

    def token_label(self, index: int) -> str:
        """The same of a class of tokens."""
        return self.token_labels[index] if self.token_labels else str(index)


Pooling = Literal["cls", "mean", "max", "mean_sqrt_len"]


class DenseConfig(Frozen):
    """A last linear map of a text's vector, and its curve."""

    width: Size  # of the vectors it gives
    activation: str = "tanh"
    bias: bool = True


class SentenceConfig(ModelConfig):
    """Sentence-BERT (arXiv:1908.10084): an encoder, a pooling of its vectors, a linear map, a norm.

    A text has at most `limit` tokens: of a longer one the middle is left out, so that its last `tail` tokens stay (BERT
    closes each text with one). A `prompt` stands before every text. `family` names the layout it is saved in.
    """

    module = "headway.models.sentence:SentenceEncoder"
    tasks = ("embed", "masked", "classify")
    measures = ("embed",)

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


class Forced(Frozen):
    """What decoding must or must not produce, whatever the logits say."""

    first: int | None = None  # the one token that may follow the start token
    last: int | None = None  # the token that ends a text which reached its greatest length
    never: tuple[int, ...] = ()  # tokens that are never produced


class Seq2SeqConfig(ModelConfig):
    """Embeddings, an encoder, a decoder that attends to it, and a head that may be the target's embedding (tied).

        x = norm(scale · tokens[t] + positions[p])        logits = head_scale · h Wᵀ + bias

    `positions` "halves" are sinusoids whose sines stand in the first half of the channels (Marian), "timing" the same
    with a slowest wave of exactly 1/10000 (M2M-100); `offset` rows of a learned table come before position 0 (BART), or
    as many positions of "timing". `family` names the layout in which the model is saved.
    """

    module = "headway.models.seq2seq:Seq2Seq"
    reads = "source"
    writes = True
    tasks = ("seq2seq",)
    measures = ("seq2seq",)

    kind: Literal["seq2seq"] = "seq2seq"
    family: str = "headway"
    vocabulary: Size
    target_vocabulary: Size | None = None  # None: source and target share one vocabulary and one embedding
    length: Size | None = None  # positions it was made for; None: no limit
    encoder: StackConfig
    decoder: StackConfig
    positions: Literal["learned", "sinusoidal", "halves", "timing", "none"] = "none"
    offset: Whole = 0
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
        if self.encoder.shared or self.decoder.shared:
            raise ValueError("layers that share their parameters are for a model of one stack: shared=False")
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
        if self.offset and self.positions not in ("learned", "timing"):
            raise ValueError(f"an offset of {self.offset} is for learned positions; {self.positions} has no table")
        for stack in (self.encoder, self.decoder):
            if self.positions == "timing" and (stack.block.width % 2 or stack.block.width < 4):
                raise ValueError(
                    f"timing positions have a sine and a cosine of each of 2 waves or more: a width of "
                    f"{stack.block.width} is not even, or below 4"
                )
        return self

    @property
    def outputs(self) -> int:
        """How many tokens the head tells apart."""
        return self.vocabulary if self.target_vocabulary is None else self.target_vocabulary


class RecurrentConfig(ModelConfig):
    """Bahdanau's encoder-decoder (arXiv:1409.0473): gated recurrent networks joined by additive attention.

    >>> config = RecurrentConfig(source_vocabulary=30000, vocabulary=30000, width=620, hidden=1000)
    >>> config.attention_width, config.output_width, config.annotation_width
    (1000, 500, 2000)
    """

    module = "headway.models.recurrent:Recurrent"
    reads = "source"
    writes = True
    tasks = ("seq2seq",)
    measures = ("seq2seq",)

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
