"""headway: the Transformer on PyTorch, every attention mechanism behind one interface.

    import headway
    out = headway.attend(q, k, v, mask=headway.causal(), mechanism="softmax")

The names below are looked up when they are first used, so that `import headway` costs nothing and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.app.looked import show
    from headway.audit.examination import examine
    from headway.cost.price import price
    from headway.hub import load, save
    from headway.ops.attention import MECHANISMS, attend, weights
    from headway.ops.jacobian import softmax_jacobian
    from headway.ops.mask import (
        Mask,
        allowed,
        blocked,
        causal,
        dilated,
        global_tokens,
        packed,
        padding,
        segments,
        selected,
        tiles,
        window,
    )

__version__ = "0.3.0"

# Public name -> its module. A new name stands here, in the imports above and in __all__; a test compares the three.
PUBLIC = {
    "attend": "headway.ops.attention",
    "weights": "headway.ops.attention",
    "MECHANISMS": "headway.ops.attention",
    "Mask": "headway.ops.mask",
    "causal": "headway.ops.mask",
    "padding": "headway.ops.mask",
    "window": "headway.ops.mask",
    "dilated": "headway.ops.mask",
    "selected": "headway.ops.mask",
    "global_tokens": "headway.ops.mask",
    "segments": "headway.ops.mask",
    "packed": "headway.ops.mask",
    "tiles": "headway.ops.mask",
    "allowed": "headway.ops.mask",
    "blocked": "headway.ops.mask",
    "load": "headway.hub",
    "save": "headway.hub",
    "price": "headway.cost.price",
    "examine": "headway.audit.examination",
    "show": "headway.app.looked",
    "softmax_jacobian": "headway.ops.jacobian",
}

__all__ = [
    "attend",
    "weights",
    "MECHANISMS",
    "Mask",
    "causal",
    "padding",
    "window",
    "dilated",
    "selected",
    "global_tokens",
    "segments",
    "packed",
    "tiles",
    "allowed",
    "blocked",
    "load",
    "save",
    "price",
    "examine",
    "show",
    "softmax_jacobian",
]


def __getattr__(name: str) -> object:
    """Import the module that holds a public name, once.

    >>> import headway
    >>> headway.atend
    Traceback (most recent call last):
    AttributeError: module 'headway' has no attribute 'atend'; did you mean 'attend'?
    """
    if name not in PUBLIC:
        raise AttributeError(f"module 'headway' has no attribute {name!r}{_nearest(name)}")
    value = getattr(import_module(PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*PUBLIC, "__version__"])


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    found = get_close_matches(name, PUBLIC, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""
