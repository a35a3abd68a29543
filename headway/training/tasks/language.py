"""Models that write text: the next token, or a target for a source (by a Transformer or by Bahdanau's recurrent model).

Data is tokenised once; that of language models goes into files that are mapped into memory.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch

from headway.config.run_files import RunFiles
from headway.config.text import ModuleConfig
from headway.config.train import TrainConfig
from headway.data.instructions import Dialogue, Instructions, Preference, Preferences, conversations, preferences
from headway.data.labelled import hold_out
from headway.data.paths import fingerprint
from headway.data.shard_writer import TokenizingProgress, build
from headway.data.shards import Shards, TokenView
from headway.data.source import documents_of
from headway.data.text_pairs import Seq2SeqPairs, pairs_of, seq2seq_special_tokens
from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_training import digest
from headway.data.windows import PackedDocuments, Windows
from headway.hub import load
from headway.hub.load import Loaded
from headway.hub.target import directory
from headway.models.language import Language
from headway.presets.sized import sized_language, sized_seq2seq
from headway.training.objectives import (
    Objective,
    TrainingSetup,
    distillation_loss,
    language_loss,
    preference_loss,
    seq2seq_loss,
)
from headway.training.tasks.common import Say, model_of, special_tokens, spooled, start_of, tokenizer_of

LEARNT = 32 * 2**20  # characters that a tokenizer is learnt from at most


def prepare_language(config: TrainConfig, place: RunFiles, say: Say) -> TrainingSetup:
    config = spooled(config, place)
    start, teacher = start_of(config), teacher_of(config)
    config = _as_teacher(config, start, teacher)
    tokenizer = tokenizer_of(config, place, start, lambda: _at_most(_texts(config, config.data.train)), say)
    train, validation = _shards(config, place, tokenizer, say)
    wanted = (
        sized_language(config.model, vocabulary=tokenizer.size, length=config.length, special=special_tokens(tokenizer))
        if start is None
        else start.model.config
    )
    if isinstance(wanted, ModuleConfig):
        wanted = wanted.replace(special=special_tokens(tokenizer))
        _check_module(config, wanted)
    length = min(config.length, wanted.length)
    packed, held = config.data.packed, None
    examples = PackedDocuments(train, length) if packed else Windows(train, length)
    if validation is not None:
        name = "the held-out data"
        held = (
            PackedDocuments(validation, length, name=name)
            if packed
            else Windows(validation, length, shift=False, name=name)
        )
    # The first token of a view is context alone, and is never asked for; in packed documents that holds for each.
    rate = None if validation is None or packed else validation.bytes / max(validation.total - 1, 1)
    model = model_of(config, wanted, start, say)
    return TrainingSetup(
        config, model, _objective(config, model, tokenizer, length, teacher), examples, held, tokenizer,
        reference=None if teacher is None else teacher.model,
        unverified={**train.shards.unverified, **({} if validation is None else validation.shards.unverified)},
        measures=lambda row: {"perplexity": math.exp(min(row["loss"], 700.0)), **_bits(row["loss"], rate)},
    )  # fmt: skip


def prepare_instruct(config: TrainConfig, place: RunFiles, say: Say) -> TrainingSetup:
    """Answers of conversations, learnt from what stands before them."""
    config = spooled(config, place)
    start, teacher, d = start_of(config), teacher_of(config), config.data
    config = _as_teacher(config, start, teacher)
    everything = list(conversations(d, d.train))
    tokenizer = _chat_tokenizer(config, place, start, everything, say)
    wanted = (
        sized_language(config.model, vocabulary=tokenizer.size, length=config.length, special=special_tokens(tokenizer))
        if start is None
        else start.model.config
    )

    def made(found: list[Dialogue]) -> Instructions:
        return Instructions(found, tokenizer, length=min(config.length, wanted.length), cut=d.cut)

    if d.validation or not d.held:
        train, held = made(everything), made(list(conversations(d, d.validation))) if d.validation else None
    else:
        train, held = (made(side) for side in hold_out(everything, d.held, text_of=lambda one: one.text))
    say(f"{len(train):,} conversations, {0 if held is None else len(held):,} held out")
    model = model_of(config, wanted, start, say)
    objective = _objective(config, model, tokenizer, min(config.length, wanted.length), teacher)
    return TrainingSetup(
        config, model, objective, train, held, tokenizer, reference=None if teacher is None else teacher.model,
        measures=lambda row: {"perplexity": math.exp(min(row["loss"], 700.0))},
    )  # fmt: skip


def _chat_tokenizer(
    config: TrainConfig, place: RunFiles, start: Loaded | None, everything: Iterable[Dialogue], say: Say
) -> Tokenizer:
    texts = lambda: (str(one.get("content", "")) for found in everything for one in found.messages)  # noqa: E731
    tokenizer_of(config, place, start, texts, say)
    tokenizer = Tokenizer.read(place.tokenizer)  # the template's special tokens are tokens, those of messages are text
    assert tokenizer is not None
    return tokenizer


def prepare_dpo(config: TrainConfig, place: RunFiles, say: Say) -> TrainingSetup:
    """Of two answers the one that is preferred becomes likelier, beside what the start made of both."""
    config = spooled(config, place)
    start, d = start_of(config), config.data
    assert start is not None
    everything = list(preferences(d, d.train))
    tokenizer = _chat_tokenizer(config, place, start, (one.chosen for one in everything), say)
    length = min(config.length, start.model.config.length)

    def made(found: list[Preference]) -> Preferences:
        return Preferences(found, tokenizer, length=length, cut=d.cut)

    if d.validation or not d.held:
        train, held = made(everything), made(list(preferences(d, d.validation))) if d.validation else None
    else:
        train, held = (made(side) for side in hold_out(everything, d.held, text_of=lambda one: one.chosen.text))
    say(f"{len(train):,} preferences, {0 if held is None else len(held):,} held out")
    # With adapters the model without them is the reference; otherwise the weights that the start came with.
    reference: Any = None if config.lora.rank else start.model.to(getattr(torch, config.dtype))
    model = model_of(config, start.model.config, start, say)
    objective = partial(preference_loss, reference=reference, beta=config.dpo.beta)
    return TrainingSetup(config, model, objective, train, held, tokenizer, reference=reference)


def teacher_of(config: TrainConfig) -> Loaded | None:
    """The model to learn from, in the precision that it is stored in."""
    where = config.distil.teacher
    if where is None:
        return None
    found = load(directory(where).path)
    if not isinstance(found.model, Language):
        kind = found.model.config.kind
        raise ValueError(
            f"distil.teacher {where} holds a {kind} model, and a language model learns from a language model"
        )
    return found


def _as_teacher(config: TrainConfig, start: Loaded | None, teacher: Loaded | None) -> TrainConfig:
    """A fresh model has the tokenizer of its teacher, where no other is named."""
    if teacher is None or start is not None or config.tokenizer.path is not None:
        return config
    if teacher.tokenizer is None:
        raise ValueError(f"distil.teacher {config.distil.teacher} has no tokenizer: name one with tokenizer.path")
    return config.replace("tokenizer", path=str(directory(str(config.distil.teacher)).path))


def _objective(config: TrainConfig, model: Any, tokenizer: Tokenizer, length: int, teacher: Loaded | None) -> Objective:
    """The loss of the text, or that and the distance from a teacher who reads the same tokens."""
    if teacher is None:
        return language_loss
    where, c = config.distil.teacher, teacher.model.config
    if not isinstance(model, Language):
        raise ValueError(f"a {model.config.kind} model has no teacher: leave distil.teacher {where} out")
    if c.vocabulary != model.config.vocabulary:
        raise ValueError(f"distil.teacher {where} tells {c.vocabulary:,} tokens apart and the model "
                         f"{model.config.vocabulary:,}: a teacher has the model's vocabulary")  # fmt: skip
    if teacher.tokenizer is not None:
        theirs, ours = (one.engine.get_vocab() for one in (teacher.tokenizer, tokenizer))
        if other := [token for token in ours if theirs.get(token) != ours[token]]:
            raise ValueError(f"distil.teacher {where} has another vocabulary: the model's tokenizer has {other[0]!r} "
                             f"as number {ours[other[0]]}, and the teacher's does not")  # fmt: skip
    if c.length < length:
        raise ValueError(f"distil.teacher {where} reads {c.length} tokens, and the length is {length}: lower `length`")
    second: Any = teacher.model
    return partial(
        distillation_loss, teacher=second, temperature=config.distil.temperature, weight=config.distil.weight
    )


def _check_module(config: TrainConfig, wanted: ModuleConfig) -> None:
    """Refuse what would have no effect on a module of the user's own."""
    parallel = config.parallel
    given = {"data.packed": config.data.packed, "checkpointing": config.checkpointing,
             "parallel.tensor": parallel.tensor > 1, "parallel.kind fsdp": parallel.kind == "fsdp"}  # fmt: skip
    if unread := [name for name, is_given in given.items() if is_given]:
        raise ValueError(f"{wanted.function} is a module of your own, which {unread[0]} has no effect on: leave it out")


def _bits(loss: float, bytes_per_token: float | None) -> dict[str, float]:
    return {} if not bytes_per_token else {"bits_per_byte": loss / math.log(2) / bytes_per_token}


def _shards(config: TrainConfig, place: RunFiles, tokenizer: Tokenizer, say: Say) -> tuple[TokenView, TokenView | None]:
    data = config.data
    train = _build_shards(config, data.train, place, "train", tokenizer, say)
    if data.validation:
        return train.view(), _build_shards(config, data.validation, place, "validation", tokenizer, say).view()
    return train.split(data.held) if data.held else (train.view(), None)


def _build_shards(
    config: TrainConfig, places: tuple[str, ...], place: RunFiles, name: str, tokenizer: Tokenizer, say: Say
) -> Shards:
    d = config.data
    identity = f"{fingerprint(places)} {d.format} {d.document} {d.text} {digest(tokenizer)}"
    return build(
        documents_of(d, places), tokenizer, place.data / name, identity=identity, progress=_report_progress(name, say)
    )


def _report_progress(name: str, say: Say) -> Callable[[TokenizingProgress], None]:
    """A line every few seconds."""
    last = time.monotonic()

    def tell(now: TokenizingProgress) -> None:
        nonlocal last
        if time.monotonic() - last > 5:
            last = time.monotonic()
            say(f"tokenises the {name} data: {now.tokens:,} tokens of {now.documents:,} documents")

    return tell


def _texts(config: TrainConfig, places: tuple[str, ...]) -> Iterator[str]:
    yield from (one.text for one in documents_of(config.data, places))


def _at_most(texts: Iterable[str]) -> Iterator[str]:
    total = 0
    for text in texts:
        yield text
        total += len(text)
        if total > LEARNT:
            return


def prepare_seq2seq(config: TrainConfig, place: RunFiles, say: Say) -> TrainingSetup:
    config = spooled(config, place)
    start = start_of(config)
    tokenizer = tokenizer_of(config, place, start, lambda: _pair_texts(config), say)
    special = seq2seq_special_tokens(tokenizer) if start is None else start.model.config.special

    length = min(config.length, getattr(None if start is None else start.model.config, "length", None) or config.length)

    def made(pairs: Iterable[tuple[str, str, str]]) -> Seq2SeqPairs:
        return Seq2SeqPairs.of(pairs, tokenizer, special, length=length, cut=config.data.cut)

    d = config.data
    if d.validation or not d.held:
        train = made(pairs_of(d, d.train))
        held = made(pairs_of(d, d.validation)) if d.validation else None
    else:
        sides = hold_out(list(pairs_of(d, d.train)), d.held, text_of=lambda pair: f"{pair[1]}\0{pair[2]}")
        train, held = (made(side) for side in sides)
    wanted = (
        sized_seq2seq(config.model, vocabulary=tokenizer.size, length=config.length, special=special)
        if start is None
        else start.model.config
    )
    say(f"{len(train):,} pairs, {0 if held is None else len(held):,} held out")
    return TrainingSetup(config, model_of(config, wanted, start, say), seq2seq_loss, train, held, tokenizer)


def _pair_texts(config: TrainConfig) -> Iterator[str]:
    for _, source, target in pairs_of(config.data, config.data.train):
        yield source
        yield target
