"""What every comparison with another library needs: hidden states by hooks, ragged batches, and a tolerance."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn


def shake(model: nn.Module, *, seed: int = 0, size: float = 0.2) -> None:
    """Move every parameter a little, so that no norm is 1 and no bias is 0."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw) * size)


def outputs_of(modules: Iterable[nn.Module], call: Callable[[], object]) -> list[Tensor]:
    """What each of the modules returned (its first tensor) while the call ran."""
    found: list[Tensor] = []

    def keep(module: nn.Module, inputs: object, output: object) -> None:
        found.append(output if isinstance(output, Tensor) else output[0])  # type: ignore[index]

    handles = [module.register_forward_hook(keep) for module in modules]
    try:
        with torch.no_grad():
            call()
    finally:
        for handle in handles:
            handle.remove()
    return found


def far(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, in units of max(1, largest value)."""
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    return float((ours - theirs).abs().max() / max(1.0, float(theirs.abs().max())))


def close(ours: Tensor, theirs: Tensor, *, tolerance: float = 1e-5) -> bool:
    return far(ours, theirs) <= tolerance


def ragged(vocabulary: int, lengths: list[int], *, side: str, seed: int = 0) -> tuple[list[Tensor], Tensor, Tensor]:
    """Random texts, and the same in one padded batch: texts, tokens B L, keep B L."""
    draw = torch.Generator().manual_seed(seed)
    texts = [torch.randint(0, vocabulary, (length,), generator=draw) for length in lengths]
    total = max(lengths)
    tokens, keep = torch.zeros(len(texts), total, dtype=torch.long), torch.zeros(len(texts), total, dtype=torch.bool)
    for row, text in enumerate(texts):
        place = slice(total - len(text), total) if side == "left" else slice(0, len(text))
        tokens[row, place], keep[row, place] = text, True
    return texts, tokens, keep
