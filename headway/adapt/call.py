"""One call of a model, by the names of its adapter."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headway.adapt.adapter import Adapter, Reading, real_positions


def keywords_of(adapter: Adapter, reading: Reading) -> dict[str, Any]:
    """What `forward` is given besides the inputs."""
    keywords = dict(adapter.always)
    if adapter.mask is not None and reading.keep is not None:
        keywords[adapter.mask] = mask_of(adapter, reading.keep)
    positions = reading.positions
    if positions is None and reading.keep is not None:
        positions = real_positions(reading.keep)
    if adapter.positions is not None and positions is not None:
        keywords[adapter.positions] = positions
    if adapter.segments is not None and reading.segments is not None:
        keywords |= adapter.segments(reading)
    if adapter.source is not None and reading.source is not None:
        keywords[adapter.source] = reading.source
        if adapter.source_mask is not None and reading.source_keep is not None:
            keywords[adapter.source_mask] = mask_of(adapter, reading.source_keep)
    return keywords


def mask_of(adapter: Adapter, keep: Tensor) -> Tensor:
    """Which inputs are real, in the model's own way of saying it."""
    mask = ~keep if adapter.hides else keep
    return mask.to({"long": torch.long, "bool": torch.bool, "float": torch.float32}[adapter.mask_type])


def call(module: nn.Module, adapter: Adapter, reading: Reading) -> Any:
    """Whatever the model returns for a reading."""
    if adapter.call is not None:
        return adapter.call(module, reading)
    keywords = keywords_of(adapter, reading)
    if adapter.argument is None:
        return module(reading.inputs, **keywords)
    return module(**{adapter.argument: reading.inputs}, **keywords)


# What a model is for comes before what it is made from.
NAMES = ("logits", "prediction_logits", "last_hidden_state", "sentence_embedding", "pooler_output", "hidden_states")


def select_output(output: Any, which: str | int | Callable[[Any], Any] | None) -> Tensor:
    """The part of a model's output that was asked for; else its logits, else its vectors, else its first tensor.

    >>> import torch
    >>> select_output({"loss": None, "logits": torch.ones(2)}, None).tolist()
    [1.0, 1.0]
    """
    if callable(which):
        found = which(output)
    elif which is not None:
        found = _named(output, which)
    else:
        found = _guessed(output)
    if not isinstance(found, Tensor):
        source = f"output={which!r}" if which is not None else "the model"
        raise ValueError(f"{source} gives a {type(found).__name__}, not a tensor: say which part to compare (output=…)")
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


LOOKUPS = (F.embedding, torch.embedding, Tensor.__getitem__, torch.index_select)
Change = Callable[[Tensor], Tensor]


class EmbeddingHook(TorchFunctionMode):
    """Changes the vectors of `tokens` where they are looked up; `seen` says whether that happened."""

    def __init__(self, tokens: Tensor, change: Change) -> None:
        super().__init__()
        self.tokens, self.change, self.seen = tokens, change, False

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if self.seen or func not in LOOKUPS or not isinstance(out, Tensor) or not out.is_floating_point():
            return out
        if not any(self._is_ours(one) for one in _indices((*args, *(kwargs or {}).values()))):
            return out
        self.seen = True
        return self.change(out)

    def _is_ours(self, index: Tensor) -> bool:
        if index.is_floating_point() or index.dtype == torch.bool or index.numel() != self.tokens.numel():
            return False
        if index.data_ptr() == self.tokens.data_ptr():
            return True
        # A copy. Positions may have the same values in a short text, but rarely the same shape.
        return index.shape == self.tokens.shape and bool((index == self.tokens).all())


def _indices(arguments: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for one in arguments:
        found += [one] if isinstance(one, Tensor) else _indices(one) if isinstance(one, tuple | list) else []
    return found
