"""A walk through any model on sizes: what it keeps, what it takes at most, how many parameters it has.

>>> from headway.presets import preset
>>> entries_of(preset("gpt2"))
124439808
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any

import torch

from headway.config import Frozen
from headway.cost.memory.bricks import Run
from headway.cost.memory.tape import Tape, Value
from headway.cost.setting import Setting
from headway.ops.linear import native_bfloat16

# Kind of configuration -> the function that walks through its model.
KINDS = {
    "language": "headway.cost.memory.text:language",
    "masked": "headway.cost.memory.masked:masked",
    "sentence": "headway.cost.memory.sentence:sentence",
    "vectors": "headway.cost.memory.text:vectors",
    "seq2seq": "headway.cost.memory.source:seq2seq",
    "recurrent": "headway.cost.memory.recurrent:recurrent",
    "vision": "headway.cost.memory.vision:vision",
    "davit": "headway.cost.memory.davit:davit",
}


@dataclass(frozen=True)
class Walk:
    """What a walk through a model found: bytes kept for the way back, and in use at most beside weights and inputs."""

    inputs: int
    saved: int
    aside: int
    peak: int
    output: int


def walked(config: Frozen, setting: Setting, *, learning: bool = False, forgets: bool = False) -> Walk:
    """Through the model on sizes: forwards, and backwards where it is learning."""
    tape = Tape(learning=learning)
    run = Run(tape, setting.itemsize, _slow(setting.dtype), torch.get_num_threads(), learning, forgets)
    out = _walk(config)(run, config, replace(setting, past=0))
    given = sum(value.bytes for value in run.inputs)
    saved, aside = (tape.saved, tape.aside) if learning else (0, 0)
    output = out.bytes
    if learning:
        tape.backward(out)
    return Walk(given, saved, aside, tape.peak - given, output)


def _walk(config: Frozen) -> Callable[[Run, Any, Setting], Value]:
    module, _, name = KINDS[config.kind_or_name()].partition(":")
    return getattr(import_module(module), name)


@lru_cache
def _slow(dtype: str) -> bool:
    """Whether products of this precision go by way of float32 here."""
    return dtype == "float16" or (dtype == "bfloat16" and not native_bfloat16())


def entries_of(config: Any) -> int:
    """Entries of all parameters: those that a pass with its loss comes by."""
    return _entries_of(config)


@lru_cache
def _entries_of(config: Any) -> int:
    run = Run(Tape(learning=True), 4)
    setting = Setting(length=config.length) if config.kind_or_name() == "vectors" else Setting(length=1)
    _walk(config)(run, config, setting)
    return sum(value.entries for value in run.weights.made)
