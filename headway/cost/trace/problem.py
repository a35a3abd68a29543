"""Why a module could not be traced to its end, in a sentence that names the operation and the module it ran in."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from headway.cost.trace.call import plain_name, tensors_in

NUMBERS_NEEDED = ("_local_scalar_dense", "nonzero", "_unique2", "unique_consecutive", "equal", "masked_select")


@dataclass(frozen=True)
class Problem:
    """Why a run stopped. mistaken: the module itself refused its inputs; it is not for want of numbers."""

    sentence: str
    mistaken: bool = False


def problem_of(error: Exception, failed: tuple[str, str] | None, module: nn.Module, tree: Any) -> Problem:
    """Why a run stopped: shapes do not suffice, or the inputs do not fit."""
    operation, path = failed or ("", "")
    name = type(module).__name__
    if not _stops(error, operation):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors_in(list(tree)))
        return Problem(f"{name} does not run on inputs of shapes {shapes}: {_sentence(error)}", mistaken=True)
    aside = " or module.eval()" if module.training else ""
    return Problem(
        f"stopped at {operation or type(error).__name__} in {path or name}: {_sentence(error)}; what ran before it is "
        f"counted. It needs numbers, not shapes alone: device='cpu'{aside} may help"
    )


def _stops(error: Exception, operation: str) -> bool:
    """Whether it is tracing that fails: numbers are needed, or a kernel for shapes is missing."""
    kind, words = type(error).__name__, str(error)
    if isinstance(error, NotImplementedError) or "DataDependent" in kind or "DynamicOutput" in kind or "meta" in words:
        return True
    misfit = any(word in words for word in ("shape", "size", "dim", "mismatch"))
    needed = plain_name(operation) in NUMBERS_NEEDED
    return bool(operation) and isinstance(error, RuntimeError) and (needed or not misfit)


def _sentence(error: Exception) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
