"""One process of some small runs, started by torchrun: the losses of each step, and the weights at the end.

    torchrun --nproc-per-node 2 worker.py JOBS.json

A process takes a second to start and a tenth of one to train, so it does several jobs.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from safetensors.torch import save_file

from headway.config.run_files import RunFiles
from headway.config.train import DataConfig, OptimConfig, ParallelConfig, ScheduleConfig, TrainConfig
from headway.data.loader import Loader, Order
from headway.training import checkpoint
from headway.training.objectives import TrainingSetup
from headway.training.parallel import World, join, whole
from headway.training.trainer import Trainer
from tests.runs.tiny import OBJECTIVES, Texts, make_model


@dataclass(frozen=True)
class Job:
    """A run: what is trained, how it is spread, and what happens to it."""

    directory: str
    model: str = "gpt"
    kind: Literal["ddp", "fsdp"] = "ddp"
    tensor: int = 1
    optim: Literal["adamw", "muon"] = "adamw"
    dtype: Literal["float32", "bfloat16"] = "float32"
    accumulate: int = 1
    steps: int = 20
    save: int = 0  # a checkpoint every so many steps
    resume: bool = False
    spoilt: int = 0  # in this step, NaN enters the model of the last process alone


def make(job: Job) -> TrainingSetup:
    config = TrainConfig(
        data=DataConfig(train=("none",)),
        optim=OptimConfig(kind=job.optim, rate=5e-3, average=0.9),
        schedule=ScheduleConfig(kind="constant", warmup=0),
        parallel=ParallelConfig(kind=job.kind, tensor=job.tensor),
        steps=job.steps,
        batch=12,
        accumulate=job.accumulate,
        dtype=job.dtype,
    )
    return TrainingSetup(config, make_model(job.model), OBJECTIVES[job.model], Texts(job.model))


def run(job: Job, world: World) -> None:
    work, place = make(job), RunFiles(Path(job.directory))
    place.path.mkdir(parents=True, exist_ok=True)
    training, facts = Trainer(work, world), lambda: training.facts
    found = checkpoint.newest(place.checkpoints, world) if job.resume else checkpoint.Newest(None)
    if found.path is not None:
        training.load(found.path)
    c = work.config
    feed = Loader(work.train, Order(len(work.train), seed=0), c.batch, c.accumulate, world.data_rank, world.data_size)
    if job.spoilt and world.rank == world.size - 1:
        first = training.learner.model.stack.blocks[0]  # type: ignore[union-attr]
        first.register_forward_pre_hook(lambda _, given: _spoilt(given) if facts().step + 1 == job.spoilt else None)
    with open(place.path / f"losses-{world.rank}.jsonl", "a") as log:
        for batches in feed.steps(facts().step, c.steps):
            taken = training.learn(batches, 1.0)
            facts().step += 1
            log.write(json.dumps({"step": facts().step, "loss": taken.loss, "norm": taken.norm}) + "\n")
            log.flush()
            if job.save and facts().step % job.save == 0:
                training.save(place)
    weights = whole(training.learner.model)
    if world.first:
        kept = {name: tensor.contiguous() for name, tensor in weights.items()}
        save_file(kept, place.path / "weights.safetensors")


def _spoilt(given: tuple) -> tuple:
    x = given[0].clone()
    x[0, 0] = float("nan")
    return x, *given[1:]


def main(jobs: Path) -> None:
    world = World()
    try:
        for options in json.loads(jobs.read_text()):
            job = Job(**options)
            world = join(ParallelConfig(kind=job.kind, tensor=job.tensor))
            run(job, world)
    finally:
        world.leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
