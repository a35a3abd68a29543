"""What is measured beside the counts: bytes, reach, seconds. Each yields (name, predicted, measured, unit)."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.cost.compose import price_tree
from headway.cost.memory.cache import cache_bytes
from headway.cost.memory.measured import measured as measured_memory
from headway.cost.memory.traced import walked
from headway.cost.part import lines
from headway.cost.reach import reach
from headway.cost.reach.measured import measured as measured_reach
from headway.cost.resize import grain, resized
from headway.cost.sheet import Sheet
from headway.cost.time import predict
from headway.cost.time.machine import stored
from headway.models import build
from headway.ops.loss import cross_entropy_sum, linear_cross_entropy

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
    whole = taught.peak + taught.inputs + setting.itemsize * sheet.params
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
    hidden = model.hidden_states(tokens, *(model.encode(one) for one in source))
    kept = getattr(model, "target_tokens", None) or getattr(model, "tokens", None)
    head, bias = model.head, getattr(model, "head_bias", None)
    weight: Tensor = (kept if head is None else head).weight  # pyright: ignore[reportOptionalMemberAccess]
    return linear_cross_entropy(
        hidden.flatten(0, 1), weight, tokens.flatten(), bias=None if bias is None else bias[0],
        scale=getattr(model.config, "head_scale", 1.0),
    )[0]  # fmt: skip


def cache(sheet: Sheet, model: Any, inputs: tuple[Tensor, ...]) -> Iterator[Found]:
    """Bytes of keys and values once the text is read."""
    config, setting = sheet.config, sheet.setting
    if config is None or config.kind_or_name() not in ("language", "seq2seq"):
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
    if config.kind_or_name() == "language" and setting.length > ROUNDS:
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
