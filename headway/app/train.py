"""From data to a model that works: prepare, train, show, write samples, export, report."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headway import __version__
from headway.app.board import Board
from headway.app.progress import Progress
from headway.app.samples import samples
from headway.app.settings import read, written
from headway.app.together import first_alone
from headway.config.train import TrainConfig
from headway.hub import save
from headway.models import parameters
from headway.train import checkpoint
from headway.train.feed import check_shares
from headway.train.loop import Event, Run
from headway.train.machine import machine
from headway.train.parallel import whole
from headway.train.tasks import prepare
from headway.train.work import Place, Work
from headway.train.world import World, join

# Of a run's directory; whatever else lies there is somebody's work.
OWN = ("config.yaml", "machine.json", "metrics.jsonl", "log.txt", "report.html", "tensorboard")
FOLDERS = ("data", "tokenizer", "checkpoints", "model")


def run(config: TrainConfig, path: Path, *, resume: bool = False, overwrite: bool = False) -> str:
    """Train in a directory, and return why it ended: finished, stopped, early or diverged."""
    place = Place(path)
    with _world(config) as world:
        say = _say if world.first else _nothing
        # Processes that torchrun started again find the run that they had begun.
        resume = resume or (world.again and world.share(place.config.exists()))
        first_alone(world, lambda: _open(place, config, world, resume=resume, overwrite=overwrite))
        # The first process reads the data and writes the run's own files; the others then find them ready.
        work = first_alone(world, lambda: _prepared(config, place, say, resume)) or prepare(config, place, say)
        run = Run(work, place, world, resume=resume)
        for note in run.notes:
            say(note)
        return _follow(run, work, place, world)


def _prepared(config: TrainConfig, place: Place, say: Callable[[str], None], resume: bool) -> Work:
    """The work; a run that cannot begin leaves nothing behind."""
    try:
        check_shares(config.batch, 1, config.accumulate)
        return prepare(config, place, say)
    except ValueError:
        if not resume:
            _clear(place.path)
        raise


def plan(config: TrainConfig) -> str:
    """What would be trained: the data read, the model built, nothing kept."""
    with TemporaryDirectory() as made:
        work = prepare(config, Place(Path(made)), _say)
    size = parameters(work.model)
    passes = config.steps * config.batch / len(work.train)
    held = 0 if work.validation is None else len(work.validation)
    return (
        f"{config.task}: a {work.model.config.kind_or_name()} model of {size:,} parameters, {config.steps:,} steps of "
        f"{config.batch} examples ({passes:.1f} passes over {len(work.train):,}), {held:,} held out"
    )


def _follow(run: Run, work: Work, place: Place, world: World) -> str:
    reason = "finished"
    start, count = run.training.facts.step, parameters(work.model)
    if not start:
        time = datetime.now(UTC).isoformat(timespec="seconds")
        run.metrics.write(
            "start", {"time": time, "run": place.path.name, "parameters": count, "machine": machine(world)}
        )
    board = Board(place.path) if work.config.tensorboard and world.first else None
    with Progress(work.config.steps, start, place.path.name, silent=not world.first) as progress:
        for event in run.events():
            _show(event, progress)
            if board is not None:
                board.show(event)
            if event.kind == "validation" and world.size == 1:
                _sample(run, work, event, progress)
            if event.kind == "end":
                reason = event.row["reason"]
    if board is not None:
        board.close()
    if reason in ("finished", "early"):
        export(run, work, place)
    if world.first:
        _report(place)
    return reason


def _show(event: Event, progress: Progress) -> None:
    if event.kind == "train":
        progress.train(event.row)
    elif event.kind == "validation":
        progress.validation(event.row)
    elif event.kind == "end" and "diagnosis" in event.row:
        progress.note(event.row["diagnosis"])


def _sample(run: Run, work: Work, event: Event, progress: Progress) -> None:
    for one in samples(work, event.row):
        run.metrics.write("sample", {"step": event.row["step"], **one})
        progress.sample(one["prompt"], one["text"])


def export(run: Run, work: Work, place: Place) -> None:
    """The best weights (the last ones where nothing was held out), as a directory that headway.load reads."""
    training, best = run.training, place.checkpoint(run.training.facts.best_step)
    if training.facts.best_step and best.exists():
        names = [name for name in training.tensors() if not name.startswith("optim/")]
        checkpoint.load(best, {name: training.tensors()[name] for name in names}, run.world)
    with training.averaged():
        weights = whole(training.learner.model)
        if run.world.first:
            model = work.model if run.world.size == 1 else _filled(work, weights)
            save(model.eval(), place.model, tokenizer=work.tokenizer, overwrite=place.model.exists())


def _filled(work: Work, weights: dict[str, Any]) -> Any:
    from headway.models import fresh

    model = fresh(work.model.config)
    model.load_state_dict(weights, strict=False)
    return model


def _open(place: Place, config: TrainConfig, world: World, *, resume: bool, overwrite: bool) -> None:
    if resume:
        place.config.write_text(written(config), encoding="utf-8")
        return
    if place.path.exists() and any(place.path.iterdir()):
        if not overwrite:
            raise ValueError(f"{place.path} is not empty: pass --resume to go on, --overwrite, or another --out")
        _clear(place.path)
    place.path.mkdir(parents=True, exist_ok=True)
    place.config.write_text(written(config), encoding="utf-8")
    facts = {"headway": __version__, "seed": config.seed, **machine(world), "command": sys.argv}
    (place.path / "machine.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _clear(path: Path) -> None:
    """Remove a run; anything that is not of one keeps all of it."""
    if not path.is_dir() or not (path / "config.yaml").exists():
        raise ValueError(f"{path} holds no run, and is not overwritten: choose another --out")
    if foreign := [one.name for one in path.iterdir() if one.name not in (*OWN, *FOLDERS)]:
        raise ValueError(
            f"{path} holds {min(foreign)}, which is no file of a run and would be lost: choose another --out"
        )
    shutil.rmtree(path)


def config_of(path: Path) -> dict[str, Any]:
    """The settings of a run that is there already."""
    if not (path / "config.yaml").is_file():
        raise ValueError(f"{path} is no run: it has no config.yaml; leave --resume out to begin one")
    return read(path / "config.yaml")


@contextmanager
def _world(config: TrainConfig) -> Iterator[World]:
    world = join(config.parallel)
    try:
        yield world
    finally:
        world.leave()


def _report(place: Place) -> None:
    from headway.app.report import report

    _say(f"report: {report(place.path)}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _nothing(line: str) -> None:
    pass
