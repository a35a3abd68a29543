"""Engines from the files that came before tokenizer.json: GPT-2's and BART's pairs of bytes, BERT's pieces of words.

Special tokens that no file names are those that every directory of the kind has.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Engine

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


def build(place: Path, said: Mapping[str, Any]) -> Engine | None:
    """The engine of a directory with a vocabulary of either kind; None where there is none, or of another kind."""
    name = _name(said)
    if all((place / file).exists() for file in PAIRS):
        return _byte_pairs(place, said, name)
    return _word_pieces(place, said, name) if (place / PIECES).exists() else None


def _byte_pairs(place: Path, said: Mapping[str, Any], name: str) -> Engine | None:
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
