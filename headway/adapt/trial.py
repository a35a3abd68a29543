"""Small runs by which an adapter is tried out: quiet ones, that leave the model as they found it."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.adapt.adapter import Adapter
from headway.adapt.inputs import draw_reading, fit_length
from headway.adapt.model import AdaptedModel
from headway.nn.modes import modes_kept

NEEDS = {
    "tokens": ("vocabulary", "how many tokens it knows"),
    "vectors": ("width", "how wide its vectors are"),
    "images": ("image", "how large its images are (C, Y, X)"),
}


@contextmanager
def inference(model: nn.Module) -> Iterator[None]:
    """In eval mode, without gradients, and without a draw less for whoever comes after."""
    with modes_kept(model), torch.no_grad(), torch.random.fork_rng(devices=[]):
        model.eval()
        yield


def trial_run(model: nn.Module, adapter: Adapter, *, items: int = 2, length: int = 5, **more: Any) -> Tensor:
    """The result of a short text; `more` are further fields of its reading."""

    length = fit_length(adapter, max(length, adapter.shortest))
    drawn = draw_reading(adapter, seed=1, length=length, items=items, source=length)
    return AdaptedModel(model, adapter).run([replace(drawn, **more)])[0]


def works(model: nn.Module, adapter: Adapter, **reading: Any) -> bool:
    """Whether the model can be called so."""
    try:
        with inference(model):
            trial_run(model, adapter, **reading)
    except Exception:  # whatever a foreign model says to what it does not expect
        return False
    return True


def check_adapter(model: nn.Module, adapter: Adapter) -> Adapter:
    """The adapter, after one run by it; what is missing or fails is told in one sentence with a way out."""
    field, what = NEEDS[adapter.inputs]
    if getattr(adapter, field) is None:
        raise ValueError(f"nothing says {what}: give {field}= (--{field}), as a field of its Adapter")
    _check_names(model, adapter)
    adapter = with_lengths(model, adapter)
    try:
        with inference(model):
            trial_run(model, adapter)
    except Exception as error:
        raise ValueError(
            f"the model, called with {_called(adapter)}, failed: {error_line(error)}; {WAY_OUT}"
        ) from error
    return adapter


NAMES = ("argument", "mask", "positions", "vectors", "source", "source_mask")


def _check_names(model: nn.Module, adapter: Adapter) -> None:
    """A keyword that `forward` does not know would otherwise fail in the middle of an audit."""
    if adapter.call is not None:
        return
    parameters = inspect.signature(model.forward).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return
    for field in NAMES:
        name = getattr(adapter, field)
        if name is not None and name not in parameters:
            known = ", ".join(parameters)
            raise ValueError(f"{field}={name!r}: forward of {type(model).__name__} has no {name!r}; it has {known}")


def with_lengths(model: nn.Module, adapter: Adapter) -> Adapter:
    """The same, with the shortest text that it takes, or the steps its lengths go in, where it does not take any."""
    usual = adapter.inputs == "images" or adapter.shortest > 1 or adapter.multiple > 1 or adapter.longest == 1
    if usual or (works(model, adapter, length=1) and works(model, adapter, length=5)):
        return adapter
    taken = [length for length in range(1, 17) if works(model, adapter, length=length)]
    if not taken:
        return adapter
    if taken == list(range(taken[0], 17)):
        note = f"It reads no text shorter than {taken[0]} (shortest)."
        return replace(adapter, shortest=taken[0], notes=(*adapter.notes, note))
    step = taken[0]
    if step > 1 and taken == list(range(step, 17, step)):
        note = f"It reads texts of {step}, {2 * step} … (multiple)."
        return replace(adapter, shortest=step, multiple=step, notes=(*adapter.notes, note))
    return adapter


WAY_OUT = (
    "say how it is called with an Adapter: its fields name the keywords of forward (shortest=, longest= and multiple= "
    "the lengths), its `call` is the whole call"
)


def error_line(error: BaseException) -> str:
    """An error in one line."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"[:300].rstrip(".: ")


def _called(adapter: Adapter) -> str:
    shape = {"tokens": "(2, 5)", "vectors": f"(2, 5, {adapter.width})", "images": f"(2, {_sizes(adapter.image)})"}
    name = adapter.argument or {"tokens": "tokens", "vectors": "vectors", "images": "images"}[adapter.inputs]
    return f"{name} {shape[adapter.inputs]}" + (f" and {adapter.source} (2, 5)" if adapter.source else "")


def _sizes(image: tuple[int, ...] | None) -> str:
    return ", ".join(map(str, image or ()))


def result(model: nn.Module, *args: Any, **keywords: Any) -> Any:
    """What comes out of a call with these very arguments."""
    with inference(model):
        return model(*args, **keywords)


def separates_segments(model: nn.Module, adapter: Adapter) -> bool:
    """Whether a text stays as it is when another one before it in its row changes."""
    segments = torch.tensor([[0, 0, 0, 1, 1]])
    try:
        with inference(model):
            one, two = (trial_run(model, adapter, items=1, segments=segments, inputs=text) for text in _texts(adapter))
    except Exception:
        return False
    if one.ndim < 3 or one.shape[1] != segments.shape[1]:  # one result for all texts of a row
        return False
    later = one[:, 3:], two[:, 3:]
    return bool((later[0] - later[1]).abs().max() <= 1e-5 * later[0].abs().max())


def _texts(adapter: Adapter) -> tuple[Tensor, Tensor]:
    most = (adapter.vocabulary or 2) - 1
    return torch.tensor([[most, 0, most, 1, 0]]), torch.tensor([[0, 1, 1, 1, 0]])


def longest_length(model: nn.Module, adapter: Adapter, *, most: int = 160) -> int | None:
    """The longest text that it reads without an error; None where that is no matter, or nobody can tell."""

    def reads(length: int) -> bool:
        return works(model, adapter, items=1, length=length)

    if adapter.inputs == "images" or reads(most) or not reads(5):
        return None
    short, long = 5, most
    while long - short > 1:
        middle = (short + long) // 2
        short, long = (middle, long) if reads(middle) else (short, middle)
    return short
