"""Configurations of models by their kind, read back from JSON.

>>> read_model('{"kind": "sentense"}')
Traceback (most recent call last):
ValueError: there is no model of kind 'sentense' (did you mean sentence?); there are language, classifier, masked, sentence, seq2seq, vision, clip, davit, recurrent, vectors, module
"""  # noqa: E501 a doctest's line is as long as the sentence

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from headway.config.base import Frozen, explain, nearest, option_names
from headway.config.model import ModelConfig
from headway.config.read_file import parse_json, read_json

# Kind of configuration -> its class.
CONFIGS = {
    "language": "headway.config.text:LanguageConfig",
    "classifier": "headway.config.text:ClassifierConfig",
    "masked": "headway.config.text:MaskedConfig",
    "sentence": "headway.config.text:SentenceConfig",
    "seq2seq": "headway.config.text:Seq2SeqConfig",
    "vision": "headway.config.vision:VisionConfig",
    "clip": "headway.config.clip:ClipConfig",
    "davit": "headway.config.vision:DaViTConfig",
    "recurrent": "headway.config.text:RecurrentConfig",
    "vectors": "headway.config.layers:VectorsConfig",
    "module": "headway.config.text:ModuleConfig",
}


def read_model(given: str | Mapping[str, Any]) -> Frozen:
    """The configuration of a model: from JSON, from a JSON file (a model's config.json too), or from a mapping."""
    said = _parsed(given) if isinstance(given, str) else given
    said = said["config"] if isinstance(said.get("config"), Mapping) else said
    kind = said.get("kind")
    if not isinstance(kind, str) or kind not in CONFIGS:
        known = ", ".join(CONFIGS)
        raise ValueError(f"there is no model of kind {kind!r}{nearest(str(kind), CONFIGS)}; there are {known}")
    found = config_class(kind)
    try:
        return TypeAdapter(found).validate_python(dict(said))
    except ValidationError as error:
        raise ValueError(explain(error, kind, option_names(found))) from None


def config_class(kind: str) -> type[ModelConfig]:
    """The class of a kind; its facts are read from it."""
    module, _, name = CONFIGS[kind].partition(":")
    return getattr(import_module(module), name)


def kinds_where(test: Callable[[type[ModelConfig]], bool]) -> tuple[str, ...]:
    """The kinds of models of which something is true.

    >>> kinds_where(lambda config: config.writes)
    ('language', 'seq2seq', 'recurrent', 'module')
    """
    return tuple(kind for kind in CONFIGS if test(config_class(kind)))


def _parsed(text: str) -> Mapping[str, Any]:
    inline = text.lstrip().startswith("{")
    if not inline and not Path(text).is_file():
        raise ValueError(f"there is no file {text}: a configuration is a JSON file, or the JSON itself")
    found = parse_json(text, "the configuration") if inline else read_json(text)
    if not isinstance(found, Mapping):
        raise ValueError(f"{text} holds a {type(found).__name__}, where a configuration is a JSON object")
    return found
