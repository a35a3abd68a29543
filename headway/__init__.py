"""headway: the Transformer on PyTorch, every attention mechanism behind one interface.

    import headway as hw

    model = hw.build("gpt2", layers=6, width=384, heads=6, vocabulary=65, length=256, attention="local", window=64)
    loss = model.loss(tokens)
    model, tokenizer, receipt = hw.load("runs/first")
    hw.generate(model, "Once upon", max_new_tokens=40).text
    out = hw.attend(q, k, v, mask=hw.causal())

The names below are looked up when they are first used, so that `import headway` costs nothing and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway import nn
    from headway.app.classify import classify
    from headway.app.embed import embed
    from headway.app.show import show
    from headway.app.train import train
    from headway.app.translate import translate
    from headway.audit.examination import examine
    from headway.config import Spec
    from headway.cost.price import price
    from headway.decoding import Request, beam, generate, stream
    from headway.hub import load, save
    from headway.hub.load import switch_adapter
    from headway.models import build
    from headway.ops.attention import MECHANISMS, Mechanism, attend, weights
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
    from headway.presets import preset

__version__ = "0.3.0"

# Public name -> its module. A new name stands here, in the imports above and in __all__; a test compares the three.
PUBLIC = {
    "build": "headway.models",
    "preset": "headway.presets",
    "load": "headway.hub",
    "switch_adapter": "headway.hub.load",
    "save": "headway.hub",
    "train": "headway.app.train",
    "generate": "headway.decoding",
    "stream": "headway.decoding",
    "beam": "headway.decoding",
    "Request": "headway.decoding",
    "embed": "headway.app.embed",
    "classify": "headway.app.classify",
    "translate": "headway.app.translate",
    "nn": "headway",
    "attend": "headway.ops.attention",
    "weights": "headway.ops.attention",
    "MECHANISMS": "headway.ops.attention",
    "Mechanism": "headway.ops.attention",
    "Spec": "headway.config",
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
    "price": "headway.cost.price",
    "examine": "headway.audit.examination",
    "show": "headway.app.show",
    "softmax_jacobian": "headway.ops.jacobian",
}

__all__ = [
    "build",
    "preset",
    "load",
    "switch_adapter",
    "save",
    "train",
    "generate",
    "stream",
    "beam",
    "Request",
    "embed",
    "classify",
    "translate",
    "nn",
    "attend",
    "weights",
    "MECHANISMS",
    "Mechanism",
    "Spec",
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
    where = PUBLIC[name]
    value = import_module(f"headway.{name}") if where == __name__ else getattr(import_module(where), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*PUBLIC, "__version__"])


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    found = get_close_matches(name, PUBLIC, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""
