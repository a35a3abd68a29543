"""Texts into other texts, by a Transformer or by Bahdanau's recurrent model."""

from collections.abc import Iterator, Sequence

from headway.config.train import TrainConfig
from headway.data.pairs import Pairs, special_of
from headway.data.source import records
from headway.presets.sized import sized_seq2seq
from headway.train.objectives.seq2seq import seq2seq
from headway.train.tasks.common import Say, model_of, spooled, start_of, tokenizer_of
from headway.train.work import Place, Work


def prepare(config: TrainConfig, place: Place, say: Say) -> Work:
    config = config.model_copy(update={"data": spooled(config.data, place)})
    start = start_of(config)
    tokenizer = tokenizer_of(config, place, start, lambda: _texts(config), say)
    special = special_of(tokenizer) if start is None else start.model.config.special

    def read(places: Sequence[str]) -> Pairs:
        return Pairs.of(_pairs(config, places), tokenizer, special, length=config.length, cut=config.data.cut)

    train, held = read(config.data.train), None
    if config.data.validation:
        held = read(config.data.validation)
    elif config.data.held:
        train, held = train.split(config.data.held)
    wanted = (
        sized_seq2seq(config.model, vocabulary=tokenizer.size, length=config.length, special=special)
        if start is None
        else start.model.config
    )
    say(f"{len(train):,} pairs, {0 if held is None else len(held):,} held out")
    return Work(config, model_of(config, wanted, start, say), seq2seq, train, held, tokenizer)


def _pairs(config: TrainConfig, places: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    d = config.data
    for one in records(places, columns={"source": d.source, "target": d.target}, format=d.format):
        yield one.where, one.fields["source"], one.fields["target"]


def _texts(config: TrainConfig) -> Iterator[str]:
    for _, source, target in _pairs(config, config.data.train):
        yield source
        yield target
