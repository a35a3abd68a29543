"""Models that read text: BERT's pre-training, classes of texts, and sentence vectors.

Pre-training is from plain text (masked words, adjacency, inversion) and from labelled pairs (inference).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from headway.config.run_files import RunFiles
from headway.config.text import ClassifierConfig, DecoderConfig, MaskedConfig, SentenceConfig, Special
from headway.config.train import TrainConfig
from headway.data.labelled import Labelled, hold_out, label_names, samples_of
from headway.data.masked_text import MaskedText
from headway.data.sentences import Sentences
from headway.data.source import Document, documents_of, records
from headway.data.text_pairs import ContrastivePairs, twins_of
from headway.data.tokenizer import Tokenizer
from headway.hub.families.decoder_classifier import classifier_on
from headway.models import build
from headway.models.encoder import Masked
from headway.models.sentence import SentenceEncoder
from headway.nn.attention import Attention
from headway.nn.layers import LearnedPositions
from headway.presets.sized import sized_classifier, sized_masked
from headway.training.objectives import (
    TrainingSetup,
    classification_loss,
    contrastive_loss,
    last_token_class_loss,
    masked_loss,
)
from headway.training.tasks.common import (
    Say,
    came_from,
    encoder_of,
    model_of,
    special_tokens,
    spooled,
    start_of,
    take_over,
    tokenizer_of,
    with_dropout,
)


def prepare_masked(config: TrainConfig, place: RunFiles, say: Say) -> TrainingSetup:
    config = spooled(config, place)
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
        words="words" in config.objectives, adjacent="adjacent" in config.objectives, special=special_tokens(tokenizer),
        inverted="inverted" in config.objectives, inference=len(inference), inference_labels=inference,
    )  # fmt: skip
    if start is None:
        wanted = sized_masked(config.model, vocabulary=tokenizer.size, length=length, **heads)
    else:
        family = "headway" if heads["inverted"] or inference else start.model.config.family
        wanted = start.model.config.model_copy(
            update={**heads, "pooler": True, "classes": 0, "labels": (), "family": family}
        )
    objective = partial(masked_loss, names=tuple(config.objectives))
    say(f"{len(train):,} examples, {0 if validation is None else len(validation):,} held out")
    model = model_of(config, wanted, start, say)
    if start is None and config.model.alike:
        mimetic_init(model, config.model.alike, seed=config.seed)
    return TrainingSetup(config, model, objective, train, validation, tokenizer, dict(config.objectives))


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
    yield from whole(documents_of(config.data, places))


def whole(parts: Iterable[Document]) -> Iterator[str]:
    """Documents in one piece each."""
    text: list[str] = []
    for part in parts:
        text.append(part.text)
        if part.ends:
            yield "".join(text)
            text = []


def prepare_classify(config: TrainConfig, place: RunFiles, say: Say) -> TrainingSetup:
    config = spooled(config, place)
    d = config.data
    samples, held = list(samples_of(d, d.train, paired=d.paired)), None
    label_names(sample.label for sample in samples)  # one class alone is text_of before anything else
    if d.validation:
        held = list(samples_of(d, d.validation, paired=d.paired))
    elif d.held:
        samples, held = hold_out(samples, d.held)
    labels = label_names(sample.label for sample in samples)
    start = encoder_of(start_of(config))
    texts = [text for sample in samples for text in (sample.text, sample.second) if text is not None]
    tokenizer = tokenizer_of(config, place, start, lambda: texts, say)
    length = config.length if start is None else min(config.length, start.model.config.length)
    heads: dict[str, Any] = dict(classes=len(labels), labels=labels, special=special_tokens(tokenizer))
    if start is None:
        wanted = sized_classifier(config.model, vocabulary=tokenizer.size, length=length, **heads)
    else:
        wanted = _with_classes(start.model.config, **heads)
    options: dict[str, Any] = dict(length=length, labels=labels, cut=config.data.cut)
    train = Labelled(samples, tokenizer, **options)
    validation = None if held is None else Labelled(held, tokenizer, **options)
    say(f"{len(train):,} texts of {len(labels)} classes, {0 if held is None else len(held):,} held out")
    objective = last_token_class_loss if isinstance(wanted, ClassifierConfig) else classification_loss
    return TrainingSetup(config, model_of(config, wanted, start, say), objective, train, validation, tokenizer)


def _with_classes(
    c: MaskedConfig | DecoderConfig, *, special: Special, **classes: Any
) -> MaskedConfig | ClassifierConfig:
    """A classifier with the layers of another model."""
    if isinstance(c, MaskedConfig):
        others = {"pooler": True, "words": False, "adjacent": False, "inverted": False, "inference": 0}
        return c.model_copy(update={**classes, **others, "special": special})
    # A decoder keeps its tokens. Without one for padding, other libraries read one text at a time.
    pad = special.pad if c.special.pad is None else c.special.pad
    return classifier_on(c, **classes, special=c.special.replace(pad=pad))


def prepare_embed(config: TrainConfig, place: RunFiles, say: Say) -> TrainingSetup:
    config = spooled(config, place)
    twins, held = list(twins_of(config.data, config.data.train)), []
    if config.data.validation:
        held = list(twins_of(config.data, config.data.validation))
    elif config.data.held:
        twins, held = hold_out(twins, config.data.held, text_of=lambda twin: f"{twin.first}\0{twin.second}")
    start = start_of(config)
    texts = lambda: (text for twin in twins for text in (twin.first, twin.second, *twin.negatives))  # noqa: E731
    tokenizer = tokenizer_of(config, place, start, texts, say)
    if start is not None and isinstance(start.model, SentenceEncoder):
        model = start.model
    else:
        encoder = (
            sized_masked(
                config.model, vocabulary=tokenizer.size, length=config.length, special=special_tokens(tokenizer)
            )
            if start is None
            else start.model.config
        )
        limit = min(config.length, encoder.length)
        model = build(SentenceConfig(encoder=encoder, limit=limit), seed=config.seed, std=config.model.std)
        if start is not None:
            take_over(model.encoder, start.model, say)
    options: dict[str, Any] = dict(limit=model.config.limit, tail=model.config.tail, prompt=model.config.prompt)
    train = ContrastivePairs(twins, tokenizer, **options)
    validation = ContrastivePairs(held, tokenizer, **options) if held else None
    hard = f" with {train.negatives:,} hard negatives" if train.negatives else ""
    say(f"{len(train):,} pairs{hard}, {len(held):,} held out")
    return TrainingSetup(
        config, with_dropout(came_from(model, start), config), contrastive_loss, train, validation, tokenizer
    )


POSITION_SCALE, BASE = (
    1.6,
    100.0,
)  # of the sinusoids: their size beside the words', and the slowest wave beside the fastest


@torch.no_grad()
def mimetic_init(model: Masked, strength: float, *, seed: int) -> None:
    """Queries and keys that look at equal words and near positions, as trained ones do (mimetic initialisation).

        W_k = W_q, so that q·k / √K is about `strength` for a vector with itself, and small for two unlike ones

    with sinusoids for positions, which are alike where they are near. Trained models have W_q W_kᵀ close to a multiple
    of the identity, and small data learns sooner from there (Trockman and Kolter 2023, arXiv:2305.09828). Changes a
    fresh model in place, but not the last layer's heads.

    There the first token gathers what the heads on sentences read, and it would see little but itself.
    """
    generator = torch.Generator().manual_seed(seed)
    for part in [part for part in model.modules() if isinstance(part, Attention)][:-1]:
        narrow, width = part.config.head_width, part.config.width
        query, key, _ = part.qkv.weight.split(part.columns)
        query.normal_(0.0, (strength / width) ** 0.5 * narrow**-0.25, generator=generator)
        key.copy_(query)
    if isinstance(model.positions, LearnedPositions):
        places = model.positions.weight
        length, width = places.shape
        turns = torch.arange(length)[:, None] * BASE ** (-torch.arange(0, width, 2) / width)
        waves = torch.cat([turns.sin(), turns.cos()], 1)[:, :width]
        places.copy_(waves * POSITION_SCALE * model.tokens.weight.std())
    if model.types is not None:
        model.types.weight.mul_(0.5)
