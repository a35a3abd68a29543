"""One call of the dispatcher: its arguments by name, the tensors among them, what came out."""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from torch import Tensor

SHAPE_ALONE = frozenset(
    ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "new_empty", "new_zeros",
     "new_ones", "new_full", "new_empty_strided")
)  # fmt: skip
OVERWRITING = frozenset(("copy", "fill", "zero", "bernoulli", "uniform", "normal", "random", "exponential"))


@dataclass(frozen=True)
class Called:
    """An operation of torch with what went in and what came out."""

    operation: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    output: Any

    @cached_property
    def name(self) -> str:
        return plain_name(self.operation)

    @cached_property
    def bound(self) -> dict[str, Any]:
        """The arguments by the names of the operation's schema, defaults included."""
        names = _names(self.operation)
        given = dict(zip((name for name, _ in names), self.arguments, strict=False))
        return {name: self.keywords.get(name, given.get(name, default)) for name, default in names}

    @cached_property
    def inputs(self) -> list[Tensor]:
        return tensors_in((self.arguments, self.keywords))

    @cached_property
    def outputs(self) -> list[Tensor]:
        return tensors_in(self.output)

    @property
    def read(self) -> list[Tensor]:
        """The inputs whose numbers matter: not one that gives only its shape, or that is written over."""
        overwritten = self.writes_in_place and self.name in OVERWRITING
        return self.inputs[1:] if overwritten or self.name in SHAPE_ALONE else self.inputs

    @property
    def floating(self) -> bool:
        """Whether floating point numbers are worked on, not whole numbers or truth values."""
        return any(tensor.is_floating_point() or tensor.is_complex() for tensor in (*self.inputs, *self.outputs))

    @property
    def writes_in_place(self) -> bool:
        return _mutable(self.operation)


@cache
def plain_name(operation: Any) -> str:
    """The name without namespace, overload and the _ of in-place.

    >>> plain_name("aten.add_.Tensor")
    'add'
    """
    name = str(operation).split(".")[1] if "." in str(operation) else str(operation)
    return name if name.startswith("__") else name.rstrip("_")


@cache
def _names(operation: Any) -> tuple[tuple[str, Any], ...]:
    schema = getattr(operation, "_schema", None)
    return () if schema is None else tuple((argument.name, argument.default_value) for argument in schema.arguments)


@cache
def _mutable(operation: Any) -> bool:
    schema = getattr(operation, "_schema", None)
    return schema is not None and schema.is_mutable


def tensors_in(value: Any) -> list[Tensor]:
    """Every tensor in nested lists, tuples and dicts, in order."""
    found, waiting = [], [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Tensor):
            found.append(item)
        elif isinstance(item, dict):
            waiting.extend(reversed(item.values()))
        elif isinstance(item, list | tuple):
            waiting.extend(reversed(item))
    return found
