"""Rotary positions of a config.json: their base, how many channels turn, and how they reach longer texts.

Older files have `rope_theta` and `rope_scaling`, newer ones all of it in `rope_parameters`. Both are read; the older
words, which every reader knows, are written.
"""

import math
from collections.abc import Mapping
from typing import Any

from headway.config import Rotary
from headway.config.layers import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    Scaling,
    YarnScaling,
)

# rope_type -> our class, and their word for each of its fields, those that must be given first.
_LENGTH = "original_max_position_embeddings"
SCALINGS: dict[str, tuple[type[Scaling], dict[str, str], dict[str, str]]] = {
    "linear": (LinearScaling, {"factor": "factor"}, {}),
    "llama3": (
        Llama3Scaling,
        {"factor": "factor", "low_freq_factor": "low", "high_freq_factor": "high", _LENGTH: "length"},
        {},
    ),
    "yarn": (
        YarnScaling,
        {"factor": "factor", _LENGTH: "length"},
        {"beta_fast": "fast", "beta_slow": "slow", "truncate": "whole", "attention_factor": "attention"},
    ),
    "dynamic": (DynamicScaling, {"factor": "factor", _LENGTH: "length"}, {}),
    "longrope": (
        LongRopeScaling,
        {"short_factor": "short", "long_factor": "long", _LENGTH: "length", "factor": "factor"},
        {"attention_factor": "attention"},
    ),
}
OLDER = {"su": "longrope"}  # what a kind was called at first
_ALWAYS = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}


def read_rotary(config: Mapping[str, Any], *, head_width: int | None = None, base: float = 10000.0) -> Rotary:
    """The rotary positions of a config.json; scalings that headway does not compute are refused.

    `base` is meant where none is stated. In families that turn a part of each head, `head_width` is its whole.

    >>> read_rotary({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}}).scaling
    LinearScaling(factor=4.0)
    """
    stated = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(stated, Mapping):
        raise ValueError(f"rope_scaling says {stated!r}, and it is an object with rope_type and factor")
    part = stated.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if part not in (None, 1) and head_width is None:
        # The library that publishes these models turns every channel with it, or fails.
        raise ValueError(
            f"models of this family turn every channel of a head, so partial_rotary_factor={part!r} is unclear"
        )
    width = None if part in (None, 1) or head_width is None else int(head_width * part)
    base = stated.get("rope_theta") or config.get("rope_theta") or base
    return Rotary(base=base, width=width, scaling=_read_scaling(stated, config))


def write_rotary(rotary: Rotary, *, head_width: int | None = None) -> dict[str, Any]:
    """The same, as config.json says it."""
    scaling = rotary.scaling
    turned = {} if rotary.width is None or not head_width else {"partial_rotary_factor": rotary.width / head_width}
    if scaling is None:
        return {"rope_theta": rotary.base, "rope_scaling": None, **turned}
    _, needed, optional = SCALINGS[scaling.kind]
    said = {theirs: getattr(scaling, ours) for theirs, ours in (needed | optional).items()}
    said = {theirs: list(one) if isinstance(one, tuple) else one for theirs, one in said.items() if one is not None}
    if isinstance(scaling, DynamicScaling):
        said.pop(_LENGTH)  # max_position_embeddings says it
    return {"rope_theta": rotary.base, "rope_scaling": {"rope_type": scaling.kind, **said}, **turned}


def read_length(config: Mapping[str, Any], rotary: Rotary) -> int:
    """How many tokens a model reads. A dynamic scaling begins where max_position_embeddings ends, and multiplies it.

    >>> dynamic = Rotary(scaling=DynamicScaling(factor=2, length=64))
    >>> read_length({"max_position_embeddings": 64}, dynamic), write_length(128, dynamic)
    (128, 64)
    """
    length, scaling = config["max_position_embeddings"], rotary.scaling
    return int(length * scaling.factor) if isinstance(scaling, DynamicScaling) else length


def write_length(length: int, rotary: Rotary | None) -> int:
    """max_position_embeddings of a model that reads so many tokens."""
    scaling = None if rotary is None else rotary.scaling
    return scaling.length if isinstance(scaling, DynamicScaling) else length


def _read_scaling(stated: Mapping[str, Any], config: Mapping[str, Any]) -> Scaling | None:
    kind = stated.get("rope_type") or stated.get("type") or "default"
    kind = OLDER.get(kind, kind)
    if kind != "default" and kind not in SCALINGS:
        raise ValueError(f"headway does not read rope_type={kind!r}; it reads default, {', '.join(SCALINGS)}")
    record, needed, optional = SCALINGS.get(kind, (None, {}, {}))
    said = _scaling_fields(stated, config, kind)
    for key in said:
        if key not in needed | optional:
            raise ValueError(f"headway does not read rope_type={kind!r} with {key}={said[key]!r}")
    for key in needed:
        if key not in said:
            raise ValueError(f"rope_type={kind!r} needs {key}, which the configuration leaves out")
    return None if record is None else record(**{(needed | optional)[key]: value for key, value in said.items()})


def _scaling_fields(stated: Mapping[str, Any], config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What a scaling states besides its kind and base, with what readers fill in where it is silent."""
    said = {key: value for key, value in stated.items() if key not in _ALWAYS and value is not None}
    most = config.get("max_position_embeddings")
    if kind in ("llama3", "yarn", "longrope"):
        length = config.get(_LENGTH) or said.get(_LENGTH) or most
        said = said if length is None else said | {_LENGTH: length}
    if kind == "longrope" and "factor" not in said and most and said.get(_LENGTH):
        said["factor"] = most / said[_LENGTH]
    if kind == "dynamic" and most:
        if said.get(_LENGTH, most) != most:
            raise ValueError(
                f"rope_type='dynamic' begins at max_position_embeddings={most}, not {_LENGTH}={said[_LENGTH]}"
            )
        said[_LENGTH] = most
    if kind == "yarn":
        first, second = said.pop("mscale", None), said.pop("mscale_all_dim", None)
        if first and second and "attention_factor" not in said:
            said["attention_factor"] = _growth(said, first) / _growth(said, second)
    return said


def _growth(said: Mapping[str, Any], weight: float) -> float:
    """YaRN's growth of scores with the factor, in the form that DeepSeek's models weigh twice (arXiv:2405.04434)."""
    return 1 + weight * math.log(max(said.get("factor", 1), 1)) / 10
