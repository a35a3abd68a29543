"""Depth: what each block gives and the loss's gradient there; a stream that grows, gradients that vanish or explode,
logits out of range."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from headway.audit.health.record import Depth, Logits, Symptom
from headway.nn.block import Stack
from headway.observe.hooks import first_tensor, is_block

# Containers of blocks: the same class several times in a row.
_CONTAINERS = (nn.ModuleList, nn.Sequential)
FLOAT16, BFLOAT16 = torch.finfo(torch.float16).max, torch.finfo(torch.bfloat16).max


def blocks(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """The outermost modules that stand several times, of one class, with parameters, in one container; and one that
    runs as every layer of a stack."""
    found: list[tuple[str, nn.Module]] = []
    for name, part in module.named_modules():
        inside = any(name.startswith(f"{one}.") for one, _ in found)
        if isinstance(part, Stack) and part.config.shared:
            found += [(f"{name}.blocks.0".removeprefix("."), part.blocks[0])]
        elif isinstance(part, _CONTAINERS) and not inside:
            found += _repeated(name, part)
    return found


def _repeated(name: str, container: nn.Module) -> list[tuple[str, nn.Module]]:
    children = [(f"{name}.{key}" if name else key, one) for key, one in container.named_children()]
    whole = [(key, one) for key, one in children if is_block(one)]
    kinds = [type(one) for _, one in whole]
    return [(key, one) for key, one in whole if kinds.count(type(one)) > 1]


class BlockStream:
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
                before = sum(seen.partition(", call ")[0] == name for seen, _ in self.seen)
                self.seen.append((f"{name}, call {before + 1}" if before else name, given))

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
def depth_of(stream: BlockStream, gradients: list[Tensor | None]) -> list[Depth]:
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


# Each branch of a residual stream adds about as much as one before: √(depth), 7 at 48 blocks.
GROWTH = 10.0
# From the last block to the first.
VANISHED, EXPLODED = 0.01, 100.0


def depth_symptoms(depth: list[Depth]) -> Iterator[Symptom]:
    if broken := next((one for one in depth if not one.finite), None):
        yield _not_finite(broken.module, "what it gives holds NaN or inf")
        return
    blocks = [one for one in depth if not one.module.startswith("input of ")]
    for _, group in groupby(blocks, key=lambda one: one.module.rpartition(".")[0]):
        stack = list(group)
        if len(stack) > 1:
            yield from _growth(stack)
            yield from _gradient(stack)


def _growth(stack: list[Depth]) -> Iterator[Symptom]:
    first, last = stack[0], max(stack, key=lambda one: one.activation)
    if not first.activation or last.activation / first.activation <= GROWTH:
        return
    factor = (stack[-1].activation / first.activation) ** (1 / (len(stack) - 1))
    smaller = 1 / math.sqrt(len(stack) * max(factor**2 - 1, 2.0))
    yield Symptom(
        "stream grows",
        _beyond(stack, first.activation * GROWTH),
        f"activations have size {first.activation:.3g} after {first.module}, {last.activation:.3g} after {last.module}",
        f"growth below {GROWTH:g}; independent branches of one size give √{len(stack)} = {math.sqrt(len(stack)):.2g}",
        "what a branch adds is as large as what it reads, so the stream grows by a factor in every block; later blocks "
        "see scores and logits that saturate, and earlier ones are drowned",
        f"normalise what each branch reads (pre-norm), and multiply the last map of each branch by {smaller:.3g}: a "
        f"block makes the stream {factor:.3g} times as large; {len(stack)} of them should add as much as was there. "
        f"For branches that keep the size of what they read that is 1/√(2 x layers) = {(2 * len(stack)) ** -0.5:.3g}",
        {"multiply": smaller},
    )


def _beyond(stack: list[Depth], limit: float) -> list[str]:
    return [one.module for one in stack if one.activation > limit]


def _gradient(stack: list[Depth]) -> Iterator[Symptom]:
    first, last = stack[0], stack[-1]
    if first.gradient is None or not last.gradient or not math.isfinite(last.gradient):
        return
    ratio = first.gradient / last.gradient
    measured = (
        f"the gradient has norm {last.gradient:.3g} at {last.module} and {first.gradient:.3g} at {first.module}: "
        f"{ratio:.2g} of it arrives"
    )
    expected = f"between {VANISHED:g} and {EXPLODED:g} of it"
    if ratio < VANISHED:
        yield Symptom(
            "gradient vanishes", [first.module], measured, expected,
            "each block passes on a fraction of the gradient, so the first ones hardly learn; saturated softmaxes, "
            "missing residual branches and norms after the sum all do this",
            "add residual connections with the norm inside the branch (pre-norm); if attention is saturated, mend "
            "that first; without residuals, draw weights so that each block keeps the size of what it reads",
        )  # fmt: skip
    elif ratio > EXPLODED or not math.isfinite(ratio):
        yield Symptom(
            "gradient explodes", [first.module], measured, expected,
            "each block multiplies the gradient, so one step of an optimiser is far too long for the first ones",
            "normalise what each branch reads (pre-norm) and draw weights smaller: a standard deviation of "
            "1/√(width read) keeps sizes, 0.02 is usual; clip gradients until then",
        )  # fmt: skip


def logits_symptoms(logits: Logits | None) -> Iterator[Symptom]:
    if logits is None:
        return
    if logits.not_finite:
        yield _not_finite("output", f"{100 * logits.not_finite:.3g} % of the output is NaN or inf")
    if logits.beyond_float16 and logits.largest > FLOAT16:
        yield Symptom(
            "logits out of range",
            ["output"],
            f"the largest |logit| is {logits.largest:.4g}, {100 * logits.beyond_float16:.3g} % are beyond float16",
            f"below {FLOAT16:g}, the largest number of float16, and far below for a softmax that still answers",
            "in float16 they are inf and the loss is NaN; in any dtype a softmax over them is saturated: insensitive "
            "to what the model says, right or wrong",
            "normalise the last hidden states (a final norm), draw the head smaller, cap the logits, or compute in "
            "bfloat16, which reaches as far as float32",
            {"multiply": 10 / logits.largest},
        )


def _not_finite(where: str, measured: str) -> Symptom:
    return Symptom(
        "not finite",
        [where],
        measured,
        "finite numbers everywhere",
        "NaN and inf spread to everything that reads them, and to every gradient",
        "look at the first module that gives them: an overflow in float16 (use bfloat16 or float32), a softmax over a "
        "row in which all keys are hidden, a division by 0",
    )
