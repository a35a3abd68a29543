"""Models in sizes of one's own, for the vocabulary and the texts at hand; what nobody chose has a modest default.

>>> sized_language(ModelChoice(layers=2, width=32), vocabulary=65, length=64).stack.layers
2
"""

from collections.abc import Callable
from typing import Any

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Special, StackConfig
from headway.config.language import LanguageConfig
from headway.config.masked import MaskedConfig
from headway.config.recurrent import RecurrentConfig
from headway.config.seq2seq import Seq2SeqConfig
from headway.config.train import ModelChoice
from headway.presets import preset
from headway.presets.bert import bert
from headway.presets.gpt2 import gpt2
from headway.presets.llama import llama

WIDTH = 128  # where nobody says
HEAD = 32  # width of a head where nobody says how many there are


def sized_language(
    choice: ModelChoice, *, vocabulary: int, length: int, special: Special | None = None
) -> LanguageConfig:
    """A GPT (learned positions, GPT-2's layout) or a Llama (rotary positions)."""
    if choice.preset is not None:
        return _of_preset(choice, LanguageConfig, vocabulary=vocabulary, length=length, special=special or Special())
    make = _architecture(choice, {"gpt": _gpt, "llama": _llama}, "gpt")
    return make(choice, vocabulary=vocabulary, length=length, special=special or Special())


def sized_masked(choice: ModelChoice, *, vocabulary: int, length: int, **heads: Any) -> MaskedConfig:
    """A BERT; `heads` say what it is for, as in `bert`."""
    _architecture(choice, {"bert": bert}, "bert")
    if choice.preset is not None:
        return _of_preset(choice, MaskedConfig, vocabulary=vocabulary, length=length, **heads)
    sizes = dict(width=_width(choice), layers=choice.layers or 4, heads=_heads(choice), hidden=choice.hidden)
    return bert(**sizes, vocabulary=vocabulary, length=length, dropout=_dropout(choice), **heads)


def sized_seq2seq(
    choice: ModelChoice, *, vocabulary: int, length: int, special: Special
) -> Seq2SeqConfig | RecurrentConfig:
    """A Transformer with pre-norm blocks and sinusoids, or Bahdanau's recurrent one; one vocabulary for both sides."""
    if choice.preset is not None:
        return _of_preset(choice, Seq2SeqConfig, vocabulary=vocabulary, special=special)
    make: Callable[..., Any] = _architecture(
        choice, {"transformer": _transformer, "recurrent": _recurrent}, "transformer"
    )
    return make(choice, vocabulary=vocabulary, length=length, special=special)


def _gpt(choice: ModelChoice, **rest: Any) -> LanguageConfig:
    return gpt2(
        width=_width(choice), layers=choice.layers or 4, heads=_heads(choice), hidden=choice.hidden,
        dropout=_dropout(choice), **rest,
    )  # fmt: skip


def _llama(choice: ModelChoice, **rest: Any) -> LanguageConfig:
    width = _width(choice)
    if choice.dropout:
        raise ValueError(f"a llama has no dropout: leave model.dropout out instead of {choice.dropout}, or take gpt")
    return llama(
        width=width, layers=choice.layers or 4, heads=_heads(choice), hidden=choice.hidden or 8 * width // 3, tied=True,
        **rest,
    )  # fmt: skip


def _transformer(choice: ModelChoice, *, vocabulary: int, length: int, special: Special) -> Seq2SeqConfig:
    width, layers = _width(choice), choice.layers or 3
    own = AttentionConfig(width=width, heads=_heads(choice), bias=True, output_bias=True)
    block = BlockConfig(
        attention=own,
        feedforward=FeedForwardConfig(hidden=choice.hidden or 4 * width, activation="relu"),
        dropout=_dropout(choice),
    )
    decoding = block.model_copy(update={"attention": own.model_copy(update={"causal": True}), "cross": own})
    return Seq2SeqConfig(
        vocabulary=vocabulary,
        encoder=StackConfig(block=block, layers=layers, final_norm=True),
        decoder=StackConfig(block=decoding, layers=layers, final_norm=True),
        positions="sinusoidal",
        embedding_scale=width**0.5,
        special=special,
    )


def _recurrent(choice: ModelChoice, *, vocabulary: int, length: int, special: Special) -> RecurrentConfig:
    width = _width(choice)
    return RecurrentConfig(
        source_vocabulary=vocabulary, vocabulary=vocabulary, width=width, hidden=choice.hidden or 2 * width,
        special=special,
    )  # fmt: skip


def _of_preset(choice: ModelChoice, kind: type, **changed: Any) -> Any:
    """A published size with the vocabulary and the heads at hand."""
    assert choice.preset is not None
    found = preset(choice.preset)
    if not isinstance(found, kind):
        raise ValueError(f"preset {choice.preset!r} is a {found.kind_or_name()} model, which this task does not train")
    return type(found)(**{**dict(found), **changed})


def _architecture(choice: ModelChoice, known: dict[str, Any], usual: str) -> Any:
    name = choice.architecture or usual
    if name not in known:
        raise ValueError(f"this task trains {' or '.join(known)}, not {name!r} (model.architecture)")
    return known[name]


def _width(choice: ModelChoice) -> int:
    return choice.width or WIDTH


def _heads(choice: ModelChoice) -> int:
    return choice.heads or max(1, _width(choice) // HEAD)


def _dropout(choice: ModelChoice) -> float:
    return choice.dropout or 0.0
