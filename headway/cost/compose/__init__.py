"""The price of any model that a configuration describes: one function for each kind, in the order of its forward pass.

>>> from headway.presets import preset
>>> tree = price_tree(preset("gpt2"), Setting(length=1024))
>>> parameters(tree), 2 * forward(tree).dense
(124439808, 291648307200)
"""

from collections.abc import Callable
from importlib import import_module

from headway.config import Frozen
from headway.cost.part import Part, forward, parameters
from headway.cost.setting import Setting

__all__ = ["forward", "parameters", "price_tree"]

# Kind of configuration -> the function that composes its price.
KINDS = {
    "language": "headway.cost.compose.text:language",
    "masked": "headway.cost.compose.text:masked",
    "sentence": "headway.cost.compose.text:sentence",
    "vectors": "headway.cost.compose.text:vectors",
    "seq2seq": "headway.cost.compose.source:seq2seq",
    "recurrent": "headway.cost.compose.source:recurrent",
    "vision": "headway.cost.compose.vision:vision",
    "davit": "headway.cost.compose.vision:davit",
}


def price_tree(config: Frozen, setting: Setting) -> Part:
    """Every operation of one pass of the model."""
    kind = config.kind_or_name()
    if kind not in KINDS:
        raise ValueError(f"{kind} configures no model with a price; there are {', '.join(KINDS)}")
    module, _, name = KINDS[kind].partition(":")
    compose: Callable[[Frozen, Setting], Part] = getattr(import_module(module), name)
    return compose(config, setting)
