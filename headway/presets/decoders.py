"""OLMo 2 (arXiv:2501.00656) and Phi-3 (arXiv:2404.14219), as they were released."""

from collections.abc import Callable
from functools import partial

from headway.config import LanguageConfig, Special
from headway.config.layers import QKNorm
from headway.presets.llama import llama

_OLMO2 = partial(
    llama, family="olmo2", vocabulary=100352, length=4096, base=5e5, order="res_post", eps=1e-6,
    qk_norm=QKNorm(over="all"), special=Special(end=(100257,), pad=100277),
)  # fmt: skip
_PHI3 = partial(
    llama, family="phi3", vocabulary=32064, length=4096, window=2047, special=Special(begin=1, end=(32000,), pad=32000)
)

PRESETS: dict[str, Callable[[], LanguageConfig]] = {
    "olmo2-1b": partial(_OLMO2, width=2048, hidden=8192, layers=16, heads=16),
    "olmo2-7b": partial(_OLMO2, width=4096, hidden=11008, layers=32, heads=32),
    "olmo2-13b": partial(_OLMO2, width=5120, hidden=13824, layers=40, heads=40),
    "olmo2-32b": partial(_OLMO2, width=5120, hidden=27648, layers=64, heads=40, kv_heads=8),
    "phi3-mini": partial(_PHI3, width=3072, hidden=8192, layers=32, heads=32),
    "phi3-medium": partial(_PHI3, width=5120, hidden=17920, layers=40, heads=40, kv_heads=10),
}
