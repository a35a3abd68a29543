"""What several families read from a config.json in the same way, and write back."""

from collections.abc import Mapping
from typing import Any

from headway.config import BlockConfig, Special, nearest
from headway.config.size_limits import LAYERS, check_size
from headway.config.text import Forced

# Their name of an activation -> ours; the first name of each is the one written.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "quick_gelu": "gelu_sigmoid",
    "relu": "relu",
    "relu2": "relu_squared",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}


def activation_of(name: Any) -> str:
    """Our name of one of their activations.

    >>> activation_of("gelu_new")
    'gelu_tanh'
    """
    if not isinstance(name, str) or name not in ACTIVATIONS:
        hint = nearest(str(name), ACTIVATIONS)
        raise ValueError(f"headway has no activation {name!r}{hint}; it reads {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def activation_to(name: str) -> str:
    """Their name of one of ours."""
    for theirs, ours in ACTIVATIONS.items():
        if ours == name:
            return theirs
    raise ValueError(f"no other library reads the activation {name!r}; save the model with layout='headway'")


def refuse(config: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse a config whose switches, where given, are set to what headway does not compute."""
    for key, value in expected.items():
        if config.get(key, value) not in (value, None):
            raise ValueError(f"headway does not read models with {key}={config[key]!r} (only with {value!r})")


def layers_of(config: Mapping[str, Any]) -> int:
    """How many layers a stack has; said where a list has an entry of each, before the list is made."""
    return check_size(config["num_hidden_layers"], LAYERS, "a stack of layers")


def types_of(config: Mapping[str, Any]) -> int:
    """How many kinds of sentences are told apart, in the layouts that have a table of them."""
    if config["type_vocab_size"] == 0:
        raise ValueError("type_vocab_size says 0, and this layout has a table of one kind of sentence at least")
    return config["type_vocab_size"]


def special_of(config: Mapping[str, Any]) -> Special:
    """Begin, end, padding and start tokens; several end tokens may be given."""
    end = config.get("eos_token_id")
    return Special(
        begin=config.get("bos_token_id"),
        end=() if end is None else tuple(end) if isinstance(end, list | tuple) else (end,),
        pad=config.get("pad_token_id"),
        start=config.get("decoder_start_token_id"),
    )


def special_to(special: Special) -> dict[str, Any]:
    """The same, as config.json says it; a single end token is a number, several are a list."""
    end = special.end[0] if len(special.end) == 1 else list(special.end) or None
    found = {
        "bos_token_id": special.begin,
        "eos_token_id": end,
        "pad_token_id": special.pad,
        "decoder_start_token_id": special.start,
    }
    return found if special.start is not None else {key: found[key] for key in list(found)[:3]}


def labels_of(config: Mapping[str, Any]) -> tuple[int, tuple[str, ...]]:
    """How many classes there are, and their names, where they have any.

    >>> labels_of({"id2label": {"0": "no", "1": "yes"}}), labels_of({"num_labels": 3})
    ((2, ('no', 'yes')), (3, ()))
    """
    said = config.get("id2label") or {}
    if not isinstance(said, Mapping) or not all(str(key).isdecimal() for key in said):
        raise ValueError(f"id2label says {said!r}, and it is an object with a name for each number of a class")
    named = {int(key): str(value) for key, value in said.items()}
    if sorted(named) != list(range(len(named))):
        raise ValueError(f"id2label names classes {sorted(named)}, and they are numbered from 0 without a gap")
    return len(named) or config.get("num_labels", 2), tuple(named[i] for i in range(len(named)))


def architecture_of(config: Mapping[str, Any]) -> str:
    """The class that a config.json says its model has; nothing where it says none.

    >>> architecture_of({"architectures": ["BertModel"]}), architecture_of({})
    ('BertModel', '')
    """
    said = config.get("architectures") or [""]
    if not isinstance(said, list) or not isinstance(said[0], str):
        raise ValueError(f"architectures says {said!r}, and it is a list with the name of a class")
    return said[0]


def decoding(block: BlockConfig) -> BlockConfig:
    """The decoder's block beside an encoder's: causal, and with cross-attention of the same size."""
    own = block.attention
    return block.replace(attention=own.replace(causal=True), cross=own)


def forced_of(config: Mapping[str, Any]) -> Forced:
    """The tokens that decoding must or must not produce; words of several tokens and choices are refused.

    >>> forced_of({"forced_bos_token_id": 7, "bad_words_ids": [[3], [5]]})
    Forced(first=7, never=(3, 5))
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


def unfit(layout: str, name: str, value: object) -> ValueError:
    """That a layout cannot say what a model is, and which one can."""
    return ValueError(
        f"the layout of {layout} has no word for {name}={value!r}: a directory in it would be another model; save it "
        "with layout='headway'"
    )
