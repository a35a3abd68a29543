"""From what was seen to the lines of a cost sheet."""

from collections.abc import Iterable
from dataclasses import replace

from headway.cost.part import Line
from headway.cost.trace.events import Event
from headway.cost.trace.parameters import is_bias
from headway.sizes import NOTHING, Cost, Operation


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
