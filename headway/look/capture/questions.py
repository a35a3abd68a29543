"""Torch's own layers ask whether somebody watches, and take another way if so: they are answered as if nobody did."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.nn.functional as F
import torch.overrides
from torch.overrides import TorchFunctionMode

_Question = Callable[[Any], bool]


@contextmanager
def _answered(owner: Any, answer: Callable[[_Question], _Question]) -> Iterator[None]:
    asked = owner.has_torch_function
    setattr(owner, "has_torch_function", answer(asked))  # noqa: B010
    try:
        yield
    finally:
        setattr(owner, "has_torch_function", asked)  # noqa: B010


@contextmanager
def looked_into() -> Iterator[None]:
    """Torch's attention hands itself to us as a whole, and runs unseen unless its own first question is answered no."""

    def no_once(asked: _Question) -> _Question:
        def answer(_: Any) -> bool:
            setattr(F, "has_torch_function", asked)  # noqa: B010
            return False

        return answer

    with _answered(F, no_once):
        yield


@contextmanager
def unnoticed(mode: TorchFunctionMode) -> Iterator[None]:
    """While a fused layer asks before it runs, this mode does not count; any other still does."""

    def without(asked: _Question) -> _Question:
        def answer(tensors: Any) -> bool:
            if not _on_top(mode):
                return asked(tensors)
            with torch.overrides._pop_mode_temporarily():
                return asked(tensors)

        return answer

    with _answered(torch.overrides, without):
        yield


def _on_top(mode: TorchFunctionMode) -> bool:
    stack = torch.overrides._get_current_function_mode_stack()
    return bool(stack) and stack[-1] is mode
