"""What a module reads, found by calling it: tokens where they are looked up in a table, else vectors, else images."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headway.audit.subject.adapter import Adapter
from headway.audit.subject.entrance import LOOKUPS
from headway.audit.subject.signature import size
from headway.audit.subject.trial import result, said, works

TIMES = (1, 2, 4, 16)
SIDES = (224, 32, 64, 28, 16, 96, 128, 256, 384)


def inputs_of(model: nn.Module, start: Adapter, told: Mapping[str, Any]) -> Adapter:
    """Tokens where they are looked up, else vectors, else images."""
    ways = {"tokens": _as_tokens, "vectors": _as_vectors, "images": _as_images}
    errors: list[str] = []
    for name in [told["inputs"]] if "inputs" in told else _order(model, told):
        try:
            return ways[name](model, replace(start, inputs=name))
        except Exception as error:
            errors.append(f"with {name}: {said(error)}")
    raise ValueError(
        f"nobody can guess what {type(model).__name__} reads ({'; '.join(errors)}): give inputs= and vocabulary=, "
        "width= or image= (--vocabulary, --width, --image), or an Adapter"
    )


def _order(model: nn.Module, told: Mapping[str, Any]) -> list[str]:
    """What is tried first: what was told of, then what its first layer reads."""
    for field, name in (("vocabulary", "tokens"), ("width", "vectors"), ("image", "images")):
        if told.get(field) is not None:
            return [name]
    first = next((one for one in model.modules() if isinstance(one, nn.Embedding | nn.Linear | nn.Conv2d)), None)
    return ["images", "tokens", "vectors"] if isinstance(first, nn.Conv2d) else ["tokens", "vectors", "images"]


def _as_tokens(model: nn.Module, start: Adapter) -> Adapter:
    if start.vocabulary is not None:
        return start
    tables = _tables(model, start)
    source = tables["source"] if start.source else None
    if tables["inputs"] is None:
        raise ValueError("it reads whole numbers, but looks them up in no table: give vocabulary= (--vocabulary)")
    return replace(start, vocabulary=tables["inputs"], source_vocabulary=source)


def _tables(model: nn.Module, start: Adapter) -> dict[str, int | None]:
    """The sizes of the tables that a text is looked up in; some models read no short one."""
    for times in TIMES:
        try:
            return _looked_up(model, start, times)
        except Exception:
            if times == TIMES[-1]:
                raise
    raise AssertionError


def _looked_up(model: nn.Module, start: Adapter, times: int) -> dict[str, int | None]:
    text = [[0, 1, 1, 0, 1], [1, 0, 1, 1, 0]] if times == 1 else [[0, 1, 1, 0] * times, [1, 0, 1, 1] * times]
    texts = {"inputs": torch.tensor(text), "source": torch.tensor([[1, 1, 0], [0, 0, 1]])}
    texts = {name: text.to(next(model.parameters(), text).device) for name, text in texts.items()}
    watch = _Tables(texts)
    with watch:
        if start.source is None:
            result(model, texts["inputs"], **start.always)
        else:
            assert start.argument is not None
            result(model, **{start.source: texts["source"], start.argument: texts["inputs"]}, **start.always)
    return watch.found


class _Tables(TorchFunctionMode):
    """Notes how many rows the table has in which a text is looked up first."""

    def __init__(self, texts: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.texts: Mapping[str, Tensor] = texts
        self.found: dict[str, int | None] = dict.fromkeys(texts)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        parts = [*args, *(kwargs or {}).values()]
        tensors = [one for one in parts if isinstance(one, Tensor)]
        if func not in LOOKUPS or len(tensors) < 2 or not isinstance(out, Tensor) or not out.is_floating_point():
            return out
        table = next((one for one in tensors if one.is_floating_point()), None)
        for name, text in self.texts.items():
            if table is not None and self.found[name] is None and any(torch.equal(one, text) for one in tensors):
                self.found[name] = table.shape[0]
        return out


def _as_vectors(model: nn.Module, start: Adapter) -> Adapter:
    for width in [start.width] if start.width is not None else _widths(model):
        found = replace(start, width=width)
        if works(model, found):
            return found
    raise ValueError("vectors of no width that its first layers name went through: give width= (--width)")


def _widths(model: nn.Module) -> list[int]:
    """What its first layers read, in their order."""
    found: list[int] = []
    for one in model.modules():
        shape = getattr(one, "normalized_shape", None)
        width = size(one, "in_features", "embed_dim", "input_size", "d_model") or (shape[-1] if shape else None)
        if width is not None and width not in found:
            found.append(width)
    return found[:8]


def _as_images(model: nn.Module, start: Adapter) -> Adapter:
    for image in [start.image] if start.image is not None else _images(model):
        found = replace(start, image=image)
        if works(model, found):
            return found
    raise ValueError("images of no usual size went through: give image= (--image), C Y X")


def _images(model: nn.Module) -> list[tuple[int, int, int]]:
    """The size that it was made for, as timm's models say it; else usual ones."""
    for name in ("pretrained_cfg", "default_cfg"):
        said_of = getattr(model, name, None) or {}
        shape = said_of.get("input_size") if isinstance(said_of, Mapping) else getattr(said_of, "input_size", None)
        if shape is not None and len(shape) == 3:
            return [(int(shape[0]), int(shape[1]), int(shape[2]))]
    first = next((one for one in model.modules() if isinstance(one, nn.Conv2d)), None)
    channels = 3 if first is None else first.in_channels
    own = getattr(model, "image_size", None) or getattr(model, "img_size", None)
    sides = [(own, own) if isinstance(own, int) else tuple(own)] if own is not None else []
    return [(channels, int(y), int(x)) for y, x in [*sides, *((side, side) for side in SIDES)]]
