"""What the names of `forward`'s parameters and of a class say: its mask, its positions, whether it reads one way."""

import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import nn

# A mask with one truth for each token, and whether its True means "ignore"; the first that is found is taken.
MASKS: dict[str, bool] = {
    "attention_mask": False, "src_key_padding_mask": True, "key_padding_mask": True, "padding_mask": True,
    "pad_mask": True, "src_padding_mask": True, "encoder_padding_mask": True, "keep": False, "keep_mask": False,
    "input_mask": False, "token_mask": False, "valid_mask": False, "valid": False, "mask": False,
}  # fmt: skip
# Of a model with an encoder and a decoder, whose bare `mask` may mean either.
TARGET_MASKS: dict[str, bool] = {
    "decoder_attention_mask": False, "tgt_key_padding_mask": True, "tgt_padding_mask": True, "target_keep": False,
    "target_mask": False,
}  # fmt: skip
SOURCE_MASKS: dict[str, bool] = {
    "attention_mask": False, "src_key_padding_mask": True, "src_padding_mask": True, "source_keep": False,
    "source_mask": False,
}  # fmt: skip
POSITIONS = ("position_ids", "positions", "pos_ids", "pos")
SOURCES = ("src", "source", "encoder_input_ids", "encoder_inputs", "context")
TARGETS = ("tgt", "target", "trg", "decoder_input_ids", "decoder_inputs", "y")

ONE_WAY = re.compile(r"causal|gpt|decoder|languagemodel|lmhead|autoregress|llama|mistral|nextto", re.IGNORECASE)
BOTH_WAYS = re.compile(r"bert|maskedlm|mlm|encoder|classif|embed|bidirection|XLNet", re.IGNORECASE)


@dataclass(frozen=True)
class Signature:
    """The parameters of a module's `forward`."""

    module: nn.Module

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        try:
            found = inspect.signature(self.module.forward).parameters
        except (TypeError, ValueError):  # a compiled or scripted forward
            return {}
        return {name: one for name, one in found.items() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}

    @property
    def names(self) -> list[str]:
        return list(self.parameters)

    @property
    def required(self) -> list[str]:
        """Those without a default."""
        return [name for name, one in self.parameters.items() if one.default is inspect.Parameter.empty]

    def has(self, *names: str) -> bool:
        return all(name in self.parameters for name in names)

    def first_of(self, names: Iterable[str]) -> str | None:
        """The first of these names that it takes beside its inputs."""
        return next((name for name in names if name in self.names[1:]), None)

    def given(self, **wanted: str) -> dict[str, Any]:
        """Fields of an Adapter, for the names that it takes."""
        return {field: name for field, name in wanted.items() if name in self.parameters}


def reads_one_way(module: nn.Module) -> bool | None:
    """What a model says of itself: a flag of its attention, an attribute, its class's name; None: nothing."""
    flags = [flag for one in module.modules() if isinstance(flag := getattr(one, "is_causal", None), bool)]
    flag = _flag(module, "causal") if _flag(module, "causal") is not None else _flag(module, "is_decoder")
    if any(flags) or flag:
        return True
    name = type(module).__name__
    # A name weighs more than flags that are all off: that is a bug an audit is there to find.
    if ONE_WAY.search(name) and not BOTH_WAYS.search(name):
        return True
    return False if flags or flag is False or BOTH_WAYS.search(name) else None


def _flag(module: nn.Module, name: str) -> bool | None:
    for holder in (module, getattr(module, "config", None)):
        found = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
        if isinstance(found, bool):
            return found
    return None


def size(holder: Any, *names: str) -> int | None:
    """The first of these attributes that is a whole number above 0."""
    for name in names:
        found = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
        if isinstance(found, int) and not isinstance(found, bool) and found > 0:
            return found
    return None
