"""A configuration whose sizes are symbols, so that its cost is a formula.

    B batch, L queries, M keys (a source), D width, H heads, G key/value heads, K and W widths of a head,
    F feed-forward, V vocabulary, N layers, C classes, T rows of a table of positions

Sizes that are equal by definition share a symbol (G = H, W = K, one head's K = D); a second size of the same role gets
a number (F₂), and one head or one layer no symbol.
"""

from dataclasses import dataclass, field
from typing import Any

from headway.config import (
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    Frozen,
    LanguageConfig,
    MaskedConfig,
    RecurrentConfig,
    SentenceConfig,
    Seq2SeqConfig,
    StackConfig,
    VectorsConfig,
    VisionConfig,
)
from headway.config.text import ClassifierConfig, DecoderConfig

MEANINGS = {
    "B": "batch", "L": "length", "M": "length of the source", "N": "layers", "D": "width", "H": "heads",
    "G": "key/value heads", "K": "width of a head", "W": "value width of a head", "F": "feed-forward width",
    "V": "vocabulary", "C": "classes", "T": "rows of the table of positions", "R": "rotated channels of a head",
}  # fmt: skip
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@dataclass
class Symbols:
    """Which letter stands for which number."""

    numbers: dict[str, int] = field(default_factory=dict)

    def of(self, role: str, value: int) -> Any:
        """The letter of a size; one that means another number already gets a subscript."""
        place, name = 1, role
        while self.numbers.get(name, value) != value:
            place += 1
            name = role + str(place).translate(SUBSCRIPTS)
        self.numbers[name] = value
        return symbol(name)

    def meaning(self, name: str) -> str:
        return MEANINGS.get(name[:1], "")


def symbol(name: str) -> Any:
    """A whole number, at least one, that is not known yet."""
    import sympy  # half a second, which only formulas should take

    return sympy.Symbol(name, integer=True, positive=True)


def with_symbols(config: Frozen, letters: Symbols) -> Frozen | None:
    """The same configuration in letters; None for a kind whose sizes follow from one another by rounding."""
    make = _MADE.get(type(config))
    return None if make is None else config.unchecked(**make(config, letters))


def _attention(c: AttentionConfig, letters: Symbols) -> dict[str, Any]:
    width, heads = letters.of("D", c.width), letters.of("H", c.heads) if c.heads > 1 else 1
    key = width if c.heads == 1 and c.head_width == c.width else letters.of("K", c.head_width)
    value = key if c.value_width == c.head_width else letters.of("W", c.value_width)
    own = width if c.output_width == c.width else letters.of("D", c.output_width)
    rotary = c.rotary
    if rotary is not None and rotary.width is not None:
        rotary = rotary.unchecked(width=letters.of("R", rotary.width))
    return {
        "width": width,
        "heads": heads,
        "kv_heads": heads if c.kv_heads == c.heads else letters.of("G", c.kv_heads),
        "head_width": key,
        "value_width": value,
        "source_width": width if c.source_width == c.width else letters.of("D", c.source_width),
        "output_width": own if c.project or own is width else heads * value,
        "rotary": rotary,
    }


def _feedforward(c: FeedForwardConfig, letters: Symbols) -> dict[str, Any]:
    return {"hidden": letters.of("F", c.hidden)}


def _block(c: BlockConfig, letters: Symbols) -> dict[str, Any]:
    return _parts(c, letters, "attention", "cross", "feedforward")


def _stack(c: StackConfig, letters: Symbols) -> dict[str, Any]:
    # one block is not so many times itself: a letter would only hide that
    found = _parts(c, letters, "block")
    if c.alternates:  # so many of this block and so many of that: the number of layers says both
        return found | {"alternates": tuple(with_symbols(one, letters) for one in c.alternates)}
    return found | ({"layers": letters.of("N", c.layers)} if c.layers > 1 else {})


def _vectors(c: VectorsConfig, letters: Symbols) -> dict[str, Any]:
    return _parts(c, letters, "stack")


def _classifier(c: ClassifierConfig, letters: Symbols) -> dict[str, Any]:
    return _language(c, letters) | {"classes": letters.of("C", c.classes)}


def _language(c: DecoderConfig, letters: Symbols) -> dict[str, Any]:
    found = _parts(c, letters, "stack") | {"vocabulary": letters.of("V", c.vocabulary)} | _table(c, letters)
    return found if c.own_embedding_width is None else found | {"embedding_width": letters.of("D", c.embedding_width)}


def _masked(c: MaskedConfig, letters: Symbols) -> dict[str, Any]:
    found = _parts(c, letters, "stack") | {"vocabulary": letters.of("V", c.vocabulary)}
    classes = {"classes": letters.of("C", c.classes)} if c.classes else {}
    classes |= {"token_classes": letters.of("C", c.token_classes)} if c.token_classes else {}
    classes |= {} if c.own_embedding_width is None else {"embedding_width": letters.of("D", c.embedding_width)}
    return found | classes | {"length": letters.of("T", c.length)}


def _sentence(c: SentenceConfig, letters: Symbols) -> dict[str, Any]:
    return _parts(c, letters, "encoder")


def _seq2seq(c: Seq2SeqConfig, letters: Symbols) -> dict[str, Any]:
    second = c.target_vocabulary
    words = {"vocabulary": letters.of("V", c.vocabulary)}
    words |= {} if second is None else {"target_vocabulary": letters.of("V", second)}
    return _parts(c, letters, "encoder", "decoder") | words | _table(c, letters)


def _recurrent(c: RecurrentConfig, letters: Symbols) -> dict[str, Any]:
    roles = {"source_vocabulary": "V", "vocabulary": "V", "width": "D", "hidden": "F", "attention_width": "K",
             "output_width": "W"}  # fmt: skip
    return {name: letters.of(role, getattr(c, name)) for name, role in roles.items()}


def _vision(c: VisionConfig, letters: Symbols) -> dict[str, Any]:
    classes = {"classes": letters.of("C", c.classes)} if c.classes else {}
    return _parts(c, letters, "stack") | classes


def _table(c: DecoderConfig | Seq2SeqConfig, letters: Symbols) -> dict[str, Any]:
    learned = c.positions == "learned" and c.length is not None
    return {"length": letters.of("T", c.length)} if learned else {}  # pyright: ignore


def _parts(c: Frozen, letters: Symbols, *names: str) -> dict[str, Any]:
    inner = {name: getattr(c, name) for name in names}
    return {name: with_symbols(part, letters) for name, part in inner.items() if part is not None}


_MADE: dict[type[Frozen], Any] = {
    AttentionConfig: _attention,
    FeedForwardConfig: _feedforward,
    BlockConfig: _block,
    StackConfig: _stack,
    VectorsConfig: _vectors,
    LanguageConfig: _language,
    ClassifierConfig: _classifier,
    MaskedConfig: _masked,
    SentenceConfig: _sentence,
    Seq2SeqConfig: _seq2seq,
    RecurrentConfig: _recurrent,
    VisionConfig: _vision,
}
