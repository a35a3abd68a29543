"""Models in sizes of one's own, for the vocabulary and the texts at hand; what nobody chose has a modest default.

>>> sized_language(ModelChoice(layers=2, width=32), vocabulary=65, length=64).stack.layers
2
"""

from collections.abc import Callable
from typing import Any

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Special, StackConfig
from headway.config.kinds import read_model
from headway.config.language import LanguageConfig
from headway.config.masked import MaskedConfig
from headway.config.recurrent import RecurrentConfig
from headway.config.seq2seq import Seq2SeqConfig
from headway.config.train import ModelChoice
from headway.presets import preset
from headway.presets.bert import bert
from headway.presets.gpt2 import gpt2
from headway.presets.llama import llama
from headway.presets.options import resize

WIDTH = 128  # where nobody says
HEAD = 32  # width of a head where nobody says how many there are
# What changes a model without being one of its sizes; `window` is an option of some mechanisms too.
CHANGES = (
    "attention", "dilation", "feature", "kv_heads", "head_width", "positions", "norm", "activation", "softcap",
)  # fmt: skip


def changed(config: Any, choice: ModelChoice, names: tuple[str, ...] = ("window", *CHANGES)) -> Any:
    """The configuration with what was chosen of these; what has no meaning for it is refused by name."""
    options = {name: value for name in names if (value := getattr(choice, name)) is not None}
    return resize(config, **options) if options else config


def sized_language(
    choice: ModelChoice, *, vocabulary: int, length: int, special: Special | None = None
) -> LanguageConfig:
    """A GPT (learned positions, GPT-2's layout) or a Llama (rotary positions)."""
    if (given := _given(choice, LanguageConfig, vocabulary, length=length, special=special or Special())) is not None:
        return given
    make = _architecture(choice, {"gpt": _gpt, "llama": _llama}, "gpt")
    return changed(make(choice, vocabulary=vocabulary, length=length, special=special or Special()), choice)


def sized_masked(choice: ModelChoice, *, vocabulary: int, length: int, **heads: Any) -> MaskedConfig:
    """A BERT; `heads` say what it is for, as in `bert`."""
    _architecture(choice, {"bert": bert}, "bert")
    if (given := _given(choice, MaskedConfig, vocabulary, length=length, **heads)) is not None:
        return given
    sizes = dict(width=_width(choice), layers=choice.layers or 4, heads=_heads(choice), hidden=choice.hidden)
    return changed(bert(**sizes, vocabulary=vocabulary, length=length, dropout=_dropout(choice), **heads), choice)


def sized_seq2seq(
    choice: ModelChoice, *, vocabulary: int, length: int, special: Special
) -> Seq2SeqConfig | RecurrentConfig:
    """A Transformer with pre-norm blocks and sinusoids, or Bahdanau's recurrent one; one vocabulary for both sides."""
    if (given := _given(choice, (Seq2SeqConfig, RecurrentConfig), vocabulary, special=special)) is not None:
        return given
    make: Callable[..., Any] = _architecture(
        choice, {"transformer": _transformer, "recurrent": _recurrent}, "transformer"
    )
    return changed(make(choice, vocabulary=vocabulary, length=length, special=special), choice)


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
    decoding = block.replace(attention=own.replace(causal=True), cross=own)
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


def _given(choice: ModelChoice, kinds: type | tuple[type, ...], vocabulary: int, **rest: Any) -> Any:
    """A published size, or a configuration of one's own, with the heads at hand; None where neither is named.

    A preset takes the vocabulary and the length of the data. A configuration keeps its own, if the data fit into them.
    """
    if choice.preset is None and choice.config is None:
        return None
    found: Any = preset(choice.preset) if choice.preset is not None else read_model(choice.config or "")
    name = f"preset {choice.preset!r}" if choice.preset is not None else "model.config"
    if not isinstance(found, kinds):
        raise ValueError(f"{name} is a {found.kind_or_name()} model, which this task does not train")
    sizes = ("vocabulary", "source_vocabulary") if isinstance(found, RecurrentConfig) else ("vocabulary",)
    if choice.preset is not None:
        sized = changed(found, choice, ("layers", "width", "heads", "hidden", "dropout", "window", *CHANGES))
        return sized.replace(**dict.fromkeys(sizes, vocabulary), **rest)
    if (least := min(getattr(found, size) for size in sizes)) < vocabulary:
        raise ValueError(f"the tokenizer has {vocabulary} tokens, and model.config knows {least}")
    return found.replace(**{name: value for name, value in rest.items() if name != "length"})


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
