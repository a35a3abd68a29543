"""Saving and loading give the same function, and what was one tensor stays one."""

import io
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headway.adapt.model import AdaptedModel
from headway.audit.laws.variants import combine, rounding, seeded, variant_context
from headway.audit.report import BROKEN, HOLDS, NOT_APPLICABLE, Example, Finding
from headway.audit.search.case import Case
from headway.audit.search.compare import Comparison
from headway.audit.search.find import Compare, search
from headway.audit.search.search_context import LARGE, QUICK, SearchContext, TrialRng
from headway.hub import load, save
from headway.models import parameters

MEMORY = Path("/dev/shm")
Trip = Callable[[AdaptedModel, Path], nn.Module]


def save_trips(subject: AdaptedModel) -> dict[str, Trip]:
    """The ways that this model has, by name, the outermost last."""
    module = subject.module
    found: dict[str, Trip] = {"state_dict and load_state_dict": _by_state}
    if hasattr(module, "save_pretrained") and hasattr(type(module), "from_pretrained"):
        found["save_pretrained and from_pretrained"] = _by_library
    if type(module).__module__.startswith("headway.models.") and hasattr(module, "config"):
        found["headway.save and headway.load"] = _by_headway
    return found


def after_trip(subject: AdaptedModel, trip: Trip) -> AdaptedModel:
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
    fresh = subject.adapter.rebuild() if subject.adapter.rebuild is not None else _emptied(subject)
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


def _emptied(subject: AdaptedModel) -> nn.Module:
    """A copy that has forgotten all that a state holds; what no state holds stays."""
    found = subject.copy().module
    held = set(subject.module.state_dict())
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


COARSE = 1e-6
HIDDEN = ("_parameters", "_buffers", "_modules")


def export(context: SearchContext) -> Finding:
    """Each way that the model has, there and back."""
    trips = list(save_trips(context.original).items())
    if context.effort.longest < QUICK.longest and parameters(context.original.module) > LARGE:
        trips = trips[-1:]  # a quick look at much goes the outermost way alone
    each = list(_tried(context, trips))
    found = combine(iter(each), "export")
    if found.broken or not found.trials:
        return found
    reasons = [one.why if not one.trials else f"tried by {name}" for (name, _), one in zip(trips, each, strict=True)]
    # A way that could not be gone does not hold, whatever the others do.
    status = found.status if all(one.trials for one in each) else NOT_APPLICABLE
    return replace(found, status=status, why="; ".join(reasons))


def _tried(context: SearchContext, trips: list[tuple[str, Trip]]) -> Iterator[Finding]:
    for name, trip in trips:
        try:
            other = after_trip(context.original, trip).with_probes_of(context.subject)
        except ValueError as error:  # a library's own "this cannot be": a layout without room for it
            yield Finding("export", NOT_APPLICABLE, why=f"{name}: {error}")
        except Exception as error:
            yield _failed(name, error)
        else:
            yield _compared(context, name, other)


def _failed(way: str, error: Exception) -> Finding:
    """What was saved cannot be loaded; the first name in the complaint is that of a tensor."""
    said = " ".join(str(error).split())[:300]
    named = re.search(r'"([\w.]+)"', said)
    module = named[1].rpartition(".")[0] if named else ""
    example = Example(f"{way} fail: {said}", [], {"way": way})
    return Finding("export", BROKEN, 1, None, None, module, why=f"{type(error).__name__}: {said}", example=example)


def _compared(context: SearchContext, way: str, other: AdaptedModel) -> Finding:
    """The same results; and where they are, the same tensors shared by the same names."""
    model = context.original.with_probes_of(context.subject)
    trials = max(1, context.effort.trials // 4)
    if torch.finfo(model.dtype).eps > COARSE:  # where rounding could hide a difference, float64 shows it
        model, other = context.subject, replace(other, module=other.module.to(context.subject.dtype))
        other = other.with_probes_of(context.subject)
    variant = variant_context(context, model, rounding(context, model.dtype))
    found = search(variant, "export", draw, read_by(other, way), trials=trials)
    changed, untied = differing(model.module, other.module), lost_ties(model.module, other.module)
    found = replace(found, details=changed)
    if found.status == HOLDS and untied:
        return _untied(found, way, untied)
    reasons = [_reason(one) for one in changed[:3]] + [f"{a} and {b} are one tensor, and two after" for a, b in untied]
    return replace(found, why="; ".join(reasons)) if found.broken else found


def draw(context: SearchContext, rng: TrialRng) -> Case:
    length = rng.length(context.subject.adapter, least=1, most=context.effort.longest)
    return Case(rng.randrange(1 << 30), length, source=length + 1)


def read_by(other: AdaptedModel, way: str) -> Compare:
    def compare(context: SearchContext, case: Case) -> Comparison:
        text = case.reading(context.subject.adapter)
        sentence = f"results differ after {way}"
        return Comparison((text,), (text,), sentence, other=other, gradients=False)

    return compare


def _untied(found: Finding, way: str, untied: list[tuple[str, str]]) -> Finding:
    first, second = untied[0]
    sentence = f"{first} and {second} are one tensor before {way}, and two after: training would part them"
    details = [{"tensor": name, "kind": "tied", "saved": True} for pair in untied for name in pair]
    module = second.rpartition(".")[0]
    return replace(found, status=BROKEN, module=module, example=Example(sentence, [], {"way": way}), details=details)


def lost_ties(module: nn.Module, other: nn.Module) -> list[tuple[str, str]]:
    """Pairs of names of one parameter here that name two there."""
    here, there = (dict(one.named_parameters(remove_duplicate=False)) for one in (module, other))
    firsts: dict[int, str] = {}
    pairs = [(firsts.setdefault(id(one), name), name) for name, one in here.items()]
    known = [(a, b) for a, b in pairs if a != b and a in there and b in there]
    return [(a, b) for a, b in known if there[a].data_ptr() != there[b].data_ptr()]


def differing(module: nn.Module, other: nn.Module) -> list[dict[str, Any]]:
    """Tensors of a model that are not the same after: parameters, buffers and plain attributes."""
    saved, rows, there = set(module.state_dict()), [], _tensors(other)
    for name, (kind, one) in _tensors(module).items():
        twin = there.get(name)
        if twin is None or not _same(one, twin[1]):
            rows.append({"tensor": name, "kind": kind, "saved": name in saved})
    return rows


def _tensors(module: nn.Module) -> dict[str, tuple[str, Tensor]]:
    found: dict[str, tuple[str, Tensor]] = {}
    found |= {name: ("parameter", one) for name, one in module.named_parameters(remove_duplicate=False)}
    found |= {name: ("buffer", one) for name, one in module.named_buffers()}
    for path, part in module.named_modules():
        for name, one in vars(part).items():
            if isinstance(one, Tensor) and name not in HIDDEN:
                found[f"{path}.{name}".lstrip(".")] = ("attribute", one.detach())
    return found


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(torch.isclose(one, other.to(one), rtol=0, atol=0, equal_nan=True).all())


def _reason(row: dict[str, Any]) -> str:
    kept = "" if row["saved"] else " that no state holds"
    return f"{row['tensor']} ({row['kind']}{kept}) is another after"
