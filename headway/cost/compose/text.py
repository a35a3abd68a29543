"""Prices of models that read one text: language, classifier, masked, sentence, vectors."""

from dataclasses import replace

from headway.config import LanguageConfig
from headway.config.layers import VectorsConfig
from headway.config.text import ClassifierConfig, DecoderConfig, MaskedConfig, SentenceConfig
from headway.cost.compose.layers import check_known, entering, leaving, stack_part
from headway.cost.op_tree import Part, beside, leaf, series
from headway.cost.setting import Setting
from headway.ops.activation import activation_price
from headway.ops.elementwise_prices import add_price, dropout_price, lookup_price, scale_price
from headway.ops.linear import linear_price
from headway.ops.loss import loss_price
from headway.ops.norm import norm_price
from headway.sizes import Number, Operation, other
from headway.steps import POSITIONS, Each, Sum


def language(c: LanguageConfig, setting: Setting) -> Part:
    """Embed, stack, head; while training the loss too."""
    asked = setting.batch * setting.asked
    return series(
        "",
        decoder(c, setting),
        leaf("head_scale", scale_price(asked * c.embedding_width)) if c.head_scale != 1.0 else None,
        leaf("head", linear_price(asked, c.embedding_width, c.vocabulary, bias=False, own=not c.tied)),
        leaf("head_softcap", scale_price(asked * c.vocabulary, flops=3)) if c.logit_softcap is not None else None,
        leaf("loss", loss_price(asked, c.vocabulary)) if setting.training else None,
    )


def classifier(c: ClassifierConfig, setting: Setting) -> Part:
    """Embed, stack, and the head on one vector of each text; while training the loss too."""
    return series(
        "",
        decoder(c, setting),
        leaf("class_head", linear_price(setting.batch, c.embedding_width, c.classes, bias=False)),
        leaf("loss", loss_price(setting.batch, c.classes)) if setting.training else None,
    )


def decoder(c: DecoderConfig, setting: Setting) -> Part:
    """The words' vectors, led to the width of the stack where they have another, and back."""
    block, rows = c.stack.block, setting.rows
    width, narrow = entering(block), c.embedding_width
    inner = leaf("project_in", linear_price(rows, narrow, width, bias=False)) if narrow != width else None
    outer = leaf("project_out", linear_price(rows, leaving(block), narrow, bias=False)) if narrow != width else None
    scaled = leaf("embedding_scale", scale_price(rows * width)) if c.embedding_scale != 1.0 else None
    table = c.length + c.offset if c.offset else c.length
    return series(
        "",
        embed(
            "", c.vocabulary, width, rows, positions=c.positions, length=table, words_width=narrow, then=(inner, scaled)
        ),
        dropped("dropout", setting, rows * width, block.dropout),
        stack_part("stack", c.stack, setting),
        outer,
    )


def embed(
    name: str, vocabulary: Number, width: Number, rows: Number, *, positions: str, length: Number | None = None,
    own: bool = True, words_width: Number | None = None, then: tuple[Part | None, ...] = (),
) -> Part:  # fmt: skip
    """tokens[t] + positions[p]; a learned table has `length` rows, sinusoids are made beforehand.

    `then`: what becomes of the words' vectors, of a width of their own, before the sum.
    """
    check_known("positions", positions, ("learned", "sinusoidal", "none"))
    words = leaf("tokens", lookup_price(rows, vocabulary, width if words_width is None else words_width, own=own))
    words = series("", words, *then)
    if positions == "none":
        return series(name, words)
    table = leaf("positions", lookup_price(rows, length, width)) if positions == "learned" else None
    return series(name, beside("", words, table), leaf("positions_sum", add_price(rows * width)))


def dropped(name: str, setting: Setting, entries: Number, share: float) -> Part | None:
    return leaf(name, dropout_price(entries)) if setting.training and share else None


def unused(part: Part | None) -> Part | None:
    """Parameters that the model has and this pass does not run."""
    return None if part is None else replace(part, again=0)


TOKEN_HEADS = ("token_head", "answer_head")


def masked(c: MaskedConfig, setting: Setting) -> Part:
    """Words, positions and sentences embedded, a norm, the stack, and the head that the model is for."""
    return series(
        "",
        _read(c, setting),
        *_heads(c, setting),
        leaf("loss", loss_price(*_scores(c, setting))) if setting.training and _purpose(c) else None,
    )


def _read(c: MaskedConfig, setting: Setting) -> Part:
    block, rows, narrow = c.stack.block, setting.rows, c.embedding_width
    table = c.length + c.offset if c.offset else c.length
    words = embed("", c.vocabulary, narrow, rows, positions=c.positions, length=table)
    sentences = leaf("types", lookup_price(rows, c.types, narrow)) if c.types else None
    inner = leaf("project", linear_price(rows, narrow, entering(block), bias=True))
    return series(
        "",
        beside("", words, sentences),
        leaf("types_sum", add_price(rows * narrow)) if c.types else None,
        leaf("norm", norm_price(block.norm, rows, narrow)) if c.embedding_norm else None,
        dropped("dropout", setting, rows * narrow, block.dropout),
        inner if c.own_embedding_width is not None else None,
        stack_part("stack", c.stack, setting),
    )


def _purpose(c: MaskedConfig) -> str:
    """The head that a forward pass goes through."""
    has = {
        "class_head": c.classes, "token_head": c.token_classes, "answer_head": c.answers, "word_head": c.words,
        "replaced_head": c.replaced, "adjacent_head": c.adjacent, "inverted_head": c.inverted,
        "inference_head": c.inference,
    }  # fmt: skip
    return next((name for name, there in has.items() if there), "")


def _heads(c: MaskedConfig, setting: Setting) -> list[Part | None]:
    width, batch, purpose = leaving(c.stack.block), setting.batch, _purpose(c)
    classes = {"adjacent_head": 2 * c.adjacent, "inverted_head": 2 * c.inverted, "inference_head": c.inference,
               "class_head": c.classes}  # fmt: skip
    pooler = _pooler(c, setting, tokens=purpose in TOKEN_HEADS)
    pooled = purpose in classes or (purpose in TOKEN_HEADS and c.pooler_tokens)
    words = _words(c, setting) if c.words else None
    found = [
        None if not c.pooler else pooler if pooled else unused(pooler),
        words if purpose == "word_head" else unused(words),
    ]
    for name, count in classes.items():
        head = leaf(name, linear_price(batch, width, count, bias=True)) if count else None
        found.append(head if name == purpose else unused(head))
    for name, count in (("token_head", c.token_classes), ("answer_head", 2 * c.answers)):
        head = leaf(name, linear_price(setting.rows, width, count, bias=True)) if count else None
        found.append(head if name == purpose else unused(head))
    replaced = _replaced(c, setting) if c.replaced else None
    return [*found, replaced if purpose == "replaced_head" else unused(replaced)]


def _pooler(c: MaskedConfig, setting: Setting, *, tokens: bool) -> Part:
    """The map of each text's vector, or of each token's."""
    width, rows = leaving(c.stack.block), setting.rows if tokens else setting.batch
    mean = leaf("pooler_mean", _pooling("mean", setting.rows, width, setting))
    return series(
        "",
        mean if c.pooler_over == "mean" and not tokens else None,
        leaf("pooler", linear_price(rows, width, width, bias=c.pooler_bias)),
        leaf(f"pooler_{c.pooler_activation}", activation_price(c.pooler_activation, rows * width)),
        leaf("pooler_norm", norm_price(c.stack.block.norm, rows, width)) if c.pooler_norm else None,
    )


def _replaced(c: MaskedConfig, setting: Setting) -> Part:
    width, rows, feedforward = leaving(c.stack.block), setting.rows, c.stack.block.feedforward
    curve = "gelu" if feedforward is None else feedforward.activation
    return series(
        "replaced_head",
        leaf("dense", linear_price(rows, width, width, bias=True)),
        leaf("activation", activation_price(curve, rows * width)),
        leaf("out", linear_price(rows, width, 1, bias=True)),
    )


def _words(c: MaskedConfig, setting: Setting) -> Part:
    block, rows, narrow = c.stack.block, setting.batch * setting.asked, c.embedding_width
    return series(
        "word_head",
        leaf("dense", linear_price(rows, leaving(block), narrow, bias=c.pooler_bias)),
        leaf("activation", activation_price(c.word_activation, rows * narrow)),
        leaf("norm", norm_price(block.norm, rows, narrow)),
        leaf("words", linear_price(rows, narrow, c.vocabulary, bias=True, own=False)),
    )


def _scores(c: MaskedConfig, setting: Setting) -> tuple[Number, Number]:
    """Rows and classes of the loss."""
    purpose = _purpose(c)
    if purpose == "word_head":
        return setting.batch * setting.asked, c.vocabulary
    if purpose == "token_head":
        return setting.rows, c.token_classes
    if purpose == "replaced_head":
        return setting.rows, 1
    if purpose == "answer_head":
        return 2 * setting.batch, setting.length
    return setting.batch, c.classes or c.inference or 2


def sentence(c: SentenceConfig, setting: Setting) -> Part:
    """The encoder, a pooling over each text, a linear map and a norm where there are any."""
    width, rows, batch = leaving(c.encoder.stack.block), setting.rows, setting.batch
    dense = None
    if c.dense is not None:
        curve = activation_price(c.dense.activation, batch * c.dense.width)
        product = linear_price(batch, width, c.dense.width, bias=c.dense.bias)
        dense = series("", leaf("dense", product), leaf("dense_activation", curve))
    return series(
        "",
        series("encoder", _read(c.encoder, setting), *map(unused, _heads(c.encoder, setting))),
        leaf("pooling", _pooling(c.pooling, rows, width, setting)),
        dense,
        leaf("normalise", unit(batch, c.width)) if c.normalise else None,
    )


def _pooling(kind: str, rows: Number, width: Number, setting: Setting) -> Operation:
    """Of each text the first vector (no arithmetic), or a sum (a maximum) over its tokens, divided."""
    check_known("pooling", kind, ("cls", "mean", "max", "mean_sqrt_len"))
    if kind == "cls":
        return Operation("elementwise", reads=setting.batch * width, writes=setting.batch * width)
    divide = () if kind == "max" else (Each(1),)
    flops = other(rows * width)
    return Operation("elementwise", flops, flops, steps=(Sum(setting.length, POSITIONS), *divide), reads=rows * width)


def unit(rows: Number, width: Number) -> Operation:
    """x / |x|: square, sum, root, compare with the least that is divided by, divide."""
    flops = other(3 * rows * width)
    return Operation("norm", flops, flops + flops, steps=(Each(1), Sum(width), Each(3)), reads=rows * width)


def vectors(c: VectorsConfig, setting: Setting) -> Part:
    """A stack alone: vectors in, vectors out."""
    return series("", stack_part("stack", c.stack, setting, fed=True))
