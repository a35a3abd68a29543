"""The one tensor that an audit compares, out of whatever a model returns."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

# What a model is for comes before what it is made from.
NAMES = ("logits", "prediction_logits", "last_hidden_state", "sentence_embedding", "pooler_output", "hidden_states")


def chosen(output: Any, which: str | int | Callable[[Any], Any] | None) -> Tensor:
    """The part of a model's output that was asked for; else its logits, else its vectors, else its first tensor.

    >>> import torch
    >>> chosen({"loss": None, "logits": torch.ones(2)}, None).tolist()
    [1.0, 1.0]
    """
    if callable(which):
        found = which(output)
    elif which is not None:
        found = _named(output, which)
    else:
        found = _guessed(output)
    if not isinstance(found, Tensor):
        told = f"output={which!r}" if which is not None else "the model"
        raise ValueError(f"{told} gives a {type(found).__name__}, not a tensor: say which part to compare (output=…)")
    return found


def _named(output: Any, which: str | int) -> Any:
    if isinstance(which, str) and hasattr(output, which):
        return getattr(output, which)
    try:
        return output[which]
    except (KeyError, IndexError, TypeError):
        held = f"; it holds {', '.join(map(str, output))}" if isinstance(output, Mapping) else ""
        raise ValueError(f"the model's output, a {type(output).__name__}, has no {which!r}{held}") from None


def _guessed(output: Any) -> Any:
    if isinstance(output, Tensor):
        return output
    for name in NAMES:
        found = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        if isinstance(found, Tensor):
            return found
    parts = output.values() if isinstance(output, Mapping) else output if isinstance(output, tuple | list) else ()
    found = [one for one in parts if isinstance(one, Tensor) and one.is_floating_point()]
    return next((one for one in found if one.ndim > 1), found[0] if found else output)  # a loss has no axis
