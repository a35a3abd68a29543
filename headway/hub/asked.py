"""What a directory asks of decoding, and loading a model cannot do for it: receipts say it, and nobody is surprised.

Tokens that end, begin or are forbidden are part of a model's configuration, and are followed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.data.files import read_json, read_optional

# Their word -> the setting with which it changes nothing.
SETTINGS: dict[str, Any] = {
    "num_beams": 1, "num_beam_groups": 1, "length_penalty": 1.0, "early_stopping": False, "min_length": 0,
    "min_new_tokens": None, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0, "diversity_penalty": 0.0, "penalty_alpha": None, "suppress_tokens": None,
    "begin_suppress_tokens": None, "forced_decoder_ids": None, "sequence_bias": None, "guidance_scale": None,
    "exponential_decay_length_penalty": None, "renormalize_logits": False, "do_sample": False,
}  # fmt: skip
DRAWING: dict[str, Any] = {"temperature": 1.0, "top_k": None, "top_p": 1.0, "min_p": None, "typical_p": 1.0}


def asked(directory: Path) -> tuple[str, ...]:
    """From generation_config.json; from config.json, where older directories say it, if there is none."""
    return unfollowed(read_optional(directory / "generation_config.json") or read_json(directory / "config.json"))


def unfollowed(said: Mapping[str, Any]) -> tuple[str, ...]:
    """Each setting that would change what is decoded; how to draw matters only to those who draw.

    >>> unfollowed({"num_beams": 4, "min_length": 0, "temperature": 0.6, "do_sample": False})
    ('num_beams=4',)
    """
    plain = SETTINGS | (DRAWING if said.get("do_sample") else {})
    return tuple(f"{key}={said[key]}" for key, value in plain.items() if said.get(key, value) not in (value, None, []))
