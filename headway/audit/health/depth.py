"""What flows through the depth of a model: what each block gives, and the loss's gradient there."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headway.audit.health.record import Depth, Logits
from headway.observe.hooks import first_tensor, is_block

# Containers of blocks: the same class several times in a row.
_CONTAINERS = (nn.ModuleList, nn.Sequential)
FLOAT16, BFLOAT16 = torch.finfo(torch.float16).max, torch.finfo(torch.bfloat16).max


def blocks(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """The outermost modules that stand several times, of one class, with parameters, in one container."""
    found: list[tuple[str, nn.Module]] = []
    for name, part in module.named_modules():
        inside = any(name.startswith(f"{one}.") for one, _ in found)
        if isinstance(part, _CONTAINERS) and not inside:
            found += _repeated(name, part)
    return found


def _repeated(name: str, container: nn.Module) -> list[tuple[str, nn.Module]]:
    children = [(f"{name}.{key}" if name else key, one) for key, one in container.named_children()]
    whole = [(key, one) for key, one in children if is_block(one)]
    kinds = [type(one) for _, one in whole]
    return [(key, one) for key, one in whole if kinds.count(type(one)) > 1]


class Stream:
    """The tensors that blocks read and give, held by the graph anyway."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.seen = module, list[tuple[str, Tensor]]()

    @contextmanager
    def watching(self) -> Iterator[None]:
        handles = []
        for name, part in blocks(self.module):
            handles.append(part.register_forward_pre_hook(self._before(name)))
            handles.append(part.register_forward_hook(self._after(name)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _before(self, name: str) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...]) -> None:
            given = first_tensor(args)
            if given is not None and not self.seen:
                self.seen.append((f"input of {name}", given))

        return hook

    def _after(self, name: str) -> Any:
        def hook(_: nn.Module, args: Any, result: Any) -> None:
            given = first_tensor(result)
            if given is not None:
                self.seen.append((name, given))

        return hook


def loss_of(out: Tensor, tokens: Tensor | None) -> tuple[Tensor, str]:
    """A number to take gradients of: of a language model, how badly it predicts; of others, a fixed random one."""
    if tokens is not None and _predicts(out, tokens):
        logs = out[:, :-1].to(torch.promote_types(out.dtype, torch.float32)).log_softmax(-1)
        return -logs.gather(-1, tokens[:, 1:, None]).mean(), "gradients are of the loss of the next tokens"
    generator = torch.Generator().manual_seed(0)
    signs = torch.randn(out.shape, generator=generator).to(out.device, out.dtype)
    loss = (out * signs).sum() / math.sqrt(max(out.numel(), 1))
    return loss, "gradients are of a random sum of the outputs, drawn with one seed"


def _predicts(out: Tensor, tokens: Tensor) -> bool:
    fits = out.ndim == 3 and out.shape[:2] == tokens.shape and tokens.shape[1] > 1
    return fits and bool(tokens.max() < out.shape[2]) and bool(tokens.min() >= 0)


@torch.no_grad()
def depth_of(stream: Stream, gradients: list[Tensor | None]) -> list[Depth]:
    return [
        Depth(name, _rms(x), None if g is None else g.double().square().sum().sqrt().item(), bool(x.isfinite().all()))
        for (name, x), g in zip(stream.seen, gradients, strict=True)
    ]


def _rms(x: Tensor) -> float:
    return x.double().square().mean().sqrt().item()


@torch.no_grad()
def logits_of(out: Tensor) -> Logits:
    size = out.detach().abs()
    size = size if size.dtype.itemsize >= 4 else size.float()
    finite = size.isfinite()
    return Logits(
        size.where(finite, 0.0).amax().item() if out.numel() else 0.0,
        _share(size > FLOAT16),
        _share(size > BFLOAT16),
        _share(~finite),
        str(out.dtype).removeprefix("torch."),
    )


def _share(chosen: Tensor) -> float:
    return chosen.sum().item() / max(chosen.numel(), 1)
