"""How a model is called, as far as it says itself; what is given by hand comes first."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headway.adapt.adapter import Adapter
from headway.adapt.call import LOOKUPS
from headway.adapt.libraries import library_adapter, torch_layer_adapter
from headway.adapt.own import own_adapter
from headway.adapt.signature import (
    MASKS,
    POSITIONS,
    SOURCE_MASKS,
    SOURCES,
    TARGET_MASKS,
    TARGETS,
    Signature,
    reads_one_way,
    size,
)
from headway.adapt.transformers import decoder_session, transformers_adapter
from headway.adapt.trial import check_adapter, error_line, inference, longest_length, result, trial_run, works
from headway.config import nearest


def guess_adapter(model: nn.Module, adapter: Adapter | None, overrides: Mapping[str, Any]) -> Adapter:
    """The adapter as given, or a guess; `overrides` are fields that replace what it says.

    >>> guess_adapter(nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 11)), None, {}).vocabulary
    11
    """
    known = [one.name for one in fields(Adapter)]
    for name in overrides:
        if name not in known:
            raise ValueError(f"an Adapter has no {name!r}{nearest(name, known)}; it has {', '.join(known)}")
    if adapter is not None:
        return check_adapter(model, replace(adapter, **overrides))
    found = _known(model)
    return check_adapter(model, module_adapter(model, overrides) if found is None else replace(found, **overrides))


def _known(model: nn.Module) -> Adapter | None:
    """By the manners of a library; None of a module of one's own."""
    for family in (own_adapter, transformers_adapter, library_adapter, torch_layer_adapter):
        found = family(model)
        if found is not None:
            return found
    return None


FIELDS = frozenset(one.name for one in fields(Adapter))


def module_adapter(model: nn.Module, overrides: Mapping[str, Any]) -> Adapter:
    """The adapter of any module; a ValueError that names a field to give where nothing helps.

    What is given is part of every call by which a guess is tried.
    """
    signature = Signature(model)
    found = guess_inputs(model, replace(_started(signature), **overrides), overrides)
    if found.call is None:
        found = _masked(model, found, signature, overrides)
        found = _placed(model, found, signature, overrides)
    if "longest" not in overrides:
        found = replace(found, longest=longest_length(model, found))
    return _claimed(model, _cached(found, signature, overrides), overrides)


def _started(signature: Signature) -> Adapter:
    """Which parameters are what it reads."""
    needed = signature.required
    if signature.has("input_ids", "decoder_input_ids"):
        return Adapter(source="input_ids", argument="decoder_input_ids")
    if len(needed) == 2 and needed[0] in SOURCES and needed[1] in TARGETS:
        return Adapter(source=needed[0], argument=needed[1])
    return Adapter()


def _noted(adapter: Adapter, sentence: str) -> Adapter:
    return replace(adapter, notes=(*adapter.notes, sentence))


def _masked(model: nn.Module, found: Adapter, signature: Signature, overrides: Mapping[str, Any]) -> Adapter:
    """A mask by its name, in the type of numbers that goes through."""
    if found.inputs == "images" or "mask" in overrides:
        return found
    name = signature.first_of(MASKS if found.source is None else TARGET_MASKS)
    if name is None:
        return found
    hides = overrides.get("hides", (MASKS | TARGET_MASKS)[name])
    named = replace(found, mask=name, hides=hides, source_mask=_source_mask(found, signature, hides))
    for kind in [overrides["mask_type"]] if "mask_type" in overrides else _types(name):
        tried = replace(named, mask_type=kind)
        if works(model, tried, keep=_all_but_one(found), items=3):
            means = "ignore" if tried.hides else "real"
            return _noted(tried, f"`{name}` is taken for a mask of tokens whose True means {means}.")
    return _noted(found, f"`{name}` takes no truth for each token (B L), so it is left out; a `call` can say more.")


def _source_mask(found: Adapter, signature: Signature, hides: bool) -> str | None:
    """The name of the same for the source, where its True means the same."""
    names = [name for name, other in SOURCE_MASKS.items() if other == hides and signature.has(name)]
    return names[0] if found.source is not None and names else None


def _types(name: str) -> tuple[str, ...]:
    return ("long", "bool", "float") if name.endswith("attention_mask") else ("bool", "long", "float")


def _all_but_one(found: Adapter) -> torch.Tensor:
    keep = torch.ones(3, max(5, found.shortest), dtype=torch.bool)
    keep[1, -1] = False
    return keep


def _placed(model: nn.Module, found: Adapter, signature: Signature, overrides: Mapping[str, Any]) -> Adapter:
    """Positions by their name, where they go through."""
    name = signature.first_of(POSITIONS)
    if found.inputs == "images" or "positions" in overrides or name is None:
        return found
    tried = replace(found, positions=name)
    places = torch.arange(max(5, found.shortest)).repeat(2, 1)
    return tried if works(model, tried, positions=places) else found


def _cached(found: Adapter, signature: Signature, overrides: Mapping[str, Any]) -> Adapter:
    """Those who take a cache by the usual names are read with one."""
    usual = signature.has("input_ids", "past_key_values", "use_cache")
    if "session" in overrides or not usual or found.source is not None:
        return found
    return replace(found, session=decoder_session())


def _claimed(model: nn.Module, found: Adapter, overrides: Mapping[str, Any]) -> Adapter:
    """Whether it reads one way: as its names say, else as logits for each position suggest."""
    if "causal" in overrides or found.inputs == "images":
        return found
    said = True if found.source is not None else reads_one_way(model)
    if said is not None:
        ways = "from left to right" if said else "both ways"
        return _noted(replace(found, causal=said), f"By its name or its parts it reads {ways} (causal={said}).")
    if _gives_logits(model, found):
        return _noted(
            replace(found, causal=True),
            "Logits over the vocabulary for each position are taken for those of the next token (causal=True).",
        )
    return found


def _gives_logits(model: nn.Module, found: Adapter) -> bool:
    if found.inputs != "tokens":
        return False
    try:
        with inference(model):
            shape = trial_run(model, found).shape
    except Exception:  # the check of the whole adapter tells of it
        return False
    return len(shape) == 3 and shape[-1] == found.vocabulary


TIMES = (1, 2, 4, 16)
SIDES = (224, 32, 64, 28, 16, 96, 128, 256, 384)


def guess_inputs(model: nn.Module, start: Adapter, overrides: Mapping[str, Any]) -> Adapter:
    """Tokens where they are looked up, else vectors, else images."""
    ways = {"tokens": _as_tokens, "vectors": _as_vectors, "images": _as_images}
    errors: list[str] = []
    for name in [overrides["inputs"]] if "inputs" in overrides else _order(model, overrides):
        try:
            return ways[name](model, replace(start, inputs=name))
        except Exception as error:
            errors.append(f"with {name}: {error_line(error)}")
    raise ValueError(
        f"nobody can guess what {type(model).__name__} reads ({'; '.join(errors)}): give inputs= and vocabulary=, "
        "width= or image= (--vocabulary, --width, --image), or an Adapter"
    )


def _order(model: nn.Module, overrides: Mapping[str, Any]) -> list[str]:
    """What is tried first: what was given, then what its first layer reads."""
    for field, name in (("vocabulary", "tokens"), ("width", "vectors"), ("image", "images")):
        if overrides.get(field) is not None:
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
