"""Sentence vectors from pairs of texts that mean the same, the rest of a batch being negatives."""

from collections.abc import Sequence
from typing import Any

from headway.config.sentence import SentenceConfig
from headway.config.train import TrainConfig
from headway.data.labelled import hold_out
from headway.data.source import records
from headway.data.text_pairs import ContrastivePairs, TextPair
from headway.models import build
from headway.models.sentence import SentenceEncoder
from headway.presets.sized import sized_masked
from headway.training.objectives.embed import embed
from headway.training.tasks.common import Say, special_of, spooled, start_of, take_over, tokenizer_of, with_dropout
from headway.training.work import Place, Work


def prepare(config: TrainConfig, place: Place, say: Say) -> Work:
    config = config.model_copy(update={"data": spooled(config.data, place)})
    twins, held = _twins(config, config.data.train), []
    if config.data.validation:
        held = _twins(config, config.data.validation)
    elif config.data.held:
        twins, held = hold_out(twins, config.data.held, said=lambda twin: f"{twin.first}\0{twin.second}")
    start = start_of(config)
    tokenizer = tokenizer_of(
        config, place, start, lambda: (text for twin in twins for text in (twin.first, twin.second)), say
    )
    if start is not None and isinstance(start.model, SentenceEncoder):
        model = start.model
    else:
        encoder = (
            sized_masked(config.model, vocabulary=tokenizer.size, length=config.length, special=special_of(tokenizer))
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
    say(f"{len(train):,} pairs, {len(held):,} held out")
    return Work(config, with_dropout(model, config), embed, train, validation, tokenizer)


def _twins(config: TrainConfig, places: Sequence[str]) -> list[TextPair]:
    d = config.data
    found = records(places, columns={"first": d.first, "second": d.second}, format=d.format)
    return [TextPair(one.where, one.fields["first"], one.fields["second"]) for one in found]
