"""Parts of a model that are not trained: `embeddings`, `layers:0-3`; of two stacks `encoder.layers:0-3`."""

import re
from collections.abc import Iterable, Iterator

from torch import nn

from headway.hub.receipt import Hasher
from headway.nn.block import Stack
from headway.nn.layers import LearnedPositions

EMBEDDINGS = "embeddings"


def freeze(model: nn.Module, parts: Iterable[str]) -> None:
    """Switch the gradients of these parts off, in place; a part that is not there is refused by name.

    >>> from headway.models import build
    >>> tiny = build("gpt2", layers=3, width=6, heads=2, vocabulary=5, length=3)
    >>> freeze(tiny, ["embeddings", "layers:0-1"])
    >>> sorted({name.split(".")[2] for name, one in tiny.named_parameters() if one.requires_grad and "blocks" in name})
    ['2']
    """
    for part in parts:
        for module in list(_modules(model, part)):
            module.requires_grad_(False)


def _modules(model: nn.Module, part: str) -> Iterator[nn.Module]:
    if part == EMBEDDINGS:
        found = [one for one in model.modules() if isinstance(one, nn.Embedding | LearnedPositions)]
        if not found:
            raise ValueError(f"freeze {part}: this {type(model).__name__} has no tables of tokens or positions")
        yield from found
        return
    said = re.fullmatch(r"(?:(\w+)\.)?layers:(\d+)(?:-(\d+))?", part)
    if said is None:
        raise ValueError(f"freeze takes {EMBEDDINGS}, layers:0-3 or encoder.layers:0-3, not {part!r}")
    stack = _stack(model, part, said[1])
    first, last = int(said[2]), int(said[3] or said[2])
    end = stack.config.layers - 1
    if not first <= last <= end:
        raise ValueError(f"freeze {part}: the layers are 0 to {end}, the first before the last")
    if stack.config.shared and (first, last) != (0, end):
        raise ValueError(f"freeze {part}: these layers share one block's parameters, so freeze all: layers:0-{end}")
    yield from list(stack.blocks)[first : last + 1]


def _stack(model: nn.Module, part: str, name: str | None) -> Stack:
    stacks = {path: one for path, one in model.named_modules() if isinstance(one, Stack)}
    if name is None and len(stacks) == 1:
        return next(iter(stacks.values()))
    found = None if name is None else stacks.get(name)
    if found is None:
        there = " or ".join(f"{path}.layers" for path in stacks) if len(stacks) > 1 else "layers" if stacks else "none"
        raise ValueError(f"freeze {part}: this {type(model).__name__} does not have these layers; it has {there}")
    return found


def frozen_hash(model: nn.Module) -> str:
    """The hash of what is not trained, which no checkpoint keeps; "" where all is."""
    frozen = [(name, one) for name, one in model.named_parameters() if not one.requires_grad]
    hasher = Hasher()
    for name, one in frozen:
        hasher.add(name, one)
    return hasher.hexdigest() if frozen else ""
