"""From data to a model that works: prepare, train, show, write samples, export, report."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from headway.app.bill import Bill
from headway.app.board import Board
from headway.app.opening import began_here, opened
from headway.app.progress import Progress
from headway.app.run import Run as RunRecord
from headway.app.run import read_run
from headway.app.samples import samples
from headway.app.settings import free_place, merged, resolve, saved
from headway.app.together import first_alone
from headway.config import Frozen
from headway.config.kinds import CONFIGS
from headway.config.train import DataConfig, ModelChoice, TrainConfig
from headway.data.tokenizer import Tokenizer
from headway.hub import save
from headway.hub.parts import parts_of
from headway.hub.target import Directory, Preset
from headway.hub.target import resolve as resolve_target
from headway.models import build, parameters
from headway.models.model import Model
from headway.training import checkpoint
from headway.training.allocator import keep_memory
from headway.training.feed import check_shares
from headway.training.loop import Event, Run
from headway.training.machine import machine
from headway.training.parallel import whole
from headway.training.tasks import prepare
from headway.training.tasks.common import save_whole
from headway.training.work import Place, Work
from headway.training.world import World, join

# The task that a kind of model is trained on where nobody says.
TASKS = {
    "language": "language", "masked": "masked", "sentence": "embed", "seq2seq": "seq2seq", "recurrent": "seq2seq",
    "vision": "images", "davit": "images",
}  # fmt: skip


def train(
    model: Model | Frozen | TrainConfig | str | Path | None = None,
    data: str | Path | Sequence[str | Path] = (),
    *,
    out: str | Path | None = None,
    steps: int | None = None,
    tokenizer: Tokenizer | str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    **settings: Any,
) -> RunRecord:
    """Train a model on files, folders or embedded sources, and return the run: `.model`, `.tokenizer`, `.curve(...)`.

    The model is one of `headway.build` or `headway.load` (it is left as it is; the run's own is trained), its
    configuration, a preset, a directory or a run to start from, or all settings in one TrainConfig. The tokenizer is an
    object, a path, or a kind to learn ("bpe", "character", "byte", "wordpiece", "unigram"). Settings are those of
    `headway train`: those of the model and of the data by name (`layers=6, held=0.05`), other nested ones as a dict
    (`optim={"rate": 3e-4}`). The run lies in `out`, and goes on from its newest checkpoint by
    `train(out=..., resume=True)`.
    """
    if resume and out is None:
        raise ValueError("resume goes on with a run: name its directory with out")
    own = {
        group: {name: settings.pop(name) for name in list(settings) if name in kind.model_fields and name != "train"}
        for group, kind in (("model", ModelChoice), ("data", DataConfig))
    }
    given: dict[str, Any] = settings | ({} if steps is None else {"steps": steps}) | own
    if data:
        given = merged(
            given, {"data": {"train": [str(data)] if isinstance(data, str | Path) else list(map(str, data))}}
        )
    if isinstance(tokenizer, str | Path):
        given = merged({"tokenizer": _tokenizer(tokenizer)}, given)
    known = tokenizer if isinstance(tokenizer, Tokenizer) else None
    chosen, start = ({}, None) if resume else _model(model)
    if start is not None and known is None and not isinstance(tokenizer, str | Path):
        known = start.tokenizer
    given = merged(chosen, given)
    place = None if out is None else Path(out)
    config = resolve(given, file=saved(place) if resume and place is not None else None)
    if not config.data.train:
        raise ValueError("there is nothing to train on: name a file, a folder, or a source such as python")
    place = free_place(config) if place is None else place
    if start is not None:
        config = config.replace("model", start=str(place / "start"))
    run(config, place, resume=resume, overwrite=overwrite, start=start, tokenizer=known)
    return read_run(place)


def _tokenizer(given: str | Path) -> dict[str, str]:
    kinds = ("byte", "character", "bpe", "wordpiece", "unigram")
    return {"kind": given} if isinstance(given, str) and given in kinds else {"path": str(given)}


def _model(given: Any) -> tuple[dict[str, Any], Model | None]:
    """The settings that name a model; and the model itself where it is an object."""
    if given is None:
        return {}, None
    if isinstance(given, TrainConfig):
        return given.model_dump(exclude_unset=True), None
    if isinstance(given, str | Path):
        target = resolve_target(given)
        if isinstance(target, Preset):
            return {"model": {"preset": target.name}, **_usual(target.config, sizes=False)}, None
        if isinstance(target, Directory):
            return {"model": {"start": str(target.path)}, **_usual(target.config)}, None
        made = target.made()
        return _model(made[0] if isinstance(made, tuple) else made)
    if isinstance(given, Model):
        return _usual(given.config), given
    if isinstance(given, Frozen) and given.kind_or_name() in CONFIGS:
        return {"model": {"config": given.model_dump_json()}, **_usual(given)}, None
    what = "a module that is not headway's" if isinstance(given, nn.Module) else f"a {type(given).__name__}"
    raise ValueError(f"headway.train takes a model of headway's, its configuration or a name, not {what}; "
                     "a loop of your own trains any module")  # fmt: skip


def _usual(config: Any, *, sizes: bool = True) -> dict[str, Any]:
    """What follows from a model where nobody says otherwise: the task, the length and the tokens to learn."""
    kind = config.kind_or_name()
    task = "classify" if kind == "masked" and config.classes else TASKS.get(kind)
    if task is None:
        raise ValueError(f"a {kind} model is trained by no task; there are {', '.join(TASKS)}")
    found: dict[str, Any] = {"task": task}
    if sizes and isinstance(length := getattr(config, "length", None), int):
        found["length"] = length
    if sizes and isinstance(vocabulary := getattr(config, "vocabulary", None), int):
        found["tokenizer"] = {"vocabulary": vocabulary}
    return found


def run(
    config: TrainConfig,
    path: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    start: nn.Module | None = None,
    tokenizer: Tokenizer | None = None,
) -> str:
    """Train in a directory, and return why it ended: finished, stopped, early or diverged.

    A model to start from and a tokenizer that were given as objects are kept in the run, so that it can be resumed.
    """
    place = Place(path)
    keep_memory()

    def prepared() -> Work:
        if not resume and start is not None:
            save(start, place.start, tokenizer=tokenizer, layout="headway")
        if not resume and tokenizer is not None:
            save_whole(tokenizer, place.tokenizer)
        return prepare(config, place, say)

    with _world(config) as world:
        check_shares(config.batch, world.data_size, config.accumulate)
        say = _say if world.first else _nothing
        # Processes that torchrun started again go on with the run that they had begun.
        resume = resume or (world.again and world.share(began_here(place)))
        with opened(place, config, world, resume=resume, overwrite=overwrite):
            board = Board(place.path) if config.tensorboard and world.first else None
            # The first process reads the data and writes the run's own files; the others then find them ready.
            work = first_alone(world, prepared) or prepare(config, place, say)
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
    model = build(work.model.config).eval()
    with torch.no_grad():
        for name, tensor in (*parts_of(model).items(), *model.named_buffers()):
            tensor.copy_(weights[name])
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
