"""The proof: what was predicted, measured on the real model at the same size, one beside the other."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from headway.config.base import sides
from headway.config.model import ModelConfig
from headway.config.text import RecurrentConfig, SentenceConfig
from headway.cost.compose import price_tree
from headway.cost.input_lengths import writes
from headway.cost.memory import cache_bytes, weight_bytes
from headway.cost.memory.measured import measured as measured_memory
from headway.cost.memory.traced import walked
from headway.cost.op_tree import backward, forward, lines
from headway.cost.optimiser import adapted_passes, learnt_of
from headway.cost.reach import reach
from headway.cost.reach.measured import measured as measured_reach
from headway.cost.reference_path import counter, reference_path
from headway.cost.resize import grain, resized
from headway.cost.setting import Setting
from headway.cost.sheet import Sheet
from headway.cost.time import predict
from headway.cost.time.machine import stored
from headway.models import build, parameters
from headway.models.lora import add_lora, trainable
from headway.ops.loss import cross_entropy_sum


def real_inputs(config: Any, setting: Setting, *, seed: int = 0) -> tuple[Tensor, ...]:
    """What `model(*inputs)` takes: tokens, a source and a target, images, or vectors.

    >>> from headway.presets import preset
    >>> [tuple(one.shape) for one in real_inputs(preset("t5-small"), Setting(batch=2, length=5, source=7))]
    [(2, 7), (2, 5)]
    """
    batch = setting.batch
    draw = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, setting.dtype)

    def tokens(length: int, vocabulary: int) -> Tensor:
        return torch.randint(vocabulary, (batch, length), generator=draw)

    if not isinstance(config, ModelConfig):
        raise ValueError(f"what a {config.kind_or_name()} model reads is not known")
    size: Any = config
    if config.reads == "source":
        first, second = (
            (size.source_vocabulary, size.vocabulary)
            if isinstance(config, RecurrentConfig)
            else (size.vocabulary, size.outputs)
        )
        return tokens(setting.source_length, first), tokens(setting.length, second)
    if config.reads == "vectors":
        return (torch.randn(batch, setting.length, size.width, generator=draw).to(dtype),)
    if config.reads in ("images", "images and tokens"):
        pictured = size if config.reads == "images" else size.vision
        images = torch.randn(batch, pictured.channels, *sides(pictured.image), generator=draw).to(dtype)
        return (images,) if config.reads == "images" else (images, tokens(setting.length, size.vocabulary))
    return (tokens(setting.length, size.encoder.vocabulary if isinstance(config, SentenceConfig) else size.vocabulary),)


Found = tuple[str, int | float, int | float, str]
PROBED = 24  # tokens at which reach is measured: its time grows with their square
ROUNDS = 3


def memory(sheet: Sheet, model: nn.Module, inputs: tuple[Tensor, ...]) -> Iterator[Found]:
    """Bytes kept for the way back, and in use at most, of a pass with its loss; beside them the whole process."""
    config, setting = sheet.config, sheet.setting
    loss = _loss(config, model, inputs)
    if config is None or loss is None:
        return
    with torch.enable_grad():
        found = measured_memory(model, inputs, loss=loss)
    model.eval()
    still, taught = walked(config, setting), walked(config, setting, learning=True)
    yield "saved activations", taught.saved, found.saved, "bytes"
    yield "peak of a forward pass", still.peak, found.peak_forward, "bytes"
    yield "peak of a pass and its way back", taught.peak, found.peak_step, "bytes"
    whole = taught.peak + taught.inputs + weight_bytes(config, setting)
    yield "the same with weights; the process", whole, found.rss, "bytes"


def _loss(config: Any, model: Any, inputs: tuple[Tensor, ...]) -> Callable[[], Tensor] | None:
    """What the model is trained with; None where that takes more than its inputs."""
    kind = config.kind_or_name()
    if kind in ("language", "seq2seq", "recurrent"):
        return lambda: _written(model, inputs)
    if kind in ("vision", "davit") and config.classes and not getattr(config, "teacher", False):
        label = torch.zeros(len(inputs[0]), dtype=torch.long)
        return lambda: cross_entropy_sum(model.logits(model.hidden_states(inputs[0])), label)[0]
    return None


def _written(model: Any, inputs: tuple[Tensor, ...]) -> Tensor:
    """The loss of the next token, as training takes it."""
    *source, tokens = inputs
    return model.cross_entropy(model.hidden_states(tokens, *(model.encode(one) for one in source)), tokens)[0]


def cache(sheet: Sheet, model: Any, inputs: tuple[Tensor, ...]) -> Iterator[Found]:
    """Bytes of keys and values once the text is read."""
    config, setting = sheet.config, sheet.setting
    if config is None or config.kind_or_name() not in ("language", "seq2seq") or not writes(config):
        return
    *source, tokens = inputs
    session = model.session(*source, capacity=setting.length)
    session.read(tokens)
    held = sum(cache.nbytes for block in session.caches for cache in block.parts)
    yield "cache", cache_bytes(config, setting, setting.length, setting.length), held, "bytes"


def reached(sheet: Sheet, model: nn.Module, inputs: tuple[Tensor, ...]) -> Iterator[Found]:
    """Inputs with a gradient, on a narrow model of the same masks and a short text."""
    config = sheet.config
    if config is None or config.kind_or_name() not in ("language", "masked", "seq2seq", "recurrent"):
        return
    length = min(PROBED, sheet.setting.length)
    try:
        narrow = resized(config, "width", grain(config))
    except ValueError:
        narrow = config
    expected, found = reach(narrow, length), measured_reach(build(narrow).eval(), length)
    for one, other in zip(expected.layers, found.layers, strict=True):
        if one.number == max(layer.number for layer in expected.layers if layer.part == one.part):
            yield f"reach of the {one.part}, mean of {length}", one.mean, other.mean, "positions"


def seconds(sheet: Sheet, model: Any, inputs: tuple[Tensor, ...]) -> Iterator[Found]:
    """A forward pass, and one more token, on the machine that was measured."""
    machine, _ = stored()
    config, setting = sheet.config, sheet.setting
    if config is None or machine is None or setting.dtype not in machine.rates:
        return
    with torch.no_grad():
        took = _fastest(lambda: model(*inputs))
    promised = predict(lines(price_tree(config, setting)), machine, dtype=setting.dtype).seconds
    yield "forward", promised, took, "seconds"
    if config.kind_or_name() == "language" and writes(config) and setting.length > ROUNDS:
        session, held = model.session(capacity=setting.length), setting.length - ROUNDS - 1
        session.read(inputs[0][:, :held])
        took = _fastest(lambda: session.read(inputs[0][:, :1]))
        tree = price_tree(config, replace(setting, past=0).decode(held))
        yield "decode", predict(lines(tree), machine, "decode", dtype=setting.dtype).seconds, took, "seconds"


def _fastest(call: Callable[[], object]) -> float:
    call()
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return min(found)


@dataclass(frozen=True)
class Check:
    """One figure before and after. unit: parameters, FLOPs, bytes, positions, seconds."""

    name: str
    predicted: int | float
    measured: int | float
    unit: str

    @property
    def difference(self) -> int | float:
        """Measured less predicted."""
        return self.measured - self.predicted

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured if self.measured else float(self.predicted == 0) or float("inf")

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "difference": self.difference, "ratio": self.ratio}


def verify(sheet: Sheet, model: nn.Module | None = None) -> Iterator[Check]:
    """Every figure that can be measured, one after the other; the model has random weights where none is given.

    Padding and masks of the setting change what is useful alone, and are left out here.
    """
    if sheet.config is None:
        raise ValueError(f"{sheet.name} was priced by a trace of itself: there is no second count to compare with")
    config = sheet.config
    bare = replace(sheet.setting, past=0, lengths=None, source_lengths=None, mask=None, training=False)
    sheet = replace(sheet, setting=bare)
    real: nn.Module = build(config, dtype=getattr(torch, bare.dtype)).eval() if model is None else model
    inputs, adapters = real_inputs(config, bare), 0
    if bare.lora is not None:
        add_lora(real, bare.lora)
        adapters = learnt_of(config, bare)
        yield Check("trained parameters", adapters, trainable(real), "parameters")
    yield Check("parameters", sheet.params + adapters, parameters(real), "parameters")
    yield from _flops(sheet, real, inputs) if bare.lora is None else _adapted_flops(sheet, real, inputs)
    for found in (memory, cache, reached, seconds)[: None if bare.lora is None else 1]:
        yield from (Check(*one) for one in found(sheet, real, inputs))


def _flops(sheet: Sheet, model: nn.Module, inputs: tuple[Tensor, ...]) -> Iterator[Check]:
    """Dense products on the reference path, executed ones on the fast path, forwards and backwards."""
    assert sheet.config is not None
    trees = [price_tree(sheet.config, replace(sheet.setting, training=training)) for training in (False, True)]
    still, taught = trees
    with reference_path(model), torch.enable_grad():
        ahead, back = _counted(model, inputs, lambda: FlopCounterMode(display=False))
    yield Check("dense forward", 2 * forward(still).dense, ahead, "FLOPs")
    yield Check("dense backward", 2 * backward(taught).dense, back, "FLOPs")
    with torch.enable_grad():
        ahead, back = _counted(model, inputs, counter)
    yield Check("executed forward", 2 * (forward(taught).executed or 0), ahead, "FLOPs")
    yield Check("executed backward", 2 * (backward(taught).executed or 0), back, "FLOPs")


def _adapted_flops(sheet: Sheet, model: nn.Module, inputs: tuple[Tensor, ...]) -> Iterator[Check]:
    """Dense products with adapters, of a trace beside torch's own count on the reference path."""
    assert sheet.config is not None
    expected = adapted_passes(sheet.config, sheet.setting)
    with reference_path(model), torch.enable_grad():
        found = _counted(model, inputs, lambda: FlopCounterMode(display=False))
    for name, said, seen in zip(("forward", "backward"), expected, found, strict=True):
        yield Check(f"dense {name}", 2 * said.dense, seen, "FLOPs")


def _counted(model: nn.Module, inputs: tuple[Tensor, ...], make: Callable[[], FlopCounterMode]) -> tuple[int, int]:
    """FLOPs of the products of one pass, and of its way back."""
    with make() as ahead:
        out = model(*inputs)
    with make() as back:
        out.float().sum().backward()
    for parameter in model.parameters():
        parameter.grad = None
    return ahead.get_total_flops(), back.get_total_flops()
