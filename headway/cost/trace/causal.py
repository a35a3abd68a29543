"""Which pairs of an attention are useful, where the call itself says so: `is_causal=True`.

On the meta device torch takes the call apart into plain products, which no longer know of it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from headway.cost.trace.products import Work
from headway.ops.attention.cost import flash_causal

NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


def causal_pairs(queries: int, keys: int) -> int:
    """Query i sees the keys 0 … i, as torch counts them.

    >>> causal_pairs(3, 3), causal_pairs(5, 3), causal_pairs(2, 7)
    (6, 12, 3)
    """
    seen = min(queries, keys)
    return seen * (seen + 1) // 2 + (queries - seen) * keys


class Causal(TorchFunctionMode):
    """Knows, while an attention runs, how many of its pairs are useful, how many the CPU's kernel computes, and all."""

    def __init__(self) -> None:
        super().__init__()
        self.share: tuple[int, int, int] | None = None

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        if func is not F.scaled_dot_product_attention:
            return func(*args, **keywords)
        named = dict(zip(NAMES, args, strict=False)) | keywords
        if named.get("is_causal"):
            queries, keys = named["query"].shape[-2], named["key"].shape[-2]
            self.share = (causal_pairs(queries, keys), flash_causal(queries, keys), queries * keys)
        try:
            return func(*args, **keywords)
        finally:
            self.share = None

    def useful(self, work: Work) -> Work:
        """The work with the multiply-adds of useful pairs alone."""
        if self.share is None or work.kind != "attention" or not work.macs:
            return work
        allowed, computed, dense = self.share
        return replace(work, useful=work.macs * allowed // dense, executed=work.macs * computed // dense)
