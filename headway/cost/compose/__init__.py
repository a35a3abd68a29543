"""The price of any model that a configuration describes: one function for each kind, in the order of its forward pass.

>>> from headway.presets import preset
>>> tree = price_tree(preset("gpt2"), Setting(length=1024))
>>> parameters(tree), 2 * forward(tree).dense
(124439808, 291648307200)
"""

from collections.abc import Callable
from typing import Any

from headway.config import Frozen
from headway.cost.compose.source import recurrent, seq2seq
from headway.cost.compose.text import classifier, language, masked, sentence, vectors
from headway.cost.compose.vision import clip, davit, vision
from headway.cost.op_tree import Part, forward, parameters
from headway.cost.setting import Setting

__all__ = ["forward", "parameters", "price_tree"]

# Kind of configuration -> the function that composes its price.
KINDS: dict[str, Callable[[Any, Setting], Part]] = {
    "language": language, "classifier": classifier, "masked": masked, "sentence": sentence, "vectors": vectors,
    "seq2seq": seq2seq, "recurrent": recurrent, "vision": vision, "clip": clip, "davit": davit,
}  # fmt: skip


def price_tree(config: Frozen, setting: Setting) -> Part:
    """Every operation of one pass of the model."""
    kind = config.kind_or_name()
    if kind not in KINDS:
        raise ValueError(f"{kind} configures no model with a price; there are {', '.join(KINDS)}")
    return KINDS[kind](config, setting)
