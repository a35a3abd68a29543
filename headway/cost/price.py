"""`headway.price`: the price of anything that computes, before it runs.

A configuration is priced by composing the costs of its operations, anybody else's module by tracing it.

>>> sheet = price("gpt2", length=1024)
>>> sheet.params, sheet.flops
(124439808, 291648307200)
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.config import Extent, Frozen
from headway.config.model import ModelConfig
from headway.config.text import ModuleConfig
from headway.config.train import LoraConfig
from headway.config.weights import WeightsConfig, weights_config
from headway.cost.input_lengths import (
    RECURRENT,
    PriceRequest,
    check_dtype,
    check_positive,
    fixed_length,
    whole,
    with_image,
    writes,
)
from headway.cost.limits import limits, times
from headway.cost.memory import ModelMemory, memory_of
from headway.cost.memory.fit import Fit, largest, read_bytes
from headway.cost.optimiser import WIDE, entries_of, learnt_of, optimiser_bytes, optimiser_cost
from headway.cost.quantized import quantized_cost
from headway.cost.reach import reach
from headway.cost.setting import Setting
from headway.cost.sheet import Sheet, phases, sheet_of
from headway.cost.time.machine import stored
from headway.cost.trace import Bytes, Trace, inputs_for, merged, trace
from headway.cost.trace.call import tensors_in
from headway.hub.target import Function, made_by, resolve
from headway.models import on_meta
from headway.models.own_module import OwnModule, length_of, make_module
from headway.ops.mask import Mask
from headway.sizes import Cost


@dataclass(frozen=True)
class TracedMemory:
    """Bytes, as `headway.cost.memory.ModelMemory` counts them: peaks are of everything that is in use at once.

    weights: buffers included. A module that learns nothing has no gradients, and no peak of a step.
    """

    weights: int
    gradients: int
    optimiser: int
    inputs: int
    saved: int
    peak_forward: int
    peak_step: int
    aside: int = 0

    def as_json(self) -> dict[str, int]:
        return asdict(self)


def module_sheet(model: nn.Module, name: str, asked: PriceRequest) -> Sheet:
    """The sheet of a module that is not ours: forward and backward as they ran on shapes alone."""
    _check(name, asked)
    most = model.config.length if isinstance(model, OwnModule) else length_of(model)
    model = model.module if isinstance(model, OwnModule) else model
    size = asked.length or most or RECURRENT
    given, keywords = inputs_for(model, asked.batch, size, asked.source, shape=asked.inputs, image=asked.image)
    tensors = tensors_in([given, keywords])
    image = next((tuple(one.shape[-2:]) for one in tensors if one.dim() == 4), None)
    try:
        found = _traced(model, given, keywords)
    except ValueError as error:
        if most is None or size <= most:
            raise
        raise ValueError(f"{name} reads {most:,} tokens at most, not {size:,}: give a smaller length") from error
    setting = Setting(batch=asked.batch, length=size, source=asked.source, dtype=asked.dtype)
    if image is not None:
        setting = replace(setting, image=image, length=0 if len(tensors) == 1 else size)
    return Sheet(
        name=name,
        setting=setting,
        operations=tuple(merged(found.lines)),
        parameters=dict(found.parameters.kinds),
        phases=_phases(found, asked.optimiser),
        depth=dict(found.depth),
        memory=None if found.memory is None else traced_memory(model, tensors, found.memory, asked.optimiser),
        notes=(*found.notes, *_unseen(found), *_assumed(image, asked), *_of_length(tensors, most, asked, name)),
    )


def traced_memory(model: nn.Module, inputs: list[Tensor], found: Bytes, optimiser: str) -> TracedMemory:
    """Live tensors as the trace met them; with weights, inputs and the state of the optimiser beside them."""
    weights, given = _size((*model.parameters(), *model.buffers())), _size(inputs)
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    copies = sum(WIDE * one.numel() for one in learnt if one.element_size() < WIDE)
    state = copies + optimiser_bytes(optimiser, sum(one.numel() for one in learnt))
    step = 0 if found.step_peak is None else weights + given + state + found.step_peak
    return TracedMemory(
        weights, _size(learnt), state, given, found.saved or 0, weights + given + (found.forward_peak or 0), step
    )


def _size(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _assumed(image: tuple[int, ...] | None, asked: PriceRequest) -> list[str]:
    if image is None or asked.image is not None or asked.inputs is not None:
        return []
    return [f"priced at images of {image[0]} x {image[1]} pixels: --image says another size"]


def _of_length(inputs: list[Tensor], most: int | None, asked: PriceRequest, name: str) -> Iterator[str]:
    """Where the length of a text is nobody's word, or goes against the module's own."""
    if asked.inputs is not None or all(one.dim() == 4 for one in inputs):
        return
    if asked.length is None and most is None:
        yield f"priced at a length of {RECURRENT}: {name} does not say how much it reads; --length says another"
    if most is not None and (asked.length or 0) > most:
        yield f"{name} says that it reads {most:,} tokens at most, and is priced at {asked.length:,}"


def _unseen(found: Trace) -> list[str]:
    """Pairs that a mask hides are known where a call says so; a mask in a tensor is numbers, and a trace has none."""
    attends = any(line.operation.kind == "attention" for line in found.lines)
    if not attends or found.forward.useful != found.forward.dense:
        return []
    return ["useful is dense here: a trace sees causality in calls with is_causal=True, not in a mask of numbers"]


def _check(name: str, asked: PriceRequest) -> None:
    """A trace knows the sizes that it is given, and nothing of caches, paddings and masks."""
    check_positive(batch=asked.batch, length=asked.length, source=asked.source)
    for key in ("past", "new", "lengths", "source_lengths", "mask", "lora"):
        if getattr(asked, key) is not None:
            raise ValueError(f"{name} is a module of its own, priced by tracing it: leave {key!r} out")


def _traced(model: nn.Module, given: tuple[Any, ...], keywords: dict[str, Any]) -> Trace:
    """With gradients where something learns."""
    learns = any(parameter.requires_grad for parameter in model.parameters())
    return trace(model, *given, backward=learns, **keywords)


def _phases(found: Trace, optimiser: str) -> dict[str, Cost]:
    forward, backward = found.forward, found.backward
    update = optimiser_cost(optimiser, found.parameters.total)
    return {"forward": forward, "backward": backward, "step": forward + backward + update}


def price(
    target: Any,
    *,
    batch: int = 1,
    length: int | None = None,
    source: int | None = None,
    past: int | None = None,
    new: int | None = None,
    lengths: Sequence[int] | None = None,
    source_lengths: Sequence[int] | None = None,
    image: Extent | None = None,
    inputs: str | None = None,
    dtype: str = "float32",
    weights: str | None = None,
    optimiser: str = "adamw",
    mask: Mask | None = None,
    memory: int | str | None = None,
    lora: LoraConfig | None = None,
    name: str | None = None,
) -> Sheet:
    """What a model costs at one size; nothing is allocated.

    target: a preset, a directory, a run, package.module:function, a configuration, a module of ours or of anybody.
    batch rows of `length` tokens (None: what the model was made for) and `source` tokens; `past` tokens in the cache
    of a decoding step, `new` tokens to generate. lengths: of padded rows. memory ("8G"): what fits into it is added.
    inputs: what a module of somebody else reads, where that cannot be told: "tokens", "vectors:2,64,8", "images:…".
    lora: adapters, which alone are trained.
    weights: "int8" or "int4": bytes of linear maps that are stored so, and the tokens a second that these allow.
    """
    asked = PriceRequest(
        batch=batch, length=length, source=source, past=past, new=new, lengths=lengths, source_lengths=source_lengths,
        image=image, inputs=inputs, dtype=dtype, weights=weights, optimiser=optimiser, mask=mask, lora=lora,
    )  # fmt: skip
    limit = None if memory is None else read_bytes(memory)
    return completed(drafted(target, asked, name=name), asked, limit)


def drafted(target: Any, asked: PriceRequest, *, name: str | None = None) -> Sheet:
    """Operations and phases alone: what does not follow from them."""
    check_dtype(asked.dtype)
    title, found = _found(target)
    if isinstance(found, nn.Module):
        return module_sheet(found, name or title, asked)
    config, weights = _without_quantised(with_image(whole(found), asked.image), asked.weights)
    setting = asked.setting(config)
    plain, given = replace(setting, past=0), {"new": asked.new or 0, "optimiser": asked.optimiser}
    sheet = sheet_of(name or title, config, plain, **given)
    if setting.past not in (0, setting.length):
        sheet = replace(sheet, phases=phases(config, setting, **given))
    if setting.lora is None:
        return replace(sheet, setting=setting, weights=weights)
    if weights is not None:
        raise ValueError(f"adapters are trained on floating-point weights, and these are {weights}")
    lora, learnt = setting.lora, learnt_of(config, setting)
    said = (
        f"adapters of rank {lora.rank} on {', '.join(lora.on)}: {learnt:,} parameters are trained, beside those counted"
    )
    return replace(sheet, setting=setting, notes=(*sheet.notes, said))


def _without_quantised(config: Frozen, weights: str | None) -> tuple[Frozen, WeightsConfig | None]:
    """The model in floating-point numbers, which has the same operations; and how its weights are stored."""
    if not isinstance(config, ModelConfig):
        if weights is not None:
            raise ValueError(f"{config.kind_or_name()} is no whole model, whose weights alone are stored as {weights}")
        return config, None
    stated = config.weights if weights is None else weights_config(weights)
    return (config if config.weights is None else config.replace(weights=None)), stated


def completed(sheet: Sheet, asked: PriceRequest, limit: int | None = None) -> Sheet:
    """The sheet with what follows from its size: memory, what fits into `limit` bytes, reach, bottleneck, time."""
    config, setting, past = sheet.config, replace(sheet.setting, past=0), sheet.setting.past
    machine, why = stored()
    seconds, unknown = times(config, sheet.operations, setting, past, machine)
    sheet = replace(
        sheet,
        bottleneck=limits(sheet.operations, config, setting, machine),
        time=seconds,
        notes=(*sheet.notes, *filter(None, (why, unknown))),
    )
    if config is not None:
        check_complete(config, sheet)
    if config is None:
        unfit = () if limit is None else ("what fits into a memory is known of configurations, not of traces",)
        return replace(sheet, notes=(*sheet.notes, *unfit))
    memory = memory_of(config, setting, optimiser=asked.optimiser, new=asked.new or 0)
    if sheet.weights is not None:
        assert isinstance(config, ModelConfig)
        decode = None if seconds is None else seconds.seconds.get("decode")
        found = quantized_cost(config, sheet.weights, setting.dtype, machine, decode)
        memory, sheet = _smaller(memory, found.bytes), replace(sheet, quantized=found)
    return replace(
        sheet,
        memory=memory,
        fits=() if limit is None else tuple(_fits(config, setting, asked, limit)),
        reach=reach(config, setting.length, source=setting.source, mask=setting.mask),
    )


def _smaller(memory: ModelMemory, weights: int) -> ModelMemory:
    """With quantised weights, which are not trained: nothing is kept for a step."""
    saved = memory.weights - weights
    kept = replace(memory, weights=weights, gradients=0, optimiser=0, saved=0, aside=0, saved_checkpointed=0)
    return replace(
        kept, peak_forward=memory.peak_forward - saved, peak_step=0, peak_step_checkpointed=0,
        peak_generate=max(0, memory.peak_generate - saved),
    )  # fmt: skip


def check_complete(config: Frozen, sheet: Sheet) -> None:
    """Refuses a price that misses parameters of the model: a part of it is not known to `headway.cost.compose`."""
    if sheet.params == entries_of(config):
        return
    known = {_unnumbered(line.path) for line in sheet.operations}
    model = on_meta(config)
    names = dict.fromkeys(_unnumbered(name) for name, _ in model.named_parameters())
    missing = [name for name in names if not {name, name.rpartition(".")[0]} & known]
    what = f": nothing is known of {', '.join(missing)}" if missing else ""
    raise ValueError(
        f"the price of {sheet.name} counts {sheet.params:,} parameters, the model has {entries_of(config):,}{what}; "
        "headway.cost.trace counts what any module does"
    )


def _unnumbered(path: str) -> str:
    return ".".join(name for name in path.split(".") if not name.isdigit())


def _fits(config: Frozen, setting: Setting, asked: PriceRequest, limit: int) -> Iterator[Fit]:
    """The largest batch and the longest text of a step of training, and of generation (or a pass)."""
    phases = ("step", "generate" if writes(config) else "forward")
    whats = ("batch", "length") if fixed_length(config) is None else ("batch",)
    for phase in phases:
        for what in whats:
            yield largest(config, setting, limit, what, phase, optimiser=asked.optimiser, new=asked.new or 0)


def _found(target: Any) -> tuple[str, Any]:
    """A name, and the configuration or the module that it means."""
    if isinstance(target, str | Path):
        return str(target), _resolved(str(target))
    if isinstance(target, Frozen):
        return target.kind_or_name(), target
    if isinstance(target, nn.Module):
        return type(target.module if isinstance(target, OwnModule) else target).__name__, _inside(target)
    what = type(target).__name__
    raise ValueError(f"a price is of a name, of a configuration or of a module (nn.Module), not of {what}")


def found_in(target: Any) -> Any:
    """The configuration (or the module of somebody else) that a target means."""
    return _found(target)[1]


def _resolved(text: str) -> Any:
    target = resolve(text)
    if not isinstance(target, Function):
        if not isinstance(config := target.config, ModuleConfig):
            return config
        with torch.device("meta"):
            return OwnModule(config, make_module(config.function))
    made = made_by(target)
    if not isinstance(made, Frozen | nn.Module):
        raise ValueError(f"{target.name} gives a {type(made).__name__}: a model or its configuration is expected")
    return made if isinstance(made, Frozen) else _inside(made)


def _inside(model: nn.Module) -> Any:
    """The configuration of a model of ours; anybody else's model is traced."""
    if isinstance(model, OwnModule):
        return model
    config = getattr(model, "config", None)
    return config if isinstance(config, Frozen) else model


__all__ = ["completed", "drafted", "found_in", "price"]
