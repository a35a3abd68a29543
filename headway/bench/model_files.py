"""Models on disk that every library can read: published sizes with random weights, and names for their tokens."""

import json
from pathlib import Path
from typing import Any

import torch

from headway.config import Frozen
from headway.config.text import Seq2SeqConfig
from headway.hub import save
from headway.models import build


def random_model(config: Frozen, place: Path, *, seed: int = 0) -> Path:
    """A directory with random weights of this configuration and a vocabulary of t0, t1, …; written once."""
    if not place.exists():
        model: Any = build(config, seed=seed).eval()
        if isinstance(config, Seq2SeqConfig) and config.special.pad is not None:
            # As in Marian's own models, whose decoders begin with padding; CTranslate2 takes it for granted.
            with torch.no_grad():
                model.tokens.weight[config.special.pad] = 0.0
        save(model, place)
        _name_tokens(place, config.vocabulary)  # type: ignore[attr-defined]
    return place


def _name_tokens(place: Path, count: int) -> None:
    """tokenizer.json: whole words, so that a token is a name and a name is a token.

    Token 0 ends a text, 1 is any other word, and the last one is padding, as in Marian's vocabularies.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    names = ["</s>", "<unk>", *(f"t{number}" for number in range(2, count - 1)), "<pad>"]
    engine = Tokenizer(WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    engine.pre_tokenizer = WhitespaceSplit()  # type: ignore[assignment]
    engine.save(str(place / "tokenizer.json"))
    special = {"bos_token": "</s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **special}
    (place / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
