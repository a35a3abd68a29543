"""Tokenizers learnt from the text that a model will be trained on, or read from a file.

byte        256 bytes, each its own number                                   any text comes back exactly
character   every character of the data; another one is unknown              known text comes back exactly
bpe         pairs of bytes merged, most frequent first (arXiv:1508.07909)    any text comes back exactly
wordpiece   BERT's: words, and pieces that continue a word (##)              spaces do not come back
unigram     the likeliest pieces of bytes (arXiv:1804.10959)                 any text comes back exactly

The same text gives the same tokenizer, token by token.

>>> known = train_tokenizer(["to be or not to be"], TokenizerConfig(kind="character"), task="language")
>>> known.size, known.decode(known.encode("not to be"))
(9, 'not to be')
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Engine

from headway.config.file_errors import errors_of_library
from headway.config.read_file import read_bytes
from headway.config.size_limits import LARGE_BYTES
from headway.config.train import Task, TokenizerConfig
from headway.data import unigram
from headway.data.shards import tokenizer_hash as digest
from headway.data.tokenizer import FILE, Tokenizer
from headway.data.tokenizer_files import usual

__all__ = ["digest", "train_tokenizer", "literal", "read_tokenizer"]
BRACKETS = {
    "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]",
}  # fmt: skip
# The special tokens of a task, in the order of their numbers.
ROLES: dict[Task, dict[str, str]] = {
    "language": {"eos_token": "<|end|>"},
    "instruct": {"eos_token": "<|end|>"},
    "dpo": {"eos_token": "<|end|>"},
    "seq2seq": {"pad_token": "<|pad|>", "bos_token": "<|start|>", "eos_token": "<|end|>"},
    "masked": BRACKETS,
    "classify": BRACKETS,
    "embed": BRACKETS,
}
NEEDED: dict[Task, tuple[str, ...]] = {
    "language": ("end",), "instruct": ("end",), "dpo": ("end",), "seq2seq": ("pad", "end"),
    "masked": ("begin", "end", "pad", "mask"), "classify": ("begin", "end", "pad"), "embed": ("begin", "end"),
}  # fmt: skip
UNKNOWN = {"unk_token": "<unk>"}
CONTINUED = "##"
WORD = 512  # characters of a word that something is learnt from; a longer one is several
ENDLESS = re.compile(rf"\S{{{WORD}}}")
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig, *, task: Task) -> Tokenizer:
    """A tokenizer of the kind and size that `config` asks for, with the special tokens of the task.

    Texts are read once, one after the other. Words of special tokens that stand in them are learnt as ordinary text;
    `literal` reads them so too.
    """
    if task not in ROLES:
        raise ValueError(f"the task {task} has no text, and needs no tokenizer")
    if config.path is not None:
        return read_tokenizer(config.path, task)
    special = dict(ROLES[task])
    if config.kind in ("character", "wordpiece"):
        special = {**UNKNOWN, **special}
    engine = KINDS[config.kind](_some(texts), config, special)
    _post_process(engine, special, task)
    return Tokenizer(engine, special)


def read_tokenizer(path: str | Path, task: Task) -> Tokenizer:
    """The tokenizer of a file or of a directory, which must have the special tokens that the task needs."""
    place = Path(path)
    if place.is_dir() or place.name == FILE:
        found = Tokenizer.read(place if place.is_dir() else place.parent) if place.exists() else None
    else:
        found = _of_file(place)
    if found is None:
        raise ValueError(f"there is no tokenizer in {place}: give a {FILE}, or a directory that has one")
    if not found.special:
        known = {**UNKNOWN, **ROLES[task]}
        found.special = {key: word for key, word in known.items() if found.engine.token_to_id(word) is not None}
    numbers = {"begin": found.begin, "end": found.end, "pad": found.pad, "mask": found.mask}
    if missing := [name for name in NEEDED[task] if numbers[name] is None]:
        raise ValueError(
            f"the tokenizer in {place} has no token for {', '.join(missing)}, which the task {task} needs: name it in "
            "the tokenizer_config.json beside it, or train a tokenizer (tokenizer.kind)"
        )
    return found


def literal(tokenizer: Tokenizer) -> Tokenizer:
    """The same tokenizer for data: a special token's word in a text is text, as whoever wrote it meant it.

    (In a prompt it is the token: "Paris is the [MASK] of France". A file of data must not be able to say such things.)
    """
    engine = Engine.from_str(tokenizer.engine.to_str())
    engine.encode_special_tokens = True
    return Tokenizer(engine, dict(tokenizer.special), chat_template=tokenizer.chat_template)


def _byte(texts: Iterator[str], config: TokenizerConfig, special: dict[str, str]) -> Engine:
    _room(config, 256, special, "256 bytes")
    # In the order of their numbers: the engine writes byte b as chr(b) where that can be seen, the rest from 256 on.
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    written = {**{byte: chr(byte) for byte in seen}, **{byte: chr(256 + at) for at, byte in enumerate(hidden)}}
    any(texts)  # nothing is learnt from them, but whoever gives none has made a mistake
    engine = Engine(models.BPE({written[byte]: byte for byte in range(256)}, []))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    engine.decoder = decoders.ByteLevel()
    return _dress(engine, config, special)


def _character(texts: Iterator[str], config: TokenizerConfig, special: dict[str, str]) -> Engine:
    found: set[str] = set()
    for text in texts:
        found.update(text.lower() if config.lower else text)
    _room(config, len(found), special, f"{len(found):,} different characters")
    words = [*special.values(), *sorted(found)]
    # Pairs that are never merged: the fastest of the library's ways to cut a text everywhere.
    engine = Engine(models.BPE({word: at for at, word in enumerate(words)}, [], unk_token=special["unk_token"]))
    engine.decoder = decoders.Fuse()
    return _dress(engine, config, special)


def _bpe(texts: Iterator[str], config: TokenizerConfig, special: dict[str, str]) -> Engine:
    _room(config, 256, special, "256 bytes")
    engine = _dress(_of_bytes(Engine(models.BPE())), config, {})
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary,
        special_tokens=list(special.values()),
        initial_alphabet=BYTES,
        show_progress=False,
    )
    engine.train_from_iterator(texts, trainer)
    return _dress(engine, config, special)


def _unigram(texts: Iterator[str], config: TokenizerConfig, special: dict[str, str]) -> Engine:
    _room(config, 256, special, "256 bytes")
    split = _of_bytes(Engine(models.BPE())).pre_tokenizer
    words: Counter[str] = Counter()
    for text in texts:
        words.update(word for word, _ in split.pre_tokenize_str(text.lower() if config.lower else text))
    pieces = unigram.learn(words, config.vocabulary - len(special), alphabet=BYTES)
    # A special token's score is never looked at: letters and signs, as every such word has, are cut apart before.
    engine = Engine(models.Unigram([*((word, 0.0) for word in special.values()), *pieces], None, False))
    return _dress(_of_bytes(engine), config, special)


def _wordpiece(texts: Iterator[str], config: TokenizerConfig, special: dict[str, str]) -> Engine:
    normalizer = normalizers.BertNormalizer(lowercase=config.lower)
    chunks: Counter[str] = Counter()
    for text in texts:
        chunks.update(normalizer.normalize_str(text).split())
    letters = sorted(set().union(*chunks))
    _room(config, 2 * len(letters), special, f"{len(letters):,} characters that begin or continue a word")
    # The library would number continued letters as a random order finds them, so they are given to it in order.
    first = [*special.values(), *(CONTINUED + letter for letter in letters)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=config.vocabulary, special_tokens=first, initial_alphabet=letters, show_progress=False
    )
    learner = Engine(models.WordPiece(unk_token=special["unk_token"]))
    learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    learner.train_from_iterator(((chunk + " ") * count for chunk, count in sorted(chunks.items())), trainer)
    engine = Engine(models.WordPiece(learner.get_vocab(with_added_tokens=True), unk_token=special["unk_token"]))
    engine.normalizer, engine.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(prefix=CONTINUED)
    return _dress(engine, config, special)


KINDS = {"byte": _byte, "character": _character, "bpe": _bpe, "wordpiece": _wordpiece, "unigram": _unigram}


def _of_bytes(engine: Engine) -> Engine:
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    return engine


def _dress(engine: Engine, config: TokenizerConfig, special: dict[str, str]) -> Engine:
    if config.lower and engine.normalizer is None:
        engine.normalizer = normalizers.Lowercase()
    engine.add_special_tokens([AddedToken(word, normalized=False) for word in special.values()])
    return engine


def _post_process(engine: Engine, special: dict[str, str], task: Task) -> None:
    """[CLS] a [SEP] b [SEP] for those who read whole texts, a and its end for those who translate."""
    continues = dict.fromkeys(("language", "instruct", "dpo"), ("", ""))
    single, pair = {**continues, "seq2seq": ("$A {end}", "$A {end} $B:1 {end}:1")}.get(
        task, ("{begin} $A {end}", "{begin} $A {end} $B:1 {end}:1")
    )
    if not single:
        return
    words = {"begin": special.get("cls_token", ""), "end": special.get("sep_token") or special["eos_token"]}
    used = [(word, engine.token_to_id(word)) for word in words.values() if word]
    engine.post_processor = processors.TemplateProcessing(
        single=single.format(**words), pair=pair.format(**words), special_tokens=used
    )


def _some(texts: Iterable[str]) -> Iterator[str]:
    """The texts, of which at least one must have something in it."""
    empty = True
    for text in texts:
        empty = empty and not text
        yield from _cut(text)
    if empty:
        raise ValueError("there is no text to learn a tokenizer from: the data is empty")


def _cut(text: str) -> Iterator[str]:
    """The text in pieces without endless words: learning takes time by the square of a word's length.

    >>> [len(piece) for piece in _cut("a" * 1_200 + " word")]
    [512, 512, 181]
    """
    begun = 0
    for found in ENDLESS.finditer(text) if len(text) > WORD else ():
        yield text[begun : found.end()]
        begun = found.end()
    if begun < len(text) or not text:
        yield text[begun:]


def _room(config: TokenizerConfig, needed: int, special: dict[str, str], what: str) -> None:
    if config.vocabulary < needed + len(special):
        raise ValueError(
            f"a vocabulary of {config.vocabulary:,} is too small for {what} and {len(special)} special tokens: set "
            f"tokenizer.vocabulary to {needed + len(special):,} or more, or tokenizer.kind to byte or bpe"
        )


def _of_file(place: Path) -> Tokenizer | None:
    if not place.exists():
        return None
    with errors_of_library(place, "tokenizer"):
        engine = Engine.from_buffer(read_bytes(place, LARGE_BYTES))
    return Tokenizer(engine, usual(engine))
