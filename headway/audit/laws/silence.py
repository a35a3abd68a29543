"""Dropout, switched off wherever it hides: in modules, in their settings and in functions that are called by hand."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

# Each hands on its first argument where nothing is dropped.
DROPOUTS = frozenset({
    F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout,
    torch.dropout_, torch.alpha_dropout, torch.alpha_dropout_, torch.feature_dropout, torch.feature_dropout_,
    torch.feature_alpha_dropout, torch.feature_alpha_dropout_,
})  # fmt: skip


class Silence(TorchFunctionMode):
    """While it is on, no function of torch drops anything: a share that is written into the code is dropout too."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func is F.scaled_dot_product_attention:
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            kwargs = {name: 0.0 if name == "dropout_p" else one for name, one in kwargs.items()}
        return func(*args, **kwargs)


def silence(module: nn.Module) -> None:
    """Set every share that is dropped to 0: `p` of a module named after dropping, and numbers called drop-something."""
    for one in module.modules():
        dropping = "drop" in type(one).__name__.lower()
        for name, value in list(vars(one).items()):
            named = "drop" in name.lower() or (dropping and name == "p")
            if named and isinstance(value, float) and 0.0 < value <= 1.0:
                setattr(one, name, 0.0)
