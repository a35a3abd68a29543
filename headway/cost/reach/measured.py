"""Reach measured: which inputs have a gradient at an output position, layer by layer, in a model that runs.

As many copies of one text as there are positions go through the model as a batch; of copy i the output at position i is
kept. One backward pass a layer then gives the gradients of all positions, each in its own copy. A `ReachTrial` says for
each kind of model what it is given, where its inputs enter, and which modules are its layers.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config import Pair, RecurrentConfig, sides
from headway.cost.reach import Reach, summary, texts_of
from headway.cost.reach.argmax import bound_of
from headway.cost.reach.models import Texts
from headway.cost.reach.sets import LayerSets, TableSets
from headway.models.davit import DaViT, Dual, Stage
from headway.models.encoder import Masked
from headway.models.language import Language
from headway.models.recurrent import Recurrent
from headway.models.sentence import SentenceEncoder
from headway.models.seq2seq import Seq2Seq
from headway.models.vectors import Vectors
from headway.models.vit import Vision
from headway.nn.block import Stack
from headway.observe.hooks import removed_after
from headway.ops.mask import Mask
from headway.ops.mask.kernel import kept_keys, without_padding


@dataclass(frozen=True)
class WatchedLayer:
    """A layer: the module that gives its output, and which of the inputs is asked about.

    `call`: which of the module's calls it is, where one module runs as several layers; the last one is -1.
    """

    part: str
    number: int
    module: nn.Module
    leaf: int = 0
    causal: bool = False
    call: int = -1


def token_inputs(gradient: Float[Tensor, "L M D"]) -> Bool[Tensor, "L M"]:
    """Which tokens have a gradient in any channel."""
    return (gradient != 0).any(-1)


@dataclass(frozen=True, eq=False)
class ReachTrial:
    """A run of a model on copies of one input: L copies, so that each position has its own.

    given: the inputs where they are numbers already; embeddings: the modules that make numbers of tokens.
    """

    run: Callable[[], Any]
    watches: tuple[WatchedLayer, ...]
    embeddings: tuple[nn.Module, ...] = ()
    given: Tensor | None = None
    inputs: Callable[[Tensor], Tensor] = token_inputs
    residual: bool = True
    keep: Bool[Tensor, " L"] | None = None


def trial_of(model: nn.Module, texts: Texts, draw: torch.Generator) -> ReachTrial:
    """The trial of a model of headway."""
    if isinstance(model, SentenceEncoder):
        return trial_of(model.encoder, texts, draw)
    if isinstance(model, Language | Masked):
        return _text(model, texts, draw)
    if isinstance(model, Vectors):
        return _vectors(model, texts, draw)
    if isinstance(model, Vision):
        return _patches(model, texts.mask, draw)
    if texts.mask is not None:
        raise ValueError(
            f"a mask of one's own is for models of one text, or of patches, not for {type(model).__name__}"
        )
    if isinstance(model, Seq2Seq):
        return _translation(model, texts, draw)
    if isinstance(model, Recurrent):
        return _recurrent(model, texts, draw)
    if isinstance(model, DaViT):
        return _pixels(model, draw)
    raise ValueError(f"a {type(model).__name__} is no model of headway: where its inputs enter is not known")


def _text(model: Language | Masked, texts: Texts, draw: torch.Generator) -> ReachTrial:
    tokens = _copies(texts.length, texts.length, model.config.vocabulary, draw)
    keep, rest = _split(texts.mask)
    spread = None if keep is None else keep.expand(texts.length, -1)
    run = partial(model.hidden_states, tokens, keep=spread, mask=rest)
    return ReachTrial(
        run,
        _stack(model.stack),
        (model.tokens,),
        residual=_residual(model.stack),
        keep=None if keep is None else keep[0],
    )


def _vectors(model: Vectors, texts: Texts, draw: torch.Generator) -> ReachTrial:
    given = _alike(texts.length, (texts.length, model.config.width), model, draw)
    keep, rest = _split(texts.mask)
    run = partial(model, given, keep=None if keep is None else keep.expand(texts.length, -1), mask=rest)
    alone = None if keep is None else keep[0]
    return ReachTrial(run, _stack(model.stack), given=given, residual=_residual(model.stack), keep=alone)


def _stack(stack: Stack) -> tuple[WatchedLayer, ...]:
    c = stack.config
    if c.shared:
        layers = range(1, c.layers + 1)
        causal = c.block.attention.causal
        return tuple(WatchedLayer("stack", n, stack.blocks[0], causal=causal, call=n - 1 - c.layers) for n in layers)
    return tuple(_watches("stack", stack.blocks, causal=c.block.attention.causal))


def _residual(stack: Stack) -> bool:
    return stack.config.block.residual


def _split(mask: Mask | None) -> tuple[Bool[Tensor, "1 M"] | None, Mask | None]:
    """Padding, and the rest of a mask."""
    return (None, None) if mask is None else (kept_keys(mask), without_padding(mask))


def _copies(rows: int, length: int, vocabulary: int, draw: torch.Generator) -> Int[Tensor, "B L"]:
    return torch.randint(vocabulary, (1, length), generator=draw).expand(rows, -1)


def _watches(part: str, modules: Any, *, leaf: int = 0, causal: bool = False) -> Iterator[WatchedLayer]:
    return (WatchedLayer(part, number, module, leaf, causal) for number, module in enumerate(modules, 1))


def _translation(model: Seq2Seq, texts: Texts, draw: torch.Generator) -> ReachTrial:
    rows, c = max(texts.length, texts.source), model.config
    source, target = _copies(rows, texts.source, c.vocabulary, draw), _copies(rows, texts.length, c.outputs, draw)
    embeddings = (model.tokens,) if model.target_tokens is None else (model.tokens, model.target_tokens)
    watches = _both(model.encoder.blocks, model.decoder.blocks)
    residual = _residual(model.encoder) and _residual(model.decoder)
    return ReachTrial(partial(model, source, target), watches, embeddings, residual=residual)


def _both(encoder: Any, decoder: Any, *, one_way: bool = False) -> tuple[WatchedLayer, ...]:
    """Layers of the encoder of the source, of the decoder of the target and of the source."""
    read = _watches("encoder", encoder, causal=one_way)
    return (*read, *_watches("decoder", decoder, leaf=1, causal=True), *_watches("source", decoder))


def _recurrent(model: Recurrent, texts: Texts, draw: torch.Generator) -> ReachTrial:
    rows, c = max(texts.length, texts.source), model.config
    assert isinstance(c, RecurrentConfig)
    source = _copies(rows, texts.source, c.source_vocabulary, draw)
    target = _copies(rows, texts.length, c.vocabulary, draw)
    watches = _both([model.encoder], [model.deep], one_way=not c.bidirectional)
    return ReachTrial(partial(model, source, target), watches, (model.encoder.tokens, model.tokens))


def _patches(model: Vision, mask: Mask | None, draw: torch.Generator) -> ReachTrial:
    c, (keep, _) = model.config, _split(mask)
    pictures = _alike(c.length, (c.channels, *sides(c.image)), model, draw)
    inputs = partial(patch_inputs, grid=c.grid, patch=sides(c.patch))
    return ReachTrial(
        partial(model.hidden_states, pictures, mask=mask), _stack(model.stack), (), pictures, inputs,
        _residual(model.stack),
        None if keep is None else keep[0],
    )  # fmt: skip


def _pixels(model: DaViT, draw: torch.Generator) -> ReachTrial:
    c = model.config
    pictures = _alike(c.grids[0][0] * c.grids[0][1], (c.channels, *sides(c.image)), model, draw)
    watches = (WatchedLayer("stem", 0, model.stem), *_blocks(model))
    return ReachTrial(
        partial(model.hidden_states, pictures), watches, (), pictures, partial(patch_inputs, grid=sides(c.image))
    )


def _blocks(model: DaViT) -> Iterator[WatchedLayer]:
    duals = [block for stage in model.stages if isinstance(stage, Stage) for block in stage.blocks]
    for place, dual in enumerate(duals):
        assert isinstance(dual, Dual)
        yield WatchedLayer("spatial", 2 * place + 1, dual.spatial)
        yield WatchedLayer("channel", 2 * place + 2, dual.channel)


def _alike(rows: int, shape: tuple[int, ...], model: nn.Module, draw: torch.Generator) -> Float[Tensor, "B *shape"]:
    """Copies of one random input."""
    one = torch.randn(1, *shape, generator=draw, dtype=torch.float64)
    return one.to(next(model.parameters()).dtype).repeat(rows, *(1 for _ in shape))


def patch_inputs(gradient: Float[Tensor, "L C Y X"], *, grid: Pair, patch: Pair = (1, 1)) -> Bool[Tensor, "L M"]:
    """Which patches have a gradient in any pixel; pixels past the last whole patch belong to none."""
    seen = (gradient != 0).any(1)[:, : grid[0] * patch[0], : grid[1] * patch[1]]
    return seen.unflatten(1, (grid[0], patch[0])).unflatten(3, (grid[1], patch[1])).any(4).any(2).flatten(1)


def measured(
    model: nn.Module, length: int | None = None, *, source: int | None = None, mask: Mask | None = None, seed: int = 0
) -> Reach:
    """The same as `reach`, by gradients of the model itself, which is left as it was.

    Memory grows with the square of the length: a few dozen positions show a pattern, thousands are too many.
    """
    config: Any = model.config
    texts = texts_of(config, length, source, mask)
    return summary(config, measured_layers(model, texts, seed=seed), bound_of(config, texts.real, texts.source))


def measured_layers(model: nn.Module, texts: Texts, *, seed: int = 0) -> list[LayerSets]:
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
def _leaves(trial: ReachTrial) -> Iterator[list[Tensor]]:
    """What is given, or what the embeddings give, cut off from the embeddings: where gradients are asked."""
    found = [] if trial.given is None else [trial.given.requires_grad_()]

    def cut(module: nn.Module, given: Any, output: Tensor) -> Tensor:
        found.append(output.detach().requires_grad_())
        return found[-1]

    with removed_after(*(embedding.register_forward_hook(cut) for embedding in trial.embeddings)):
        yield found


@contextmanager
def _outputs(watches: Sequence[WatchedLayer]) -> Iterator[dict[nn.Module, list[Tensor]]]:
    """What the watched modules give, call by call."""
    found: dict[nn.Module, list[Tensor]] = {}

    def note(module: nn.Module, given: Any, output: Any) -> None:
        found.setdefault(module, []).append(output[0] if isinstance(output, tuple) else output)

    with removed_after(*(module.register_forward_hook(note) for module in {watch.module for watch in watches})):
        yield found


def _layer(
    watch: WatchedLayer,
    caught: dict[nn.Module, list[Tensor]],
    leaves: list[Tensor],
    trial: ReachTrial,
    draw: torch.Generator,
) -> LayerSets:
    found = _gradients(_in_rows(caught[watch.module][watch.call]), leaves[watch.leaf], draw)
    if not trial.residual:
        found = _without_noise(found)
    seen = trial.inputs(found)
    if trial.keep is not None:
        seen = seen[trial.keep][:, trial.keep[-seen.shape[1] :]]
    return LayerSets(watch.part, watch.number, TableSets(seen), watch.causal)


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
