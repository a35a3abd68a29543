"""Texts into other texts, by a Transformer or by Bahdanau's recurrent model."""

from collections.abc import Iterable, Iterator

from headway.config.train import TrainConfig
from headway.data.labelled import hold_out
from headway.data.text_pairs import Seq2SeqPairs, pairs_of, special_of
from headway.presets.sized import sized_seq2seq
from headway.training.objectives.seq2seq import seq2seq
from headway.training.tasks.common import Say, model_of, spooled, start_of, tokenizer_of
from headway.training.work import Place, Work


def prepare(config: TrainConfig, place: Place, say: Say) -> Work:
    config = config.model_copy(update={"data": spooled(config.data, place)})
    start = start_of(config)
    tokenizer = tokenizer_of(config, place, start, lambda: _texts(config), say)
    special = special_of(tokenizer) if start is None else start.model.config.special

    length = min(config.length, getattr(None if start is None else start.model.config, "length", None) or config.length)

    def made(pairs: Iterable[tuple[str, str, str]]) -> Seq2SeqPairs:
        return Seq2SeqPairs.of(pairs, tokenizer, special, length=length, cut=config.data.cut)

    d = config.data
    if d.validation or not d.held:
        train = made(pairs_of(d, d.train))
        held = made(pairs_of(d, d.validation)) if d.validation else None
    else:
        sides = hold_out(list(pairs_of(d, d.train)), d.held, said=lambda pair: f"{pair[1]}\0{pair[2]}")
        train, held = (made(side) for side in sides)
    wanted = (
        sized_seq2seq(config.model, vocabulary=tokenizer.size, length=config.length, special=special)
        if start is None
        else start.model.config
    )
    say(f"{len(train):,} pairs, {0 if held is None else len(held):,} held out")
    return Work(config, model_of(config, wanted, start, say), seq2seq, train, held, tokenizer)


def _texts(config: TrainConfig) -> Iterator[str]:
    for _, source, target in pairs_of(config.data, config.data.train):
        yield source
        yield target
