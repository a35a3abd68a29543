"""From recorded operations to the lines of a cost sheet; parameters by kind and by module, tied ones once."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from torch import nn

from headway.cost.op_tree import Line
from headway.cost.trace.tracer import Event
from headway.sizes import NOTHING, Cost, Operation

KINDS = ("weights", "biases", "embeddings", "norms")
_TABLES = ("embed", "position", "cls_token", "class_token", "mask_token", "latents")


@dataclass(frozen=True)
class Parameters:
    """Entries by kind (weights, biases, embeddings, norms) and by module; tied: a name -> the name it is counted by."""

    kinds: dict[str, int]
    modules: dict[str, int]
    tied: dict[str, str]

    @property
    def total(self) -> int:
        return sum(self.kinds.values())


def parameters_of(module: nn.Module) -> Parameters:
    """Every parameter once, under the first name it is met by.

    >>> parameters_of(nn.Sequential(nn.Embedding(7, 3), nn.LayerNorm(3), nn.Linear(3, 5))).kinds
    {'weights': 15, 'biases': 5, 'embeddings': 21, 'norms': 6}
    """
    kinds: dict[str, int] = dict.fromkeys(KINDS, 0)
    modules: dict[str, int] = {}
    names: dict[int, str] = {}
    tied: dict[str, str] = {}
    for path, inner in module.named_modules():
        for key, parameter in inner.named_parameters(recurse=False, remove_duplicate=False):
            name = f"{path}.{key}" if path else key
            if id(parameter) in names:
                tied[name] = names[id(parameter)]
                continue
            names[id(parameter)] = name
            kinds[kind_of(inner, key, parameter.dim())] += parameter.numel()
            modules[path] = modules.get(path, 0) + parameter.numel()
    return Parameters(kinds, modules, tied)


def kind_of(module: nn.Module, name: str, axes: int) -> str:
    """By the module's class, then by the parameter's own name."""
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return "embeddings"
    if "norm" in type(module).__name__.lower():
        return "norms"
    if is_bias(name):
        return "biases"
    return "embeddings" if axes > 1 and any(word in name.lower() for word in _TABLES) else "weights"


def is_bias(name: str) -> bool:
    """Whether a parameter is called a bias: bias, in_proj_bias, bias_hh_l0."""
    return "bias" in name.rpartition(".")[2]


def lines_of(events: Iterable[Event], entries: dict[str, int], *, backward: bool) -> list[Line]:
    """One line for each operation of each module; what a module does again in the same way runs several times."""
    runs: dict[tuple[str, Operation], int] = {}
    owners: dict[str, str] = {}
    for event in events:
        path = f"{event.path}.{event.name}" if event.path else event.name
        operation = _operation(event, backward=backward)
        operation = _with_parameters(operation, event.parameters, path, entries, owners)
        if operation != Operation(operation.kind):
            runs[path, operation] = runs.get((path, operation), 0) + 1
    return [Line(path, count, 1, operation) for (path, operation), count in runs.items()]


def _operation(event: Event, *, backward: bool) -> Operation:
    """Products backwards as they were seen; other FLOPs backwards are twice those forwards."""
    done = event.work
    share = (1, 1) if done.useful is None else (done.useful, done.macs)
    executed = done.macs if done.executed is None else done.executed
    forward = Cost(done.macs, done.macs if done.useful is None else done.useful, executed, done.other)
    doubled = 2 * done.other * (backward and event.differentiable)
    if event.name == "embedding" and backward and event.differentiable:
        doubled = event.writes
    back = Cost(event.back, event.back * share[0] // share[1], event.executed_back, doubled)
    if event.again:
        forward, back = NOTHING, forward + back
    return Operation(
        done.kind, forward, back, () if event.again else done.steps, shape=done.shape, reads=event.reads,
        writes=event.writes,
    )  # fmt: skip


def _with_parameters(
    operation: Operation, names: tuple[str, ...], path: str, entries: dict[str, int], owners: dict[str, str]
) -> Operation:
    """A parameter belongs to the first operation that uses it; to all others it is lent."""
    weights = biases = borrowed = 0
    for name in names:
        if owners.setdefault(name, path) != path:
            borrowed += entries[name]
        elif is_bias(name):
            biases += entries[name]
        else:
            weights += entries[name]
    return replace(operation, weights=weights, biases=biases, borrowed=borrowed)


def merged(lines: Iterable[Line]) -> list[Line]:
    """Numbered neighbours that do the same as one, with all their runs and sets: h.0 … h.11 become h.0-11.

    >>> block = Operation("norm", Cost(0, 0, 0, 6))
    >>> [(line.path, line.runs) for line in merged([Line(f"h.{i}.norm", 1, 1, block) for i in range(12)])]
    [('h.0-11.norm', 12)]
    """
    return [line for name, inner in _grouped(lines).items() for line in _under(name, inner)]


def _grouped(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Lines by the first name of their paths, which is taken off; numbered neighbours that are equal under one name."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        name, _, rest = line.path.partition(".")
        groups.setdefault(name, []).append(replace(line, path=rest))
    found: dict[str, list[Line]] = {}
    last = ""
    for name, inner in groups.items():
        if _follows(last, name) and groups[last] == inner:
            first, held = found.popitem()
            name_of_all = f"{first.partition('-')[0]}-{name}"
            found[name_of_all] = [_joined(*pair) for pair in zip(held, inner, strict=True)]
        else:
            found[name] = inner
        last = name
    return found


def _follows(one: str, other: str) -> bool:
    return one.isdigit() and other.isdigit() and int(other) == int(one) + 1


def _under(name: str, inner: list[Line]) -> list[Line]:
    if all(not line.path for line in inner):
        return [replace(line, path=name) for line in inner]
    return [replace(line, path=f"{name}.{line.path}" if line.path else name) for line in merged(inner)]


def _joined(held: Line, line: Line) -> Line:
    return replace(held, runs=held.runs + line.runs, sets=held.sets + line.sets)
