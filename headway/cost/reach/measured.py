"""Reach measured: which inputs have a gradient at an output position, layer by layer, in a model that runs.

As many copies of one text as there are positions go through the model as a batch; of copy i the output at position i is
kept. One backward pass a layer then gives the gradients of all positions, each in its own copy.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.cost.reach import Reach, summary, texts_of
from headway.cost.reach.argmax import bound_of
from headway.cost.reach.models import Texts
from headway.cost.reach.sets import Layer, Table
from headway.cost.reach.trials import Trial, Watch, trial_of
from headway.ops.mask import Mask


def measured(
    model: nn.Module, length: int | None = None, *, source: int | None = None, mask: Mask | None = None, seed: int = 0
) -> Reach:
    """The same as `reach`, by gradients of the model itself, which is left as it was.

    Memory grows with the square of the length: a few dozen positions show a pattern, thousands are too many.
    """
    config: Any = model.config
    texts = texts_of(config, length, source, mask)
    return summary(config, measured_layers(model, texts, seed=seed), bound_of(config, texts.real, texts.source))


def measured_layers(model: nn.Module, texts: Texts, *, seed: int = 0) -> list[Layer]:
    """The sets of every layer, as tables."""
    draw = torch.Generator().manual_seed(seed)
    training, trial = model.training, trial_of(model, texts, draw)
    model.eval()
    try:
        with torch.enable_grad(), _leaves(trial) as leaves, _outputs(trial.watches) as caught:
            trial.run()
            return [_layer(watch, caught, leaves, trial, draw) for watch in trial.watches]
    finally:
        model.train(training)


@contextmanager
def _leaves(trial: Trial) -> Iterator[list[Tensor]]:
    """What is given, or what the embeddings give, cut off from the embeddings: where gradients are asked."""
    found = [] if trial.given is None else [trial.given.requires_grad_()]

    def cut(module: nn.Module, given: Any, output: Tensor) -> Tensor:
        found.append(output.detach().requires_grad_())
        return found[-1]

    hooks = [embedding.register_forward_hook(cut) for embedding in trial.embeddings]
    try:
        yield found
    finally:
        _remove(hooks)


@contextmanager
def _outputs(watches: Sequence[Watch]) -> Iterator[dict[nn.Module, Tensor]]:
    """What the watched modules give."""
    found: dict[nn.Module, Tensor] = {}

    def note(module: nn.Module, given: Any, output: Any) -> None:
        found[module] = output[0] if isinstance(output, tuple) else output

    hooks = [module.register_forward_hook(note) for module in {watch.module for watch in watches}]
    try:
        yield found
    finally:
        _remove(hooks)


def _remove(hooks: Sequence[Any]) -> None:
    for hook in hooks:
        hook.remove()


def _layer(
    watch: Watch, caught: dict[nn.Module, Tensor], leaves: list[Tensor], trial: Trial, draw: torch.Generator
) -> Layer:
    found = _gradients(_in_rows(caught[watch.module]), leaves[watch.leaf], draw)
    if not trial.residual:
        found = _without_noise(found)
    seen = trial.inputs(found)
    if trial.keep is not None:
        seen = seen[trial.keep][:, trial.keep[-seen.shape[1] :]]
    return Layer(watch.part, watch.number, Table(seen), watch.causal)


def _in_rows(out: Tensor) -> Float[Tensor, "B L D"]:
    """A grid's positions row by row."""
    return out if out.ndim == 3 else out.flatten(2).mT


def _gradients(out: Float[Tensor, "B L D"], leaf: Tensor, draw: torch.Generator) -> Float[Tensor, "L *inputs"]:
    """Of a random sum over the channels of position i in copy i, for all i at once."""
    place = torch.arange(out.shape[1])
    probe = torch.randn(out.shape[1:], generator=draw, dtype=torch.float64).to(out)
    (found,) = torch.autograd.grad((out[place, place] * probe).sum(), leaf, retain_graph=True)
    return found[: out.shape[1]]


def _without_noise(gradients: Float[Tensor, "L *inputs"]) -> Float[Tensor, "L *inputs"]:
    """Rounding leaves a trace of a query that meets one key alone; beside a residual its position is seen anyway."""
    size = gradients.abs()
    return gradients.masked_fill(size <= 16 * torch.finfo(size.dtype).eps * size.max(), 0)
