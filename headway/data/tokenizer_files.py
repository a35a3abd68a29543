"""Engines from the files that came before tokenizer.json: GPT-2's and BART's pairs of bytes, BERT's pieces of words.

Special tokens that no file names are those that every directory of the kind has.

Marian's files are source.spm, target.spm (SentencePiece), and vocab.json, which numbers pieces. A source is split by
source.spm alone; a target may hold any piece of the vocabulary. So pieces that only the target knows carry a mark that
no text has: they are never found in one, and the mark is taken off when tokens become text. A letter that source.spm
does not know keeps its number where the vocabulary has one.
"""

import re
import struct
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Engine

from headway.config.file_errors import errors_of_library
from headway.config.read_file import open_file, parse_json, read_bytes, read_object
from headway.config.size_limits import LARGE_BYTES, PIECE_BYTES, VOCABULARY

PAIRS, PIECES = ("vocab.json", "merges.txt"), "vocab.txt"
_ENDLESS = "<|endoftext|>"
# The special tokens of a kind, by the words of the files; the first of each is what the kind is told by.
BERT = {
    "sep_token": "[SEP]", "cls_token": "[CLS]", "pad_token": "[PAD]", "mask_token": "[MASK]", "unk_token": "[UNK]",
}  # fmt: skip
GPT2 = {"eos_token": _ENDLESS, "bos_token": _ENDLESS, "unk_token": _ENDLESS}
BART = {
    "eos_token": "</s>", "bos_token": "<s>", "pad_token": "<pad>", "mask_token": "<mask>", "unk_token": "<unk>",
}  # fmt: skip
# Whose vocabulary is cut into tokens as it is here; others have such files too, and cut texts in their own way.
AS_GPT2, AS_BART, AS_BERT = ("GPT2Tokenizer",), ("BartTokenizer", "RobertaTokenizer"), ("BertTokenizer",)
NEEDED = ("sep_token", "cls_token", "unk_token")


def usual(engine: Engine) -> dict[str, str]:
    """The special tokens of an engine of which no file says anything."""
    for kind in (BERT, GPT2, BART):
        if engine.token_to_id(next(iter(kind.values()))) is not None:
            return {key: word for key, word in kind.items() if engine.token_to_id(word) is not None}
    return {}


def restated(engine: Engine, said: Mapping[str, Any]) -> Engine:
    """An engine of BERT's whose settings say something else of letters than its own file: the settings hold."""
    found = engine.normalizer
    if isinstance(found, normalizers.BertNormalizer) and _name(said) in ("", *AS_BERT):
        engine.normalizer = normalizers.BertNormalizer(
            clean_text=found.clean_text,
            handle_chinese_chars=bool(said.get("tokenize_chinese_chars", found.handle_chinese_chars)),
            strip_accents=said.get("strip_accents", found.strip_accents),
            lowercase=bool(said.get("do_lower_case", found.lowercase)),
        )
    return engine


def _name(said: Mapping[str, Any]) -> str:
    return str(said.get("tokenizer_class") or "").removesuffix("Fast")


def vocabulary_engine(place: Path, said: Mapping[str, Any]) -> Engine | None:
    """The engine of a directory with a vocabulary of either kind; None where there is none, or of another kind."""
    name = _name(said)
    if all((place / file).exists() for file in PAIRS):
        return _byte_pairs(place, said, name)
    return _word_pieces(place, said, name) if (place / PIECES).exists() else None


def _byte_pairs(place: Path, said: Mapping[str, Any], name: str) -> Engine | None:
    open_file(place / PAIRS[1]).close()  # the library would wait for a pipe, and read a device for ever
    content = read_bytes(place / PAIRS[0], LARGE_BYTES)
    with errors_of_library(place / PAIRS[0], f"vocabulary with {PAIRS[1]}"):
        check_numbers(content)
        engine = Engine(models.BPE.from_file(*(str(place / file) for file in PAIRS)))
    bart = name in AS_BART or (not name and engine.token_to_id(BART["eos_token"]) is not None)
    if name not in ("", *AS_GPT2, *AS_BART) or (bart and engine.token_to_id(BART["bos_token"]) is None):
        return None
    prefix = bool(said.get("add_prefix_space", False))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    engine.decoder = decoders.ByteLevel()
    engine.post_processor = processors.ByteLevel(trim_offsets=False)
    if bart:
        end, begin = _numbered(engine, BART["eos_token"]), _numbered(engine, BART["bos_token"])
        engine.post_processor = processors.RobertaProcessing(end, begin, trim_offsets=True, add_prefix_space=prefix)
    return _with_special(engine, BART if bart else GPT2)


def _word_pieces(place: Path, said: Mapping[str, Any], name: str) -> Engine | None:
    open_file(place / PIECES).close()
    with errors_of_library(place / PIECES, "vocabulary"):
        engine = Engine(models.WordPiece.from_file(str(place / PIECES), unk_token=BERT["unk_token"]))
    if name not in ("", *AS_BERT) or None in [engine.token_to_id(BERT[key]) for key in NEEDED]:
        return None
    engine.normalizer = normalizers.BertNormalizer()
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece()
    end, begin = _numbered(engine, BERT["sep_token"]), _numbered(engine, BERT["cls_token"])
    engine.post_processor = processors.BertProcessing(end, begin)
    return _with_special(restated(engine, said), BERT)


def _numbered(engine: Engine, word: str) -> tuple[str, int]:
    number = engine.token_to_id(word)
    assert number is not None
    return word, number


def _with_special(engine: Engine, kind: Mapping[str, str]) -> Engine:
    """Special tokens are found whole in a text; BART's mask takes the space before it along."""
    known = {key: word for key, word in kind.items() if engine.token_to_id(word) is not None}
    lead = kind is BART
    engine.add_special_tokens(
        [AddedToken(word, normalized=False, lstrip=lead and key == "mask_token") for key, word in known.items()]
    )
    return engine


SOURCE, NUMBERS, APART = "source.spm", "vocab.json", "target_vocab.json"
UNKNOWN, END, PAD = "<unk>", "</s>", "<pad>"
MARK, OTHER = "\ue000", "\ue001"  # of private use; the first is not let into a text
UNIGRAM = 1
PENALTY = 10.0  # of an unknown letter, beside the least likely piece
NORMAL, USER_DEFINED = 1, 4  # the types of pieces that a text is cut into


@dataclass(frozen=True)
class SentencePiece:
    """What a SentencePiece model says: pieces with their scores, and how text is normalised first."""

    scores: dict[str, float]
    characters: bytes  # a compiled table of replacements; empty for none
    kind: int

    @classmethod
    def read(cls, path: Path) -> "SentencePiece":
        content = read_bytes(path, LARGE_BYTES)
        try:
            return cls._of(content)
        except (IndexError, KeyError, AttributeError, struct.error, ValueError):
            raise ValueError(f"{path} is not a SentencePiece model") from None

    @classmethod
    def _of(cls, content: bytes) -> "SentencePiece":
        scores: dict[str, float] = {}
        characters, kind = b"", UNIGRAM
        for field, value in fields(content):
            inner: dict[int, Any] = dict(fields(value)) if field in (1, 2, 3) and isinstance(value, bytes) else {}
            if field == 1 and inner.get(3, NORMAL) in (NORMAL, USER_DEFINED):
                (scores[inner[1].decode()],) = struct.unpack("<f", inner.get(2, bytes(4)))
            kind = inner.get(3, kind) if field == 2 else kind
            characters = inner.get(2, b"") if field == 3 else characters
        if not scores:
            raise ValueError("no pieces")
        check_characters(characters)
        return cls(scores, characters, kind)


def marian_engine(place: Path) -> Engine | None:
    """The engine of a directory with Marian's files; None where they are not there, or number each language apart."""
    if not (place / SOURCE).exists() or not (place / NUMBERS).exists() or (place / APART).exists():
        return None
    source, numbers = SentencePiece.read(place / SOURCE), read_object(place / NUMBERS, LARGE_BYTES)
    if source.kind != UNIGRAM:
        raise ValueError(
            f"{place / SOURCE} is no unigram model, and headway reads Marian's vocabularies of that kind alone"
        )
    whole = all(type(number) is int for number in numbers.values())
    if not whole or sorted(numbers.values()) != list(range(len(numbers))) or not {UNKNOWN, END} <= set(numbers):
        raise ValueError(f"{place / NUMBERS} does not number its pieces from 0 on, {UNKNOWN} and {END} among them")
    words = sorted(numbers, key=numbers.__getitem__)
    least = min(source.scores.values()) - PENALTY
    pieces = [_piece(word, source.scores, least) for word in words]
    with errors_of_library(place / SOURCE, "SentencePiece model"):
        made = Engine(models.Unigram(pieces, numbers[UNKNOWN], byte_fallback=False))
        _finish_marian(made, source.characters, numbers[END])
    made.add_special_tokens([AddedToken(word, normalized=False) for word in (UNKNOWN, END, PAD) if word in numbers])
    made.add_tokens([AddedToken(word, normalized=False) for word in words if _is_language(word)])
    return made


def _piece(word: str, scores: dict[str, float], least: float) -> tuple[str, float]:
    """How a word of the vocabulary is spelt and scored when a source is cut."""
    if word in scores:
        return word, scores[word]
    if word in (UNKNOWN, END, PAD) or _is_language(word):
        return word, 0.0
    return (word, least) if len(word) == 1 else (MARK + word, 0.0)


def _is_language(word: str) -> bool:
    """Whether it names the language to translate into, such as >>fra<<."""
    return word.startswith(">>") and word.endswith("<<")


LONG_TEXT = re.compile(rb'"[^"]{4096,}"')


LARGE_NUMBER = re.compile(rb'(?<!max_length)"\s*:\s*(\d{8,})')


def check_numbers(content: bytes) -> None:
    """Refuse a token whose number nobody has: the library counts up to it, and ends the process."""
    for number in LARGE_NUMBER.finditer(content):
        if len(number[1]) > 18 or int(number[1]) >= VOCABULARY:
            raise ValueError(f"{number[1].decode()[:40]} is the number of no token: they end below {VOCABULARY:,}")


def check_engine(content: bytes, path: Path) -> None:
    """Refuse a tokenizer.json over which the library ends the process: a damaged table of characters, or a piece of
    very many letters, for each of which it calls itself once more."""
    check_numbers(content)
    for text in LONG_TEXT.finditer(content):
        before = content[max(0, text.start() - 32) : text.start()].rstrip()
        if not before.endswith(b'"precompiled_charsmap":') and len(text[0]) > PIECE_BYTES:
            raise ValueError(f"a text of {len(text[0]):,} bytes is no piece of a vocabulary")
    if b"precompiled_charsmap" not in content:
        return
    parts = [parse_json(content, path)]
    while parts:
        part = parts.pop()
        if isinstance(part, dict) and "precompiled_charsmap" in part:
            check_characters(_decoded(part["precompiled_charsmap"]))
        parts += [one for one in (part.values() if isinstance(part, dict) else part) if isinstance(one, dict | list)]


def _decoded(text: Any) -> bytes:
    try:
        return b"" if text is None else b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise ValueError("precompiled_charsmap is no base64") from None


def check_characters(table: bytes) -> None:
    """A compiled table of characters: the size of its trie in four bytes, the trie, then text.

    >>> check_characters(bytes.fromhex("ffffffff"))
    Traceback (most recent call last):
    ValueError: a table of characters says that it has 4294967295 bytes, and has 0
    """
    if table:
        said, there = int.from_bytes(table[:4], "little"), len(table) - 4
        if said > there or said % 4 or there < 0:
            raise ValueError(f"a table of characters says that it has {said} bytes, and has {max(there, 0)}")


def _finish_marian(made: Engine, characters: bytes, end: int) -> None:
    """How SentencePiece treats spaces: outer ones go, inner ones become one, and one comes first."""
    replaced = [normalizers.Precompiled(characters)] if characters else []
    made.normalizer = normalizers.Sequence(
        [*replaced, normalizers.Replace(MARK, OTHER), normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=False)
    made.decoder = decoders.Sequence([decoders.Replace(MARK, ""), decoders.Metaspace(replacement="▁")])
    made.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, end)])


def fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer: (number, whole number) or (number, bytes), as they stand.

    >>> list(fields(bytes([0x08, 0x96, 0x01, 0x12, 0x02, 0x68, 0x69])))
    [(1, 150), (2, b'hi')]
    """
    at = 0
    while at < len(content):
        key, at = _whole(content, at)
        if key & 7 == 0:
            value, at = _whole(content, at)
        else:
            size, at = _whole(content, at) if key & 7 == 2 else ({5: 4, 1: 8}[key & 7], at)
            value, at = content[at : at + size], at + size
            if len(value) < size:
                raise ValueError("a field ends past the end")
        yield key >> 3, value


def _whole(content: bytes, at: int) -> tuple[int, int]:
    """A whole number of seven bits a byte, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte, at = content[at], at + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a whole number has at most 64 bits")
