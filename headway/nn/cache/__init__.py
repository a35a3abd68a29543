"""Caches: what a layer keeps of the tokens it has seen. They store; attention runs in a layer's core alone."""

from torch import Tensor

from headway.config import AttentionConfig
from headway.nn.cache.base import BlockCache, Cache, CachedKV
from headway.nn.cache.kv import CrossCache, KVCache
from headway.nn.cache.total import TotalCache
from headway.nn.cache.window import WindowCache
from headway.ops.attention import record_of

__all__ = [
    "BlockCache",
    "Cache",
    "CrossCache",
    "CachedKV",
    "KVCache",
    "TotalCache",
    "WindowCache",
    "check_cache",
    "new_cache",
]


def new_cache(config: AttentionConfig, *, capacity: int | None = None) -> Cache:
    """An empty cache of the kind that a layer's mechanism needs; what grows has room for `capacity` tokens at once."""
    if not config.causal:
        raise ValueError("only causal attention can be read token by token: earlier outputs would change otherwise")
    need = record_of(config.mechanism).cache_of(config.mechanism)
    if need.kind == "none":
        raise ValueError(need.why)
    if need.kind == "total":
        assert need.fold is not None
        return TotalCache(need.fold)
    if need.kind == "window":
        return WindowCache(need.window)
    return KVCache() if capacity is None else KVCache(capacity=capacity)


def check_cache(cache: Cache, config: AttentionConfig, source: Tensor | None) -> None:
    """Refuse a cache that cannot hold what this layer needs."""
    if isinstance(cache, CrossCache):
        if source is None and not cache.filled:
            raise ValueError("a CrossCache holds a source; self-attention needs a cache from new_cache(...)")
        return
    if source is not None:
        raise ValueError("keys of a source are stored in a CrossCache; this one is for self-attention")
    need = record_of(config.mechanism).cache_of(config.mechanism)
    if not config.causal:
        raise ValueError("only causal attention can be read with a cache: earlier outputs would change otherwise")
    if isinstance(cache, WindowCache) and not (need.kind == "window" and need.window <= cache.window):
        raise ValueError(f"a WindowCache of {cache.window} tokens is too short for this layer: use new_cache(...)")
    if isinstance(cache, TotalCache) and need.kind != "total":
        raise ValueError(f"a running total does not serve {config.mechanism.kind} attention: use new_cache(...)")
    if need.kind == "total" and not isinstance(cache, TotalCache):
        raise ValueError(f"{config.mechanism.kind} attention is read with a running total: use new_cache(...)")
