"""Gemma 2 (arXiv:2408.00118) and the text models of Gemma 3 (arXiv:2503.19786), as they were released."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from headway.config import LanguageConfig, Rotary, Special
from headway.config.layers import QKNorm
from headway.presets.llama import layered, llama


def gemma(
    *,
    family: str,
    width: int,
    windows: Sequence[int | None],
    local_rotary: Rotary | None = None,
    eps: float = 1e-6,
    **sizes: Any,
) -> LanguageConfig:
    """A Gemma 2 or 3 with a window for each layer (None: it sees all); layers with one may have rotary of their own.

    Norms of weight 1 + offset before each branch and of what it gives; embeddings times the root of their width.
    """
    norm = "rms_zero_centered"
    whole = llama(
        family=family,
        width=width,
        norm=norm,
        order="sandwich",
        eps=eps,
        qk_norm=QKNorm(norm=norm, eps=eps) if family == "gemma3_text" else None,
        embedding_scale=width**0.5,
        **{"layers": len(windows), **sizes},
    )
    wide = whole.stack.block.attention.rotary
    near = local_rotary or wide
    return layered(whole, [{"window": one, "rotary": wide if one is None else near} for one in windows])


def _in_turn(layers: int, window: int, *, every: int) -> list[int | None]:
    """Every so many-th layer sees all."""
    return [None if (layer + 1) % every == 0 else window for layer in range(layers)]


_BOTH = partial(gemma, activation="gelu_tanh", tied=True, special=Special(begin=2, end=(1,), pad=0), head_width=256)
_TWO = partial(_BOTH, family="gemma2", vocabulary=256000, length=8192, softcap=50.0, logit_softcap=30.0)
_THREE = partial(
    _BOTH, family="gemma3_text", vocabulary=262144, length=32768, base=1e6, local_rotary=Rotary(), heads=4, kv_heads=1
)

PRESETS: dict[str, Callable[[], LanguageConfig]] = {
    "gemma2-2b": partial(_TWO, width=2304, hidden=9216, heads=8, kv_heads=4, windows=_in_turn(26, 4096, every=2)),
    "gemma2-9b": partial(_TWO, width=3584, hidden=14336, heads=16, kv_heads=8, windows=_in_turn(42, 4096, every=2)),
    "gemma2-27b": partial(
        _TWO, width=4608, hidden=36864, heads=32, kv_heads=16, head_width=128, scale=1 / 12,
        windows=_in_turn(46, 4096, every=2),
    ),
    "gemma3-270m": partial(_THREE, width=640, hidden=2048, windows=_in_turn(18, 512, every=6)),
    "gemma3-1b": partial(_THREE, width=1152, hidden=6912, windows=_in_turn(26, 512, every=6)),
}  # fmt: skip
