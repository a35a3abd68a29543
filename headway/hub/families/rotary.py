"""Rotary positions as a config.json states them: a base, and how a longer text than the first training's is reached.

Older files have `rope_theta` and `rope_scaling`, newer ones all of it in `rope_parameters`. Both are read; the older
words, which every reader knows, are written.
"""

import math
from collections.abc import Mapping
from typing import Any

from headway.config import Rotary
from headway.config.layers import LinearScaling, Llama3Scaling, Scaling, YarnScaling

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
}
_ALWAYS = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}


def read_rotary(config: Mapping[str, Any]) -> Rotary:
    """The rotary positions of a config.json; scalings that headway does not compute are refused.

    >>> read_rotary({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}}).scaling
    LinearScaling(factor=4.0)
    """
    stated = config.get("rope_scaling") or config.get("rope_parameters") or {}
    part = stated.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if part not in (None, 1):
        # The library that publishes these models turns every channel with it, or fails.
        raise ValueError(
            f"models of this family turn every channel of a head, so partial_rotary_factor={part!r} is unclear"
        )
    base = stated.get("rope_theta") or config.get("rope_theta") or 10000.0
    return Rotary(base=base, scaling=_read_scaling(stated, config))


def write_rotary(rotary: Rotary) -> dict[str, Any]:
    """The same, as config.json says it."""
    scaling = rotary.scaling
    if scaling is None:
        return {"rope_theta": rotary.base, "rope_scaling": None}
    _, needed, optional = SCALINGS[scaling.kind]
    said = {theirs: getattr(scaling, ours) for theirs, ours in (needed | optional).items()}
    said = {theirs: value for theirs, value in said.items() if value is not None}
    return {"rope_theta": rotary.base, "rope_scaling": {"rope_type": scaling.kind, **said}}


def _read_scaling(stated: Mapping[str, Any], config: Mapping[str, Any]) -> Scaling | None:
    kind = stated.get("rope_type") or stated.get("type") or "default"
    if kind != "default" and kind not in SCALINGS:
        raise ValueError(f"headway does not read rope_type={kind!r}; it reads default, {', '.join(SCALINGS)}")
    record, needed, optional = SCALINGS.get(kind, (None, {}, {}))
    said = _said(stated, config, kind)
    for key in said:
        if key not in needed | optional:
            raise ValueError(f"headway does not read rope_type={kind!r} with {key}={said[key]!r}")
    for key in needed:
        if key not in said:
            raise ValueError(f"rope_type={kind!r} needs {key}, which the configuration leaves out")
    return None if record is None else record(**{(needed | optional)[key]: value for key, value in said.items()})


def _said(stated: Mapping[str, Any], config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What a scaling states besides its kind and base, with what readers fill in where it is silent."""
    said = {key: value for key, value in stated.items() if key not in _ALWAYS and value is not None}
    if kind in ("llama3", "yarn"):
        length = config.get(_LENGTH) or said.get(_LENGTH) or config.get("max_position_embeddings")
        said = said if length is None else said | {_LENGTH: length}
    if kind == "yarn":
        first, second = said.pop("mscale", None), said.pop("mscale_all_dim", None)
        if first and second and "attention_factor" not in said:
            said["attention_factor"] = _growth(said, first) / _growth(said, second)
    return said


def _growth(said: Mapping[str, Any], weight: float) -> float:
    """YaRN's growth of scores with the factor, in the form that DeepSeek's models weigh twice (arXiv:2405.04434)."""
    return 1 + weight * math.log(max(said.get("factor", 1), 1)) / 10
