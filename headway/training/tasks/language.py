"""Models that write text: the next token, or a target for a source (by a Transformer or by Bahdanau's recurrent model).

Data is tokenised once; that of language models goes into files that are mapped into memory.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator

from headway.config.run_files import RunFiles
from headway.config.text import ModuleConfig
from headway.config.train import TrainConfig
from headway.data.instructions import Dialogue, Instructions, conversations
from headway.data.labelled import hold_out
from headway.data.paths import fingerprint
from headway.data.shard_writer import TokenizingProgress, build
from headway.data.shards import Shards, TokenView
from headway.data.source import documents_of
from headway.data.text_pairs import Seq2SeqPairs, pairs_of, seq2seq_special_tokens
from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_training import digest
from headway.data.windows import PackedDocuments, Windows
from headway.presets.sized import sized_language, sized_seq2seq
from headway.training.objectives import TrainingSetup, language, seq2seq
from headway.training.tasks.common import Say, model_of, special_tokens, spooled, start_of, tokenizer_of

LEARNT = 32 * 2**20  # characters that a tokenizer is learnt from at most


def prepare_language(config: TrainConfig, place: RunFiles, say: Say) -> TrainingSetup:
    config = spooled(config, place)
    start = start_of(config)
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
    return TrainingSetup(
        config, model_of(config, wanted, start, say), language, examples, held, tokenizer,
        unverified={**train.shards.unverified, **({} if validation is None else validation.shards.unverified)},
        measures=lambda row: {"perplexity": math.exp(min(row["loss"], 700.0)), **_bits(row["loss"], rate)},
    )  # fmt: skip


def prepare_instruct(config: TrainConfig, place: RunFiles, say: Say) -> TrainingSetup:
    """Answers of conversations, learnt from what stands before them."""
    config = spooled(config, place)
    start, d = start_of(config), config.data
    everything = list(conversations(d, d.train))
    texts = lambda: (str(one.get("content", "")) for found in everything for one in found.messages)  # noqa: E731
    tokenizer_of(config, place, start, texts, say)
    tokenizer = Tokenizer.read(place.tokenizer)  # the template's special tokens are tokens, those of messages are text
    assert tokenizer is not None
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
    return TrainingSetup(
        config, model_of(config, wanted, start, say), language, train, held, tokenizer,
        measures=lambda row: {"perplexity": math.exp(min(row["loss"], 700.0))},
    )  # fmt: skip


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
    return TrainingSetup(config, model_of(config, wanted, start, say), seq2seq, train, held, tokenizer)


def _pair_texts(config: TrainConfig) -> Iterator[str]:
    for _, source, target in pairs_of(config.data, config.data.train):
        yield source
        yield target
