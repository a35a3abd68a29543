"""The sizes that a plan chooses from, and the model that each of them is for the data at hand."""

from collections.abc import Sequence
from math import ceil
from typing import Any

from headway.app.plan.data import DataSize
from headway.config import Frozen
from headway.config.text import SentenceConfig
from headway.config.train import ModelChoice, TrainConfig
from headway.cost.input_lengths import default_length
from headway.cost.setting import Setting
from headway.data.text_pairs import seq2seq_special_tokens as pair_tokens
from headway.presets.sized import sized_classifier, sized_language, sized_masked, sized_seq2seq, small_davit, small_vit
from headway.training.tasks.common import special_tokens

# Width and layers; a step up is about three times the parameters. Heads are 32 wide, and 64 from width 512 on.
LADDER = (
    (32, 2), (64, 2), (96, 3), (128, 4), (192, 5), (256, 6), (384, 8), (512, 10), (768, 12), (1024, 16), (1280, 24),
    (1600, 36), (2048, 48),
)  # fmt: skip
SHORTEST, LONGEST = 8, 512  # of running text
WINDOWS = 4096  # that a text should give: a longer window has fewer
CHOSEN = ("width", "layers", "heads", "hidden", "preset", "depths", "widths", "stage_heads")


def choices(config: TrainConfig) -> Sequence[ModelChoice]:
    """Models of rising size; one alone where its size was given."""
    m = config.model
    if m.start is not None:
        raise ValueError(f"model.start {m.start} has its size already, and a plan chooses one: leave it out")
    if any(getattr(m, name) is not None for name in CHOSEN):
        return (m,)
    if m.architecture in ("davit", "recurrent"):
        widths = (16, 32, 48, 64, 96, 128) if m.architecture == "davit" else tuple(width for width, _ in LADDER[:9])
        return [m.model_copy(update={"width": width}) for width in widths]
    sizes = [{"width": width, "layers": layers, "heads": _heads(width)} for width, layers in LADDER]
    return [m.model_copy(update=size) for size in sizes]


def _heads(width: int) -> int:
    return max(1, width // (32 if width < 512 else 64))


def length_for(config: TrainConfig, known: DataSize) -> int:
    """Of running text a power of two that leaves it enough windows; of rows, what the longest of them need."""
    if known.pictures is not None:
        return config.length
    if known.rows is None:
        held = known.tokens * (config.data.held if not config.data.validation else 1.0) or known.tokens
        # What is held out has to fill a window too, and is cut where a line ends.
        most = min(LONGEST, max(128, known.tokens // WINDOWS), int(0.6 * held) - 1)
        return max(SHORTEST, 1 << max(most, 1).bit_length() - 1)
    longest = sorted(max(side) for side in zip(*known.sides, strict=True))
    nearly = longest[min(len(longest) - 1, ceil(0.99 * len(longest)))]
    return max(SHORTEST, 8 * ceil((known.longest if known.longest <= LONGEST else min(nearly, LONGEST)) / 8))


def model_for(config: TrainConfig, choice: ModelChoice, known: DataSize, length: int) -> Frozen:
    """The model that training would make of this choice."""
    if known.pictures is not None:
        return _vision(choice, known)
    tokenizer = known.tokenizer
    assert tokenizer is not None
    sizes: dict[str, Any] = {"vocabulary": tokenizer.size, "length": length}
    if config.task == "seq2seq":
        return sized_seq2seq(choice, **sizes, special=pair_tokens(tokenizer))
    sizes["special"] = special_tokens(tokenizer)
    if config.task == "language":
        return sized_language(choice, **sizes)
    if config.task == "embed":
        return SentenceConfig(encoder=sized_masked(choice, **sizes), limit=length)
    if config.task == "classify":
        return sized_classifier(choice, **sizes, classes=len(known.labels), labels=known.labels)
    asked = {name: name in config.objectives for name in ("words", "adjacent", "inverted")}
    return sized_masked(choice, **sizes, **asked)


def _vision(choice: ModelChoice, known: DataSize) -> Frozen:
    assert known.pictures is not None
    p = known.pictures
    make = small_davit if choice.architecture == "davit" else small_vit
    return make(choice, image=p.size, channels=p.channels, classes=len(p.labels), labels=p.labels)


def setting_for(config: TrainConfig, model: Frozen, known: DataSize, length: int, batch: int) -> Setting:
    """A usual batch: of rows of text, the mean length, since batches are made of rows that are alike."""
    rest: dict[str, Any] = {"training": True, "dtype": config.dtype, "checkpointing": config.checkpointing}
    if known.pictures is not None:
        return Setting(batch=batch, length=default_length(model), **rest)
    if known.rows is None:
        asked = {"logits": ceil(0.15 * length)} if config.task == "masked" else {}
        return Setting(batch=batch, length=length, **asked, **rest)
    usual = [min(length, known.mean(side)) for side in range(len(known.sides))]
    if config.task == "seq2seq":
        return Setting(batch=batch, source=usual[0], length=usual[1], **rest)
    rows = batch * len(usual)
    return Setting(batch=rows, length=max(1, round(sum(usual) / len(usual))), **rest)


def read_in(config: TrainConfig, setting: Setting) -> int:
    """Tokens (of pictures: positions) that a batch of this setting reads."""
    source = int(setting.source_length) if config.task == "seq2seq" else 0
    return int(setting.batch) * (int(setting.length) + source)
