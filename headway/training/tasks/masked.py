"""BERT's pre-training from plain text: hidden words, adjacency, inversion; and inference from labelled pairs."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from headway.config.train import TrainConfig
from headway.data.labelled import Labelled, hold_out, label_names, samples_of
from headway.data.masked_text import MaskedText
from headway.data.sentences import Sentences
from headway.data.source import Document, documents, records
from headway.data.tokenizer import Tokenizer
from headway.presets.sized import sized_masked
from headway.training.objectives.masked import masked
from headway.training.tasks.common import Say, encoder_of, model_of, special_of, spooled, start_of, tokenizer_of
from headway.training.tasks.mimetic import look_alike
from headway.training.work import Place, Work


def prepare(config: TrainConfig, place: Place, say: Say) -> Work:
    config = config.model_copy(update={"data": spooled(config.data, place)})
    start = encoder_of(start_of(config))
    tokenizer = tokenizer_of(config, place, start, lambda: _learnt_from(config), say)
    length = config.length if start is None else min(config.length, start.model.config.length)
    text, held_text = _sentences(config, tokenizer)
    pairs, held_pairs = _inference(config, tokenizer, length)
    options: dict[str, Any] = dict(length=length, weights=config.objectives)
    train = MaskedText(text, tokenizer, pairs=pairs, **options)
    held = held_text is not None or held_pairs is not None
    validation = MaskedText(held_text, tokenizer, pairs=held_pairs, **options) if held else None
    inference = () if pairs is None else pairs.labels
    heads: dict[str, Any] = dict(
        words="words" in config.objectives, adjacent="adjacent" in config.objectives, special=special_of(tokenizer),
        inverted="inverted" in config.objectives, inference=len(inference), inference_labels=inference,
    )  # fmt: skip
    if start is None:
        wanted = sized_masked(config.model, vocabulary=tokenizer.size, length=length, **heads)
    else:
        family = "headway" if heads["inverted"] or inference else start.model.config.family
        wanted = start.model.config.model_copy(
            update={**heads, "pooler": True, "classes": 0, "labels": (), "family": family}
        )
    objective = partial(masked, names=tuple(config.objectives))
    say(f"{len(train):,} examples, {0 if validation is None else len(validation):,} held out")
    model = model_of(config, wanted, start, say)
    if start is None and config.model.alike:
        look_alike(model, config.model.alike, seed=config.seed)
    return Work(config, model, objective, train, validation, tokenizer, dict(config.objectives))


def _sentences(config: TrainConfig, tokenizer: Tokenizer) -> tuple[Sentences | None, Sentences | None]:
    """Of plain text; none where only labelled pairs are learnt from."""
    if set(config.objectives) == {"inference"}:
        return None, None
    train = Sentences.read(_texts(config, config.data.train), tokenizer)
    if config.data.validation:
        return train, Sentences.read(_texts(config, config.data.validation), tokenizer)
    return train.split(config.data.held) if config.data.held else (train, None)


def _inference(config: TrainConfig, tokenizer: Tokenizer, length: int) -> tuple[Labelled | None, Labelled | None]:
    if "inference" not in config.objectives:
        return None, None
    d = config.data
    if not d.pairs:
        raise ValueError("the objective inference learns from labelled pairs: name their file with data.pairs")
    samples = list(samples_of(d, d.pairs, paired=True))
    labels = label_names(sample.label for sample in samples)
    train, held = hold_out(samples, d.held) if d.held else (samples, [])
    made = [Labelled(some, tokenizer, length=length, labels=labels, cut=d.cut) for some in (train, held) if some]
    return made[0], made[1] if len(made) > 1 else None


def _learnt_from(config: TrainConfig) -> Iterator[str]:
    """The text; of labelled pairs alone, theirs."""
    if set(config.objectives) != {"inference"}:
        yield from _texts(config, config.data.train)
    else:
        for one in records(
            config.data.pairs, columns=(config.data.first, config.data.second), format=config.data.format
        ):
            yield from one.fields.values()


def _texts(config: TrainConfig, places: Sequence[str]) -> Iterator[str]:
    d = config.data
    yield from whole(documents(places, format=d.format, column=d.text, document=d.document))


def whole(parts: Iterable[Document]) -> Iterator[str]:
    """Documents in one piece each."""
    text: list[str] = []
    for part in parts:
        text.append(part.text)
        if part.ends:
            yield "".join(text)
            text = []
