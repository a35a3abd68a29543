"""A model that learns: its weights, the optimiser's state, averages and a few facts; steps, evaluation, checkpoints."""

import ctypes
import hashlib
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from headway.config.run_files import RunFiles
from headway.data.batch import Batch, Examples
from headway.hub.parts import part_names
from headway.nn.recompute import forget_activations
from headway.training import checkpoint
from headway.training.checkpoint import step_of
from headway.training.distributed import World
from headway.training.divergence import DivergenceMonitor
from headway.training.ema import WeightAverage
from headway.training.metrics import Meter, check_sums
from headway.training.objectives import Learner, TrainingSetup, total_loss
from headway.training.optim import Optimizer
from headway.training.parallel import parallelize, rest
from headway.training.slices import Share

TOKENS = "/tokens"  # among counts of losses, whose names are words
READ = ("tokens", "tokens_a", "tokens_b", "tokens_n", "source", "target")


@dataclass
class TrainerState:
    """What a run has to remember besides tensors."""

    step: int = 0  # steps that are done
    best: float | None = None  # the lowest loss on the validation data
    best_step: int = 0
    waiting: int = 0  # evaluations since then
    tokens: int = 0
    seconds: float = 0.0
    data: str = ""  # what stands for the data and the tokenizer
    meter: dict[str, float] = field(default_factory=dict)
    watch: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, place: Path, facts: Any) -> "TrainerState":
        """What a checkpoint has kept of them; ValueError with the end of a sentence where that cannot be."""
        said = facts.get("training") if isinstance(facts, dict) else None
        if not isinstance(said, dict):
            raise ValueError("has no state of a run")
        for name in ("step", "best_step", "waiting", "tokens"):
            value = said.get(name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"has the {name} {value!r}, which is not a whole number from 0")
        if said["step"] != step_of(place):
            raise ValueError(f"is of step {said['step']}")
        best = said.get("best")
        if not (best is None or (_is_number(best) and math.isfinite(best))):
            raise ValueError(f"has the lowest loss {best!r}, which is no number")
        if said["best_step"] > said["step"] or (best is None) != (said["best_step"] == 0):
            raise ValueError(f"has the best_step {said['best_step']}, which is none of its {said['step']} steps")
        if not (_is_number(said.get("seconds")) and 0 <= said["seconds"] < math.inf):
            raise ValueError(f"has the seconds {said.get('seconds')!r}, which are no time")
        if not isinstance(said.get("data"), str):
            raise ValueError(f"has the data {said.get('data')!r}, which is no hash")
        try:
            check_sums(said["meter"])
            DivergenceMonitor.of(said["watch"])
            found = cls(**said)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"has no state of a run ({error})") from None
        return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class StepResult:
    """What came of one step, over all processes."""

    losses: dict[str, float]  # means
    loss: float  # weighted and added up
    norm: float
    rate: float
    tokens: int  # that were read, or images


class Trainer:
    """A model that learns, on one process or its part of many."""

    def __init__(self, work: TrainingSetup, world: World) -> None:
        c = work.config
        self.work, self.world, self.facts = work, world, TrainerState(data=work.identity)
        self.meter, self.watch = Meter(), DivergenceMonitor()
        model = work.model.to(world.device, getattr(torch, c.dtype)).train()
        if work.reference is not None:
            work.reference.to(world.device)
        if c.checkpointing:
            forget_activations(model)
        self.learner = Learner(model, work.objective, smoothing=c.smoothing)
        self.module = parallelize(self.learner, world, c.parallel)
        if c.compile:
            self.module.compile()
        named = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
        rows = {name: tuple(parts.values()) for name, parts in part_names(model).items()}
        self.optimizer = Optimizer(named, c.optim, master=c.dtype == "bfloat16", rows=rows)
        self.average = WeightAverage(named, c.optim.average) if c.optim.average else None

    def learn(self, batches: list[Batch], factor: float) -> StepResult:
        """One step; where its gradients are no numbers, it is not taken."""
        counts = self._counts(batches)
        tokens = int(counts.pop(TOKENS))
        sums = dict.fromkeys(counts, 0.0)
        self.optimizer.zero()
        for part, batch in enumerate(batches):
            # Dropout is drawn anew from the step's own number: there is no state to keep, and nobody to disturb it.
            torch.manual_seed(_mixed(self.work.config.seed, self.facts.step, part, self.world.data_rank))
            with self._together(last=part + 1 == len(batches)):
                found = self.module({name: x.to(self.world.device) for name, x in batch.inputs.items()})
                # Processes average their gradients, and each one's loss is already a share of the whole.
                (total_loss(found, self.work.weights, counts) * self.world.data_size).backward()
            for name, loss in found.losses.items():
                sums[name] += float(loss.detach())
        return self._step(self.world.sums(sums), counts, factor, tokens)

    def _step(self, sums: dict[str, float], counts: dict[str, float], factor: float, tokens: int) -> StepResult:
        # What nobody was asked in this step has no loss, and not a loss of 0.
        losses = {name: sums[name] / counts[name] for name in sums if counts[name]}
        loss = sum(self.work.weights.get(name, 1.0) * value for name, value in losses.items())
        # Processes that share their gradients cannot tell 0 from none, and one alone must not differ from them.
        for parameter in self.learner.parameters():
            if parameter.grad is None and parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        norm = self.optimizer.clip(self.work.config.optim.clip)
        if math.isfinite(norm):
            self.optimizer.step(factor)
            if self.average is not None:
                self.average.update()
        return StepResult(losses, loss, norm, self.work.config.optim.rate * factor, tokens)

    def _counts(self, batches: list[Batch]) -> dict[str, float]:
        """What each loss is a mean of, and the tokens that are read: all that processes tell each other beforehand."""
        found = {TOKENS: float(sum(map(_read, batches)))}
        for batch in batches:
            for name, count in batch.counts.items():
                found[name] = found.get(name, 0.0) + count
        return self.world.sums(found)

    def _together(self, *, last: bool) -> AbstractContextManager[Any]:
        """Gradients travel between processes once a step, with its last part."""
        if isinstance(self.module, DistributedDataParallel) and not last:
            return self.module.no_sync()
        return nullcontext()

    def averaged(self) -> AbstractContextManager[Any]:
        """Inside, the weights are their moving averages, where the run keeps any."""
        return nullcontext() if self.average is None else self.average.swapped()

    def tensors(self) -> dict[str, Share]:
        """What a checkpoint keeps, alive: loading writes into these. What is frozen is read from where it came from.

        Of a map that makes queries, keys and values at once each is kept for itself, as processes may share its heads.
        """
        model = self.learner.model
        learnt = ((name, tensor) for name, tensor in model.named_parameters() if tensor.requires_grad)
        found = {f"model/{name}": tensor.detach() for name, tensor in learnt}
        found |= {f"model/{name}": tensor for name, tensor in model.named_buffers()}
        found |= {f"optim/{name}": tensor for name, tensor in self.optimizer.tensors().items()}
        if self.average is not None:
            found |= {f"average/{name}": tensor for name, tensor in self.average.tensors().items()}
        parts = part_names(model)
        return {kept: share for name, tensor in found.items() for kept, share in _shares(name, tensor, parts)}

    def save(self, place: RunFiles) -> Path:
        self.facts.meter, self.facts.watch = dict(self.meter.sums), self.watch.facts()
        target = place.checkpoint(self.facts.step)
        checkpoint.save(target, self.tensors(), {"training": asdict(self.facts)}, self.world)
        return target

    def load(self, source: Path) -> None:
        """Go on from a checkpoint that `checkpoint.newest` has found whole: its files are not hashed again."""
        found = checkpoint.load(source, self.tensors(), self.world, check=False)
        self.facts = TrainerState.of(source, found)
        self.meter, self.watch = Meter(self.facts.meter), DivergenceMonitor.of(self.facts.watch)


def _shares(name: str, tensor: Tensor, parts: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, Share]]:
    """ "model/NAME", "optim/NAME/STATE" or "average/NAME/average", with the parts that a file has of NAME."""
    kind, parameter, *state = name.split("/")
    share, start = Share.of(tensor), 0
    for part, rows in parts.get(parameter, {parameter: 0}).items():
        yield "/".join([kind, part, *state]), share.rows(start, rows) if rows and tensor.ndim else share
        start += rows


def _read(batch: Batch) -> int:
    """Tokens, or images."""
    read = sum(batch.inputs[name].numel() for name in READ if name in batch.inputs)
    return read or sum(batch.counts.values())


def _mixed(*numbers: int) -> int:
    """One seed from several numbers."""
    return int.from_bytes(hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()) >> 1


@torch.no_grad()
def evaluate(
    module: nn.Module, examples: Examples, *, batch: int, world: World, limit: int = 0
) -> tuple[dict[str, float], dict[str, float]]:
    """(mean losses, shares of right answers), by name; `limit` batches at most, 0: all of them.

    What is random in an example is drawn from its number, so that every evaluation asks the same.
    """
    rows = by_size(examples, batch * limit or len(examples))
    parts = [rows[start : start + batch] for start in range(0, len(rows), batch)]
    sums: dict[str, float] = {}
    # All processes take the same number of turns, as sharded weights travel in each; a turn too many is not counted.
    for first in range(0, len(parts), world.data_size):
        mine = first + world.data_rank
        found = _sums(module, examples, parts[min(mine, len(parts) - 1)], world)
        for name, value in found.items():
            sums[name] = sums.get(name, 0.0) + (value if mine < len(parts) else 0.0)
    rest(module)
    sums = world.sums(sums)
    counted = {name: sums[f"count/{name}"] for name in (key[6:] for key in sums if key.startswith("count/"))}
    losses = {name: sums[f"loss/{name}"] / max(count, 1.0) for name, count in counted.items()}
    shares = {name: sums[f"hits/{name}"] / max(count, 1.0) for name, count in counted.items() if f"hits/{name}" in sums}
    return losses, shares


def by_size(examples: Examples, most: int) -> np.ndarray:
    """Rows, evenly spread where there are too many; similar sizes beside one another, so that little is padded."""
    rows = np.unique(np.linspace(0, len(examples) - 1, min(most, len(examples))).astype(np.int64))
    return rows if examples.sizes is None else rows[np.argsort(examples.sizes[rows], kind="stable")]


def _sums(module: nn.Module, examples: Examples, rows: np.ndarray, world: World) -> dict[str, float]:
    batch = examples.batch(rows, rows.astype(np.int64))
    found = module({name: x.to(world.device) for name, x in batch.inputs.items()})
    losses = {f"loss/{name}": float(value) for name, value in found.losses.items()}
    hits = {f"hits/{name}": float(value) for name, value in found.hits.items()}
    return {**{f"count/{name}": float(count) for name, count in batch.counts.items()}, **losses, **hits}


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
KEPT = 2**30  # bytes at the end of the heap that are kept
SHARED = 2**25  # a block up to this size, the largest that glibc allows, lies in the heap


def keep_memory() -> bool:
    """Whether the allocator took the setting: not one of another name, nor where the user has set it already."""
    if sys.platform != "linux" or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT)) and bool(mallopt(_MMAP_THRESHOLD, SHARED))
