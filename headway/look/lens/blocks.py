"""The blocks of any model, and what they give while it runs."""

from collections.abc import Callable, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn


def blocks(module: nn.Module) -> dict[nn.Module, str]:
    """The outermost modules that stand in a list of their kind, each with the name of that list."""
    found: dict[nn.Module, str] = {}
    outer: list[str] = []
    for name, part in module.named_modules():
        if isinstance(part, nn.ModuleList) and not any(name.startswith(f"{one}.") for one in outer):
            inside = [one for one in part if _is_block(one)]
            outer += [name] if inside else []
            found |= dict.fromkeys(inside, name)
    return found


def _is_block(part: nn.Module) -> bool:
    """A linear layer or a norm is a part of a block; a list of modules is never called."""
    inner = not isinstance(part, nn.ModuleList | nn.ModuleDict) and next(part.children(), None) is not None
    return inner and next(part.parameters(), None) is not None


class Stream:
    """Of the last list of blocks that runs: what its first block reads and what each of them gives, at some places."""

    def __init__(self, found: dict[nn.Module, str], places: Callable[[int], Sequence[int]]) -> None:
        self.found, self.places = found, places
        self.first: nn.Module | None = None
        self.seen: list[Float[Tensor, "p D"]] = []  # of item 0; copies, since a model may go on in place
        self.last: Tensor | None = None  # what the last block gave, as it is

    def before(self, part: nn.Module, args: tuple[Any, ...]) -> None:
        if part not in self.found:
            return
        given = first_tensor(args)
        if self._begins(part, given):
            self.first, self.seen = part, []
            self._keep(given)

    def _begins(self, block: nn.Module, given: Tensor | None) -> bool:
        """Another list, or the same anew; a block that reads what it gave itself goes on."""
        if self.first is None or self.found[block] != self.found[self.first]:
            return True
        return block is self.first and (given is None or self.last is None or not same(given, self.last))

    def after(self, part: nn.Module, kwargs: dict[str, Any], result: Any) -> None:
        if part in self.found:
            if not self.seen:  # torch shows arguments by name only now
                self._keep(first_tensor(kwargs))
            self._keep(first_tensor(result))

    def _keep(self, given: Tensor | None) -> None:
        self.last = None if given is None else given.detach()
        if self.last is not None and self.last.ndim == 3:
            self.seen.append(self.last[0, list(self.places(self.last.shape[1]))])


def same(one: Tensor, other: Tensor) -> bool:
    """The same numbers in the same place; a view of other shape may lie between."""
    return one.data_ptr() == other.data_ptr() and one.numel() == other.numel()


def first_tensor(given: Any) -> Tensor | None:
    """The first floating-point tensor in what a module reads or gives."""
    if isinstance(given, Tensor):
        return given if given.is_floating_point() else None
    if isinstance(given, dict):
        given = list(given.values())
    parts = given if isinstance(given, list | tuple) else []
    return next((one for part in parts if (one := first_tensor(part)) is not None), None)
