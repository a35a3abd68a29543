"""Texts into other texts, by a Transformer or by Bahdanau's recurrent model."""

from collections.abc import Iterable, Iterator, Sequence

from headway.config.train import TrainConfig
from headway.data.labelled import Sample, hold_out
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

    length = min(config.length, getattr(None if start is None else start.model.config, "length", None) or config.length)

    def made(pairs: Iterable[tuple[str, str, str]]) -> Pairs:
        return Pairs.of(pairs, tokenizer, special, length=length, cut=config.data.cut)

    if config.data.validation or not config.data.held:
        train = made(_pairs(config, config.data.train))
        held = made(_pairs(config, config.data.validation)) if config.data.validation else None
    else:
        train, held = (made(side) for side in _sides(list(_pairs(config, config.data.train)), config.data.held))
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


def _sides(pairs: list[tuple[str, str, str]], held: float) -> Iterator[Iterator[tuple[str, str, str]]]:
    """To learn from, and held out: equal pairs stay on one side."""
    for side in hold_out([Sample(where, source, "", target) for where, source, target in pairs], held):
        yield ((one.where, one.text, one.second or "") for one in side)


def _texts(config: TrainConfig) -> Iterator[str]:
    for _, source, target in _pairs(config, config.data.train):
        yield source
        yield target
