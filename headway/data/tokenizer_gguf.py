"""The tokenizer that a GGUF file describes: pairs of bytes, with the rule by which a text is cut first."""

from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Engine

_KEY = "tokenizer.ggml."
CONTROL, USER_DEFINED = 3, 4  # types of tokens that are found whole in a text
SPECIAL = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
# Llama 3 and Qwen2 cut numbers into runs of at most three digits, or one.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,%s}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _bytes() -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _by_words(digits: int) -> Any:
    cut = pre_tokenizers.Split(Regex(_WORDS % digits), "isolated")
    return pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


# What a file calls the rule -> how the tokenizers library says it.
RULES = {
    "gpt-2": _bytes,
    "default": _bytes,
    "smollm": lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _bytes()]),
    "llama-bpe": lambda: _by_words(3),
    "qwen2": lambda: _by_words(1),
}


def unreadable(metadata: Mapping[str, Any]) -> str:
    """Why headway cannot make the tokenizer; empty where it can."""
    kind, rule = metadata.get(f"{_KEY}model"), metadata.get(f"{_KEY}pre", "default")
    if kind is None or f"{_KEY}tokens" not in metadata:
        return "it has no tokenizer"
    if kind != "gpt2":
        return f"its tokenizer is of the kind {kind!r}, and headway makes those of the kind 'gpt2'"
    if rule not in RULES:
        return f"its tokenizer cuts texts by the rule {rule!r}, and headway knows {', '.join(RULES)}"
    return "" if f"{_KEY}merges" in metadata else "its tokenizer has no merges"


def gguf_engine(metadata: Mapping[str, Any]) -> tuple[Engine, dict[str, str]]:
    """The engine, and its special tokens by the words of other files."""
    if why := unreadable(metadata):
        raise ValueError(why)
    tokens = metadata[f"{_KEY}tokens"]
    numbers = {token: number for number, token in enumerate(tokens)}
    if len(numbers) != len(tokens):
        raise ValueError("its tokenizer has one token twice")
    merges = [tuple(pair.split(" ")) for pair in metadata[f"{_KEY}merges"]]
    if any(len(pair) != 2 for pair in merges):
        raise ValueError("its tokenizer has a merge that is no pair of tokens")
    try:
        engine = Engine(models.BPE(numbers, merges))
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"its tokenizer cannot be made: {error}") from None
    engine.pre_tokenizer = RULES[metadata.get(f"{_KEY}pre", "default")]()
    engine.decoder = decoders.ByteLevel()
    special = {ours: tokens[number] for ours, number in _special_numbers(metadata, len(tokens)).items()}
    _finish(engine, metadata, tokens, special)
    return engine, special


def _special_numbers(metadata: Mapping[str, Any], size: int) -> dict[str, int]:
    found = {ours: metadata.get(f"{_KEY}{theirs}_token_id") for ours, theirs in SPECIAL.items()}
    for ours, number in found.items():
        if number is not None and not 0 <= number < size:
            raise ValueError(f"its {ours} is number {number}, and the tokenizer has {size} tokens")
    return {ours: number for ours, number in found.items() if number is not None}


def _finish(engine: Engine, metadata: Mapping[str, Any], tokens: list[str], special: Mapping[str, str]) -> None:
    """Tokens that are found whole, and one before each text where the file asks for it."""
    types = metadata.get(f"{_KEY}token_type", [1] * len(tokens))
    whole = {kind: [token for token, one in zip(tokens, types, strict=False) if one == kind]
             for kind in (CONTROL, USER_DEFINED)}  # fmt: skip
    engine.add_special_tokens([AddedToken(token, normalized=False) for token in whole[CONTROL]])
    engine.add_tokens([AddedToken(token, normalized=False) for token in whole[USER_DEFINED]])
    begin = special.get("bos_token")
    if metadata.get(f"{_KEY}add_bos_token") and begin is not None:
        number = engine.token_to_id(begin)
        engine.post_processor = processors.TemplateProcessing(single=f"{begin} $A", special_tokens=[(begin, number)])
    else:
        engine.post_processor = processors.ByteLevel(trim_offsets=False)
