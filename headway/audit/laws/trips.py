"""Ways out of memory and back: the state as a file, a library's own saving and loading, and headway's."""

import copy
import io
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headway.adapt.model import AdaptedModel
from headway.audit.laws.stage import seeded
from headway.hub import load, save

MEMORY = Path("/dev/shm")
Trip = Callable[[AdaptedModel, Path], nn.Module]


def trips_of(subject: AdaptedModel) -> dict[str, Trip]:
    """The ways that this model has, by name, the outermost last."""
    module = subject.module
    found: dict[str, Trip] = {"state_dict and load_state_dict": _by_state}
    if hasattr(module, "save_pretrained") and hasattr(type(module), "from_pretrained"):
        found["save_pretrained and from_pretrained"] = _by_library
    if type(module).__module__.startswith("headway.models.") and hasattr(module, "config"):
        found["headway.save and headway.load"] = _by_headway
    return found


def travelled(subject: AdaptedModel, trip: Trip) -> AdaptedModel:
    """The model after the journey, in the same numbers and on the same device."""
    with tempfile.TemporaryDirectory(dir=_room(subject)) as folder, seeded(4242), _quiet():
        module = trip(subject, Path(folder))
        module = module.to(subject.device, subject.dtype).eval()
    return AdaptedModel(module, subject.adapter, subject.name)


def _room(subject: AdaptedModel) -> str | None:
    """Memory that looks like a disk, where there is enough of it: a disk may take many times longer."""
    needed = 4 * sum(one.nbytes for one in subject.module.parameters())
    return str(MEMORY) if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > needed else None


@contextmanager
def _quiet() -> Iterator[None]:
    """Libraries draw bars while they save and load."""
    with redirect_stderr(io.StringIO()):
        yield


def _by_state(subject: AdaptedModel, folder: Path) -> nn.Module:
    state = _written(subject.module.state_dict(), folder)
    fresh = subject.adapter.rebuild() if subject.adapter.rebuild is not None else _emptied(subject.module)
    fresh = fresh.to(subject.dtype)
    fresh.load_state_dict(state)
    return fresh


def _written(state: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The state through a file; torch's own format where safetensors refuses (names that share memory)."""
    try:
        save_file(dict(state), folder / "state.safetensors")
        return load_file(folder / "state.safetensors")
    except (RuntimeError, ValueError, AttributeError, TypeError):
        torch.save(state, folder / "state.pt")
        return torch.load(folder / "state.pt", weights_only=True)


def _emptied(module: nn.Module) -> nn.Module:
    """A copy that has forgotten all that a state holds; what no state holds stays."""
    try:
        found = copy.deepcopy(module)
    except Exception as error:
        raise ValueError(f"the model cannot be copied: {type(error).__name__}: {error}") from error
    held = set(module.state_dict())
    with torch.no_grad():
        for name, one in [*found.named_parameters(), *found.named_buffers()]:
            if name in held or isinstance(one, nn.Parameter):
                _spoil(one)
    return found


def _spoil(tensor: Tensor) -> None:
    if tensor.is_floating_point():
        tensor.normal_()
    else:
        tensor.zero_()


def _by_library(subject: AdaptedModel, folder: Path) -> nn.Module:
    module: Any = subject.module
    module.save_pretrained(folder)
    kind: Any = type(module)
    return kind.from_pretrained(folder)


def _by_headway(subject: AdaptedModel, folder: Path) -> nn.Module:
    save(subject.module, folder / "model")
    return load(folder / "model").model
