"""Configurations of models by their kind, read back from JSON.

>>> read_model('{"kind": "sentense"}')
Traceback (most recent call last):
ValueError: there is no model of kind 'sentense' (did you mean sentence?); there are language, masked, sentence, seq2seq, vision, davit, recurrent, vectors
"""  # noqa: E501 a doctest's line is as long as the sentence

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from headway.config.base import Frozen, explain, nearest, option_names

# Kind of configuration -> its class.
CONFIGS = {
    "language": "headway.config.language:LanguageConfig",
    "masked": "headway.config.masked:MaskedConfig",
    "sentence": "headway.config.sentence:SentenceConfig",
    "seq2seq": "headway.config.seq2seq:Seq2SeqConfig",
    "vision": "headway.config.vision:VisionConfig",
    "davit": "headway.config.vision:DaViTConfig",
    "recurrent": "headway.config.recurrent:RecurrentConfig",
    "vectors": "headway.config.vectors:VectorsConfig",
}


def read_model(given: str | Mapping[str, Any]) -> Frozen:
    """The configuration of a model: from JSON, from a JSON file (a model's config.json too), or from a mapping."""
    said = _parsed(given) if isinstance(given, str) else given
    said = said["config"] if isinstance(said.get("config"), Mapping) else said
    kind = said.get("kind")
    if kind not in CONFIGS:
        known = ", ".join(CONFIGS)
        raise ValueError(f"there is no model of kind {kind!r}{nearest(str(kind), CONFIGS)}; there are {known}")
    module, _, name = CONFIGS[str(kind)].partition(":")
    found = getattr(import_module(module), name)
    try:
        return TypeAdapter(found).validate_python(dict(said))
    except ValidationError as error:
        raise ValueError(explain(error, str(kind), option_names(found))) from None


def _parsed(text: str) -> Mapping[str, Any]:
    inline = text.lstrip().startswith("{")
    if not inline and not Path(text).is_file():
        raise ValueError(f"there is no file {text}: a configuration is a JSON file, or the JSON itself")
    try:
        found = json.loads(text if inline else Path(text).read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{'the configuration' if inline else text} is no JSON: {error}") from None
    if not isinstance(found, Mapping):
        raise ValueError(f"{text} holds a {type(found).__name__}, where a configuration is a JSON object")
    return found
