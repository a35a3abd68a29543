"""Where tokens become vectors, in any model: the first look-up whose index is the tokens that were passed.

It is found by watching the calls of torch, not by names, so that an `nn.Embedding`, a function and a plain indexing
are all seen. What comes out of it can be written over (NaN in padding) or be followed by gradients.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

LOOKUPS = (F.embedding, torch.embedding, Tensor.__getitem__, torch.index_select)
Change = Callable[[Tensor], Tensor]


class Entrance(TorchFunctionMode):
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
