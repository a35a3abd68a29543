"""From data to a model that works: prepare, train, show, write samples, export, report."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headway.app.bill import Bill
from headway.app.board import Board
from headway.app.opening import began_here, opened
from headway.app.progress import Progress
from headway.app.samples import samples
from headway.app.together import first_alone
from headway.config.train import TrainConfig
from headway.hub import save
from headway.models import fresh, parameters
from headway.train import checkpoint
from headway.train.feed import check_shares
from headway.train.loop import Event, Run
from headway.train.machine import machine
from headway.train.parallel import whole
from headway.train.tasks import prepare
from headway.train.work import Place, Work
from headway.train.world import World, join


def run(config: TrainConfig, path: Path, *, resume: bool = False, overwrite: bool = False) -> str:
    """Train in a directory, and return why it ended: finished, stopped, early or diverged."""
    place = Place(path)
    with _world(config) as world:
        check_shares(config.batch, world.data_size, config.accumulate)
        say = _say if world.first else _nothing
        # Processes that torchrun started again go on with the run that they had begun.
        resume = resume or (world.again and world.share(began_here(place)))
        with opened(place, config, world, resume=resume, overwrite=overwrite):
            board = Board(place.path) if config.tensorboard and world.first else None
            # The first process reads the data and writes the run's own files; the others then find them ready.
            work = first_alone(world, lambda: prepare(config, place, say)) or prepare(config, place, say)
            run = Run(work, place, world, resume=resume)
        for note in run.notes:
            say(note)
        return _follow(run, work, place, world, board, Bill(run, work, place, say))


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


def _follow(run: Run, work: Work, place: Place, world: World, board: Board | None, bill: Bill) -> str:
    reason = "finished"
    start, count = run.training.facts.step, parameters(work.model)
    if not start:
        time = datetime.now(UTC).isoformat(timespec="seconds")
        run.metrics.write(
            "start", {"time": time, "run": place.path.name, "parameters": count, "machine": machine(world)}
        )
    with Progress(work.config.steps, start, place.path.name, silent=not world.first) as progress:
        for event in run.events():
            bill.see(event)
            found = _samples(run, work, event) if event.kind == "validation" and world.size == 1 else []
            _show(event, progress)
            for one in found:
                progress.sample(one["prompt"], one["text"])
            if board is not None:
                board.show(event)
            if event.kind == "end":
                reason = event.row["reason"]
            bill.rest()
    bill.close()
    if board is not None:
        board.close()
    if reason in ("finished", "early"):
        export(run, work, place)
        if world.first:
            _look(work, place)
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


def _samples(run: Run, work: Work, event: Event) -> list[dict[str, Any]]:
    """Texts that the model writes by now; scores of translations join the event's row."""
    found = list(samples(work, event.row))
    for one in found:
        run.metrics.write("sample", {"step": event.row["step"], **one})
    return found


def export(run: Run, work: Work, place: Place) -> None:
    """The best weights (the last ones where nothing was held out), as a directory that headway.load reads."""
    training, best = run.training, place.checkpoint(run.training.facts.best_step)
    if training.facts.best_step and best.exists():
        kept = {name: tensor for name, tensor in training.tensors().items() if not name.startswith("optim/")}
        try:
            checkpoint.load(best, kept, run.world)
        except checkpoint.Damaged as error:
            _say(f"{error}; the last weights are exported instead of the best")
    with training.averaged():
        weights = None if run.world.size == 1 else whole(training.learner.model)
        if run.world.first:
            model = work.model if weights is None else _filled(work, weights)
            save(model.eval(), place.model, tokenizer=work.tokenizer, overwrite=place.model.exists())


def _filled(work: Work, weights: dict[str, Any]) -> Any:
    """A model in one piece, of weights that were put together."""
    model = fresh(work.model.config)
    model.load_state_dict(weights, strict=False)
    return model


@contextmanager
def _world(config: TrainConfig) -> Iterator[World]:
    world = join(config.parallel)
    try:
        yield world
    finally:
        world.leave()


def _look(work: Work, place: Place) -> None:
    """What attends to what, for the report; a model without attention has nothing to show."""
    from headway.app.heads import keep_heads

    try:
        keep_heads(work, place)
    except ValueError as error:
        _say(f"heads: {error}")


def _report(place: Place) -> None:
    from headway.app.report import report

    _say(f"report: {report(place.path)}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _nothing(line: str) -> None:
    pass
