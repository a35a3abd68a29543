"""`headway.price`: the price of anything that computes, before it runs.

>>> sheet = price("gpt2", length=1024)
>>> sheet.params, sheet.flops
(124439808, 291648307200)
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from headway.config import Extent, Frozen
from headway.cost.asked import fixed_length, pictured, whole
from headway.cost.limits import limits, times
from headway.cost.memory import WRITERS, memory_of
from headway.cost.memory.fit import Fit, largest, read_bytes
from headway.cost.phases import phases
from headway.cost.reach import reach
from headway.cost.request import Asked, check_dtype
from headway.cost.setting import Setting
from headway.cost.sheet import Sheet, sheet_of
from headway.cost.time.machine import stored
from headway.hub.target import Function, made_by, resolve
from headway.ops.mask import Mask


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
    optimiser: str = "adamw",
    mask: Mask | None = None,
    memory: int | str | None = None,
    name: str | None = None,
) -> Sheet:
    """What a model costs at one size; nothing is allocated.

    target: a preset, a directory, a run, package.module:function, a configuration, a module of ours or of anybody.
    batch rows of `length` tokens (None: what the model was made for) and `source` tokens; `past` tokens in the cache
    of a decoding step, `new` tokens to generate. lengths: of padded rows. memory ("8G"): what fits into it is added.
    inputs: what a module of somebody else reads, where that cannot be told: "tokens", "vectors:2,64,8", "images:…".
    """
    asked = Asked(
        batch=batch, length=length, source=source, past=past, new=new, lengths=lengths, source_lengths=source_lengths,
        image=image, inputs=inputs, dtype=dtype, optimiser=optimiser, mask=mask,
    )  # fmt: skip
    limit = None if memory is None else read_bytes(memory)
    return completed(drafted(target, asked, name=name), asked, limit)


def drafted(target: Any, asked: Asked, *, name: str | None = None) -> Sheet:
    """Operations and phases alone: what does not follow from them."""
    check_dtype(asked.dtype)
    title, found = _found(target)
    if isinstance(found, nn.Module):
        from headway.cost.price_module import module_sheet  # the tracer is for these alone

        return module_sheet(found, name or title, asked)
    config = pictured(whole(found), asked.image)
    setting = asked.setting(config)
    plain, given = replace(setting, past=0), {"new": asked.new or 0, "optimiser": asked.optimiser}
    sheet = sheet_of(name or title, config, plain, **given)
    if setting.past not in (0, setting.length):
        sheet = replace(sheet, phases=phases(config, setting, **given))
    return replace(sheet, setting=setting)


def completed(sheet: Sheet, asked: Asked, limit: int | None = None) -> Sheet:
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
    if config is None:
        unfit = () if limit is None else ("what fits into a memory is known of configurations, not of traces",)
        return replace(sheet, notes=(*sheet.notes, *unfit))
    return replace(
        sheet,
        memory=memory_of(config, setting, optimiser=asked.optimiser, new=asked.new or 0),
        fits=() if limit is None else tuple(_fits(config, setting, asked, limit)),
        reach=reach(config, setting.length, source=setting.source, mask=setting.mask),
    )


def _fits(config: Frozen, setting: Setting, asked: Asked, limit: int) -> Iterator[Fit]:
    """The largest batch and the longest text of a step of training, and of generation (or a pass)."""
    phases = ("step", "generate" if config.kind_or_name() in WRITERS else "forward")
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
        return type(target).__name__, _inside(target)
    what = type(target).__name__
    raise ValueError(f"a price is of a name, of a configuration or of a module (nn.Module), not of {what}")


def found_in(target: Any) -> Any:
    """The configuration (or the module of somebody else) that a target means."""
    return _found(target)[1]


def _resolved(text: str) -> Any:
    target = resolve(text)
    if not isinstance(target, Function):
        return target.config
    made = made_by(target)
    if not isinstance(made, Frozen | nn.Module):
        raise ValueError(f"{target.name} gives a {type(made).__name__}: a model or its configuration is expected")
    return made if isinstance(made, Frozen) else _inside(made)


def _inside(model: nn.Module) -> Any:
    """The configuration of a model of ours; anybody else's model is traced."""
    config = getattr(model, "config", None)
    return config if isinstance(config, Frozen) else model


__all__ = ["completed", "drafted", "found_in", "price"]
