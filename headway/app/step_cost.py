"""The cost of one step of training: parameters, FLOPs, memory, and on a measured machine seconds.

What a process computes in one part of a step follows from the batches as they are, padding and all. Muon adds the
products that make a momentum orthogonal (headway/training/muon.py):

    A = X Xᵀ    m·n·m        A A    m·m·m        (bA + cA²) X    m·m·n        five times, X of m x n, m ≤ n

>>> from headway.presets import preset
>>> step_price(preset("gpt2"), Setting(length=1024)).parameters
124439808
>>> from headway.presets.seeds import bare_block
>>> [line.operation.forward.dense for line in muon_lines(bare_block(width=3, hidden=5))]  # q, k and v, then up and down
[81, 81, 81, 90, 54, 90]
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

import torch
from torch import Tensor

from headway.config import Frozen
from headway.config.base import IGNORED
from headway.cost.compose import price_tree
from headway.cost.memory import memory_of, peak
from headway.cost.op_tree import Line, backward, forward, lines, summed
from headway.cost.optimiser import adapted_passes, block_matrices, learnt_of, optimiser_cost
from headway.cost.price import TracedMemory, traced_memory
from headway.cost.setting import Setting
from headway.cost.sheet import EMBEDDINGS, by_kind
from headway.cost.time import STEP, predict
from headway.cost.time.kernels import FORWARD, LEARNING, UPDATE, WeightBytes
from headway.cost.time.machine import Machine
from headway.cost.trace import merged, trace
from headway.data.batch import Batch
from headway.data.loader import Loader, Order
from headway.models.own_module import OwnModule, make_module, read_logits
from headway.sizes import Cost, Operation
from headway.training.distributed import World
from headway.training.muon import TURNS
from headway.training.objectives import TrainingSetup
from headway.training.trainer import READ

LOOKS = 5  # steps whose batches are looked at

Inputs = Mapping[str, Tensor]


def typical(work: TrainingSetup, world: World) -> tuple[Setting, int]:
    """The setting of a typical batch of this process, and the tokens (or images) that all processes read in a step.

    Batches of texts differ in length: of a few from all over the run the median one stands for all.
    """
    c = work.config
    order = Order(len(work.train), seed=c.seed, sizes=work.train.sizes, batch=c.batch)
    feed = Loader(work.train, order, c.batch, c.accumulate, world.data_rank, world.data_size)
    steps = sorted({look * c.steps // LOOKS for look in range(LOOKS)})
    batches = sorted((feed.step(step)[0] for step in steps), key=read)
    batch = batches[len(batches) // 2]
    return setting_of(work, batch), read(batch) * c.accumulate * world.data_size


def read(batch: Batch) -> int:
    """Tokens of a batch, or images."""
    found = sum(batch.inputs[name].numel() for name in READ if name in batch.inputs)
    return found or next(iter(batch.inputs.values())).shape[0]


def setting_of(work: TrainingSetup, batch: Batch) -> Setting:
    """A batch as the price knows it."""
    task = work.config.task
    if task not in SIZES:
        raise ValueError(f"the cost of task {task!r} is not known: known are {', '.join(SIZES)}")
    sizes = SIZES[task](batch.inputs)
    return Setting(training=True, dtype=work.config.dtype, checkpointing=work.config.checkpointing, **sizes)


def _language(inputs: Inputs) -> dict[str, Any]:
    if "lengths" in inputs:
        return _packed(inputs["lengths"])
    batch, length = inputs["tokens"].shape
    return {"batch": batch, "length": length}


def _packed(*lengths: Tensor) -> dict[str, Any]:
    """Texts one after the other that do not see each other: as many rows of their mean length."""
    rows = sum(len(one) for one in lengths)
    return {"batch": rows, "length": max(1, round(sum(int(one.sum()) for one in lengths) / rows))}


def _masked(inputs: Inputs) -> dict[str, Any]:
    sizes = _classify(inputs)
    hidden = int((inputs["words"] != IGNORED).sum())
    return {**sizes, "logits": max(1, ceil(hidden / inputs["words"].shape[0]))}


def _classify(inputs: Inputs) -> dict[str, Any]:
    batch, length = inputs["tokens"].shape
    return {"batch": batch, "length": length, "lengths": _real(inputs["keep"])}


def _seq2seq(inputs: Inputs) -> dict[str, Any]:
    batch, length = inputs["target"].shape
    lengths = _real(inputs["target_keep"])
    return {
        "batch": batch, "length": length, "source": inputs["source"].shape[1], "lengths": lengths,
        "source_lengths": _real(inputs["source_keep"]), "logits": ceil(sum(lengths) / batch),
    }  # fmt: skip


def _images(inputs: Inputs) -> dict[str, Any]:
    return {"batch": inputs["images"].shape[0]}


def _embed(inputs: Inputs) -> dict[str, Any]:
    return _packed(*(inputs[f"lengths_{side}"] for side in "abn" if f"lengths_{side}" in inputs))


def _real(keep: Tensor) -> tuple[int, ...]:
    return tuple(keep.sum(1).tolist())


SIZES: dict[str, Callable[[Inputs], dict[str, Any]]] = {
    "language": _language, "instruct": _language, "dpo": _language, "masked": _masked, "classify": _classify,
    "seq2seq": _seq2seq, "images": _images, "embed": _embed,
}  # fmt: skip


def muon_lines(config: Frozen) -> Iterator[Line]:
    """Its products for the matrices of blocks, those of one shape together, as a step of the optimiser takes them."""
    counts = Counter((min(shape), max(shape)) for shape in block_matrices(config))
    for (short, long), count in counts.items():
        for columns, inner in ((short, long), (short, short), (long, short)):
            yield Line(f"muon.{short}x{long}", TURNS, 0, _product(count, short, inner, columns))


def _product(count: int, rows: int, inner: int, columns: int) -> Operation:
    macs = count * rows * inner * columns
    shape = (count, rows, inner, columns)
    entries = count * (rows * inner + inner * columns)
    return Operation("product", Cost(macs, macs, macs, 0), shape=shape, reads=entries, writes=count * rows * columns)


ADAMW, MUON = "adamw", "muon"


@dataclass(frozen=True, eq=False)
class StepPrice:
    """A step of the optimiser after `parts` passes forwards and backwards, as one process takes it."""

    config: Frozen
    setting: Setting
    optimiser: str
    kinds: dict[str, int]  # parameters: weights, biases, embeddings, norms
    parts: int
    forward: Cost  # of one pass
    backward: Cost
    cost: Cost  # of the whole step
    seconds: float | None
    operations: tuple[tuple[Line, float | None], ...]  # with the seconds of each in a pass forwards and backwards
    traced: TracedMemory | None = None  # of a module of the user's own
    beside: int = 0  # bytes of a second model's weights, which is read and not trained

    @property
    def parameters(self) -> int:
        return sum(self.kinds.values())

    @property
    def inner(self) -> int:
        """Parameters outside of embeddings: those that every token passes through."""
        return self.parameters - self.kinds[EMBEDDINGS]

    @property
    def waiting(self) -> int:
        """Bytes of gradients beside which the later parts of a step are computed."""
        if self.parts == 1:
            return 0
        if self.traced is not None:
            return self.traced.gradients
        return learnt_of(self.config, self.setting) * self.setting.itemsize

    @cached_property
    def memory(self) -> int:
        """Bytes in use at most."""
        if self.traced is not None:
            return self.waiting + self.traced.peak_step
        return self.beside + self.waiting + peak(self.config, self.setting, STEP, optimiser=self.optimiser)

    @cached_property
    def kept(self) -> dict[str, int]:
        """Bytes that stay from one pass to another, and those that a pass forwards saves for the way back."""
        if (found := self.traced) is not None:
            saved = found.saved
        else:
            found = memory_of(self.config, self.setting, optimiser=self.optimiser)
            saved = found.saved_checkpointed if self.setting.checkpointing else found.saved + found.aside
        second = {"second model": self.beside} if self.beside else {}
        parts = {"weights": found.weights, **second, "gradients": found.gradients, "optimiser": found.optimiser}
        return {**parts, "activations kept": saved}

    @property
    def flops(self) -> int:
        """FLOPs in matrix products, as the kernels compute them."""
        return 2 * int(self.cost.dense if self.cost.executed is None else self.cost.executed)


def step_price(
    config: Frozen, setting: Setting, *, optimiser: str = ADAMW, parts: int = 1, machine: Machine | None = None
) -> StepPrice:
    """Of a model that learns from batches of this setting; nothing is allocated.

    With Muon every parameter is moved as AdamW moves it, and its own products come on top.
    """
    setting = replace(setting, training=True)
    tree = price_tree(config, setting)
    found = tuple(lines(tree))
    kinds, ahead, back = by_kind(found), forward(tree), backward(tree)
    again = [line for line in found if setting.checkpointing and "blocks" in line.path.split(".")]
    turns = list(muon_lines(config)) if optimiser == MUON else []
    if setting.lora is not None:
        ahead, back = adapted_passes(config, setting)
        machine = None  # the times of a way back that passes frozen weights by are not known
    passes = (ahead + back + summed(again)) * parts
    update = optimiser_cost(ADAMW if optimiser == MUON else optimiser, learnt_of(config, setting))
    cost = passes + update + summed(turns)
    seconds, each = _seconds(found, setting.dtype, machine, parts, again, turns)
    return StepPrice(config, setting, optimiser, kinds, parts, ahead, back, cost, seconds, each)


def beside_second(step: StepPrice, config: Frozen, held: int, machine: Machine | None = None) -> StepPrice:
    """The same with a pass forwards of a second model over each batch, whose weights take `held` bytes."""
    tree = price_tree(config, replace(step.setting, training=False))
    more = forward(tree) * step.parts
    seconds = step.seconds
    if machine is not None and seconds is not None:
        seconds += step.parts * predict(tuple(lines(tree)), machine, FORWARD, dtype=step.setting.dtype).seconds
    return replace(step, cost=step.cost + more, seconds=seconds, beside=held)


def module_step_price(
    model: OwnModule, setting: Setting, *, optimiser: str = ADAMW, parts: int = 1, machine: Machine | None = None
) -> StepPrice:
    """The same of a module of the user's own, as a trace of it on shapes alone shows."""
    setting, function = replace(setting, training=True), model.config.function
    with torch.device("meta"):
        module = make_module(function).to(getattr(torch, setting.dtype)).train()
        tokens = torch.zeros(setting.batch, setting.length, dtype=torch.long)

    def loss(output: Any) -> Tensor:
        logits = read_logits(output, tokens, function)
        return model.cross_entropy(logits, logits.new_zeros(tokens.shape, dtype=torch.long))[0]

    seen = trace(module, tokens, backward=True, loss=loss)
    assert seen.memory is not None
    found, kinds = tuple(merged(seen.lines)), dict(seen.parameters.kinds)
    cost = (seen.forward + seen.backward) * parts + optimiser_cost(optimiser, sum(kinds.values()))
    seconds, each = _seconds(found, setting.dtype, machine, parts, (), ())
    memory = traced_memory(module, [tokens], seen.memory, optimiser)
    return StepPrice(
        model.config, setting, optimiser, kinds, parts, seen.forward, seen.backward, cost, seconds, each, memory
    )


def _seconds(
    found: tuple[Line, ...],
    dtype: str,
    machine: Machine | None,
    parts: int,
    again: Iterable[Line],
    turns: Iterable[Line],
) -> tuple[float | None, tuple[tuple[Line, float | None], ...]]:
    """Of the whole step, and of each operation; None of an unknown machine."""
    if machine is None:
        return None, tuple((line, None) for line in found)
    whole, held = predict(found, machine, STEP, dtype=dtype), WeightBytes.of(found, dtype)

    def of(phase: str, some: Iterable[Line]) -> float:
        return sum((machine.seconds(line, phase, dtype=dtype, held=held) for line in some), 0.0)

    update = of(UPDATE, found)
    once = whole.seconds - update + of(LEARNING, again)
    return parts * once + update + of(FORWARD, turns), whole.operations
