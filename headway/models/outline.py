"""A model as a tree of shapes: what `headway info` shows. Works on meta, where nothing has any memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from torch import nn

from headway.nn.quantized import QuantizedLinear


@dataclass(frozen=True)
class Node:
    """A module: its own tensors by name, the modules in it, and how often it stands there with these shapes."""

    name: str
    kind: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    shared: tuple[str, ...]  # its tensors that were met before, and are counted there
    children: tuple["Node", ...]
    repeats: int = 1

    @property
    def parameters(self) -> int:
        """Of all repeats together."""
        own = sum(prod(shape) for _, shape in self.shapes)
        return self.repeats * (own + sum(child.parameters for child in self.children))

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "repeats": self.repeats,
            "parameters": self.parameters,
            "shapes": {name: list(shape) for name, shape in self.shapes},
            "shared": list(self.shared),
            "children": [child.as_json() for child in self.children],
        }


def outline(model: nn.Module, *, name: str = "model") -> Node:
    """The tree of a model: neighbours of one shape are one node, tensors that are shared are counted once.

    >>> print(*(child.name for child in outline(nn.Sequential(*(nn.Linear(3, 3) for _ in range(4)))).children))
    0-3
    """
    return _node(name, model, set())


def _node(name: str, module: nn.Module, seen: set[int]) -> Node:
    own = list(module.named_parameters(recurse=False, remove_duplicate=False))
    shapes = tuple((key, tuple(tensor.shape)) for key, tensor in own if id(tensor) not in seen)
    shared = tuple(key for key, tensor in own if id(tensor) in seen)
    if isinstance(module, QuantizedLinear):  # what it means, not how it is packed
        stored = ("weight", (module.out_features, module.in_features))
        shapes, shared = (shapes, ("weight", *shared)) if module.shared else ((stored, *shapes), shared)
    seen.update(id(tensor) for _, tensor in own)
    children = [_node(key, child, seen) for key, child in _opened(module)]
    filled = [child for child in children if child.shapes or child.shared or child.children]
    return Node(name, type(module).__name__, shapes, shared, tuple(_collapsed(filled)))


def _opened(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules in it; a list of modules is no level of its own."""
    for name, child in module.named_children():
        if isinstance(child, nn.ModuleList):
            yield from ((f"{name}.{key}", inner) for key, inner in _opened(child))
        else:
            yield name, child


def _collapsed(nodes: Iterable[Node]) -> Iterator[Node]:
    """Runs of numbered nodes that differ by their number alone, each as one: blocks.0-11."""
    held: list[Node] = []
    for node in nodes:
        if held and not _follows(held[-1], node):
            yield _merged(held)
            held = []
        held.append(node)
    if held:
        yield _merged(held)


def _follows(one: Node, other: Node) -> bool:
    (before, _, first), (same, _, second) = one.name.rpartition("."), other.name.rpartition(".")
    numbered = first.isdigit() and second.isdigit() and before == same and int(second) == int(first) + 1
    return numbered and replace(other, name=one.name) == one


def _merged(run: list[Node]) -> Node:
    if len(run) == 1:
        return run[0]
    return replace(run[0], name=f"{run[0].name}-{run[-1].name.rpartition('.')[2]}", repeats=len(run))
