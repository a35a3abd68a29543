"""Language models: the next token of texts. Data is tokenised once, into files that are mapped into memory."""

import math
import time
from collections.abc import Callable, Iterable, Iterator

from headway.config.train import TrainConfig
from headway.data.paths import fingerprint
from headway.data.shard_writer import TokenizingProgress, build
from headway.data.shards import Shards, TokenView
from headway.data.source import documents
from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_training import digest
from headway.data.windows import Packed, Windows
from headway.presets.sized import sized_language
from headway.training.objectives.language import language
from headway.training.tasks.common import Say, model_of, special_of, spooled, start_of, tokenizer_of
from headway.training.work import Place, Work

LEARNT = 32 * 2**20  # characters that a tokenizer is learnt from at most


def prepare(config: TrainConfig, place: Place, say: Say) -> Work:
    config = config.model_copy(update={"data": spooled(config.data, place)})
    start = start_of(config)
    tokenizer = tokenizer_of(config, place, start, lambda: _some(_texts(config, config.data.train)), say)
    train, validation = _shards(config, place, tokenizer, say)
    wanted = (
        sized_language(config.model, vocabulary=tokenizer.size, length=config.length, special=special_of(tokenizer))
        if start is None
        else start.model.config
    )
    length = min(config.length, wanted.length)
    packed, held = config.data.packed, None
    examples = Packed(train, length) if packed else Windows(train, length)
    if validation is not None:
        name = "the held-out data"
        held = Packed(validation, length, name=name) if packed else Windows(validation, length, shift=False, name=name)
    # The first token of a view is context alone, and is never asked for; in packed documents that holds for each.
    rate = None if validation is None or packed else validation.bytes / max(validation.total - 1, 1)
    return Work(
        config, model_of(config, wanted, start, say), language, examples, held, tokenizer,
        measures=lambda row: {"perplexity": math.exp(min(row["loss"], 700.0)), **_bits(row["loss"], rate)},
    )  # fmt: skip


def _bits(loss: float, bytes_per_token: float | None) -> dict[str, float]:
    return {} if not bytes_per_token else {"bits_per_byte": loss / math.log(2) / bytes_per_token}


def _shards(config: TrainConfig, place: Place, tokenizer: Tokenizer, say: Say) -> tuple[TokenView, TokenView | None]:
    data = config.data
    train = _built(config, data.train, place, "train", tokenizer, say)
    if data.validation:
        return train.view(), _built(config, data.validation, place, "validation", tokenizer, say).view()
    return train.split(data.held) if data.held else (train.view(), None)


def _built(
    config: TrainConfig, places: tuple[str, ...], place: Place, name: str, tokenizer: Tokenizer, say: Say
) -> Shards:
    d = config.data
    identity = f"{fingerprint(places)} {d.format} {d.document} {d.text} {digest(tokenizer)}"
    found = documents(places, format=d.format, column=d.text, document=d.document)
    return build(found, tokenizer, place.data / name, identity=identity, progress=_told(name, say))


def _told(name: str, say: Say) -> Callable[[TokenizingProgress], None]:
    """A line every few seconds."""
    last = time.monotonic()

    def tell(now: TokenizingProgress) -> None:
        nonlocal last
        if time.monotonic() - last > 5:
            last = time.monotonic()
            say(f"tokenises the {name} data: {now.tokens:,} tokens of {now.documents:,} documents")

    return tell


def _texts(config: TrainConfig, places: tuple[str, ...]) -> Iterator[str]:
    d = config.data
    for one in documents(places, format=d.format, column=d.text, document=d.document):
        yield one.text


def _some(texts: Iterable[str]) -> Iterator[str]:
    total = 0
    for text in texts:
        yield text
        total += len(text)
        if total > LEARNT:
            return
