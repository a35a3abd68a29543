"""Models in sizes of one's own, for the vocabulary and the texts at hand; what nobody chose has a modest default.

>>> sized_language(ModelChoice(layers=2, width=32), vocabulary=65, length=64).stack.layers
2

>>> digits = small_davit(ModelChoice(), image=(8, 8), channels=1, classes=10)
>>> digits.grids, digits.window, digits.heads
(((8, 8), (4, 4)), (4, 4), (2, 4))
"""

from collections.abc import Callable
from math import gcd, isqrt
from typing import Any

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Special, StackConfig
from headway.config.base import Extent, Pair, sides
from headway.config.kinds import read_model
from headway.config.text import ClassifierConfig, LanguageConfig, MaskedConfig, RecurrentConfig, Seq2SeqConfig
from headway.config.train import ModelChoice
from headway.config.vision import DaViTConfig, Images, VisionConfig
from headway.presets import preset
from headway.presets.bert import bert
from headway.presets.gpt2 import gpt2
from headway.presets.llama import llama
from headway.presets.options import resize
from headway.presets.vision import vit

WIDTH = 128  # where nobody says
HEAD = 32  # width of a head where nobody says how many there are
# What changes a model without being one of its sizes, or how it begins; `window` is an option of some mechanisms too.
_SIZES = (
    "start", "preset", "config", "architecture", "layers", "width", "heads", "hidden", "dropout", "patch", "depths",
    "widths", "stage_heads", "window", "std", "alike",
)  # fmt: skip
CHANGES = tuple(name for name in ModelChoice.model_fields if name not in _SIZES)


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


def sized_classifier(
    choice: ModelChoice, *, vocabulary: int, length: int, **heads: Any
) -> MaskedConfig | ClassifierConfig:
    """A BERT with classes; on a decoder where a configuration of one's own says so."""
    given = _given(choice, (MaskedConfig, ClassifierConfig), vocabulary, length=length, **heads)
    if isinstance(given, ClassifierConfig):
        return given
    return sized_masked(choice, vocabulary=vocabulary, length=length, **heads)


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


LARGEST = 8  # side of a window
STEPS = ((16, 1), (64, 2))  # images of so many pixels at most have a position every so many pixels; larger ones every 4
STAGES = ("depths", "widths", "stage_heads")


def small_vit(
    choice: ModelChoice,
    *,
    image: Extent,
    channels: int,
    classes: int,
    labels: tuple[str, ...] = (),
    images: Images | None = None,
) -> VisionConfig:
    """A pre-norm ViT with a class token: 4 layers of width 64 with 4 heads; a patch has about √side pixels.

    >>> small_vit(ModelChoice(layers=3), image=28, channels=1, classes=10).grid
    (7, 7)
    """
    _refuse(choice, "a ViT", STAGES, "layers, width, heads, hidden, patch and dropout")
    size, width = sides(image), choice.width or 64
    made = vit(
        family="headway", image=size, patch=choice.patch or _patch(size), channels=channels, layers=choice.layers or 4,
        width=width, heads=choice.heads or _image_heads(width), hidden=choice.hidden, dropout=choice.dropout or 0.0,
        eps=1e-6, classes=classes, labels=labels, images=images,
    )  # fmt: skip
    return changed(made, choice)


def small_davit(
    choice: ModelChoice,
    *,
    image: Extent,
    channels: int,
    classes: int,
    labels: tuple[str, ...] = (),
    images: Images | None = None,
) -> DaViTConfig:
    """Two stages of dual blocks, 32 and 64 channels in 2 and 4 groups, windows of half the first grid (8 at most)."""
    _refuse(
        choice,
        "a DaViT",
        ("layers", "heads", "hidden", "patch", *CHANGES),
        "depths, widths, stage_heads, window, dropout",
    )
    size, depths = sides(image), choice.depths or (1, 2)
    widths = choice.widths or tuple((choice.width or 32) * 2**stage for stage in range(len(depths)))
    stride = _stride(size)
    return DaViTConfig(
        image=size, channels=channels, depths=depths, widths=widths,
        heads=choice.stage_heads or tuple(_image_heads(width) for width in widths),
        window=choice.window or _window(size, stride), stem=max(3, 2 * stride - 1), stride=stride,
        dropout=choice.dropout or 0.0, classes=classes, labels=labels, images=images or Images(),
    )  # fmt: skip


def _patch(size: Pair) -> int:
    """The largest side that divides both sides of the image, at most √side: as many patches as pixels in one, or more.

    >>> [_patch((side, side)) for side in (8, 14, 28, 32, 224)]
    [2, 2, 4, 4, 14]
    """
    common = gcd(*size)
    return max(side for side in range(1, isqrt(min(size)) + 1) if common % side == 0)


def _stride(size: Pair) -> int:
    return next((step for pixels, step in STEPS if max(size) <= pixels), 4)


def _window(size: Pair, stride: int) -> Pair:
    """Half the first grid, rounded up: smaller than the grid, so that there is more than one window.

    >>> _window((8, 8), 1), _window((28, 28), 2), _window((224, 224), 4)
    ((4, 4), (7, 7), (8, 8))
    """
    rows, columns = (min(LARGEST, -(-side // (2 * stride))) for side in size)
    return rows, columns


def _image_heads(width: int) -> int:
    """As many as have 16 channels each; fewer, where they do not divide the width."""
    return next(heads for heads in range(max(1, width // 16), 0, -1) if width % heads == 0)


def _refuse(choice: ModelChoice, what: str, names: tuple[str, ...], instead: str) -> None:
    said: dict[str, Any] = {name: value for name in names if (value := getattr(choice, name)) is not None}
    for name, value in said.items():
        raise ValueError(f"{what} has no {name}={value}: its sizes are {instead}")
