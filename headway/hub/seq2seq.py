"""What the families of encoder-decoders share: the decoder's block, forced tokens, and a look at what was written."""

from collections.abc import Callable, Mapping
from typing import Any

from headway.config import BlockConfig
from headway.config.seq2seq import Forced, Seq2SeqConfig
from headway.hub.table import Entry, Table


def decoding(block: BlockConfig) -> BlockConfig:
    """The decoder's block beside an encoder's: causal, and with cross-attention of the same size."""
    own = block.attention
    return block.model_copy(update={"attention": own.model_copy(update={"causal": True}), "cross": own})


def forced_of(config: Mapping[str, Any]) -> Forced:
    """The tokens that decoding must or must not produce; words of several tokens and choices are refused.

    >>> forced_of({"forced_bos_token_id": 7, "bad_words_ids": [[3], [5]]})
    Forced(first=7, last=None, never=(3, 5))
    """
    first = config.get("forced_bos_token_id")
    if first is None and config.get("force_bos_token_to_be_generated"):
        first = config.get("bos_token_id")
    words = config.get("bad_words_ids") or []
    if any(len(word) != 1 for word in words):
        raise ValueError(f"headway forbids single tokens, and bad_words_ids={words} holds words of several")
    return Forced(first=first, last=_one(config, "forced_eos_token_id"), never=tuple(word[0] for word in words))


def _one(config: Mapping[str, Any], key: str) -> int | None:
    found = config.get(key)
    if isinstance(found, list | tuple) and len(found) != 1:
        raise ValueError(f"headway ends a text with one token, and config.json says {key}={found}")
    return found[0] if isinstance(found, list | tuple) else found


def forced_to(forced: Forced) -> dict[str, Any]:
    """The same, as config.json says it."""
    words = {"bad_words_ids": [[token] for token in forced.never]} if forced.never else {}
    first = {} if forced.first is None else {"forced_bos_token_id": forced.first}
    return {**first, "forced_eos_token_id": forced.last, **words}


def certain(
    config: Seq2SeqConfig,
    said: dict[str, Any],
    *,
    read: Callable[[Mapping[str, Any], frozenset[str]], Seq2SeqConfig],
    table: Callable[[Seq2SeqConfig], Table],
) -> dict[str, Any]:
    """What was written, if reading it gives the configuration back: a layout cannot say everything."""
    names = frozenset(row.theirs for row in table(config) if isinstance(row, Entry))
    found = read(said, names)
    for name in type(config).model_fields:
        if getattr(found, name) != getattr(config, name):
            raise ValueError(
                f"the layout of {config.family} cannot say {name} as this model has it: save it with family='headway'"
            )
    return said
