"""A training run: prepare, train, show progress, write samples, export, report."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.app.progress import Progress, TensorBoard
from headway.app.run_directory import is_same_launch, one_writer, rank_zero_first, run_directory
from headway.app.run_hashes import verify_run, write_run_hashes
from headway.app.training_cost import TrainingCost
from headway.config.base import IGNORED
from headway.config.layers import stacks_of
from headway.config.run_files import RunFiles
from headway.config.size_limits import check_room
from headway.config.train import TrainConfig
from headway.data.hashes import BackgroundCheck
from headway.data.loader import check_shares
from headway.data.publish import replacing
from headway.data.tokenizer import Tokenizer
from headway.decoding import Request, generate
from headway.hub import save
from headway.hub.adapter import write_adapter
from headway.hub.hashes import write_hashes
from headway.hub.parts import parts_of
from headway.models import build, parameters
from headway.models.lora import trainable
from headway.training import checkpoint
from headway.training.distributed import World, join, machine
from headway.training.loop import TrainingEvent, TrainingLoop
from headway.training.objectives import TrainingSetup
from headway.training.parallel import whole
from headway.training.tasks import prepare
from headway.training.tasks.common import save_whole
from headway.training.trainer import keep_memory

PROMPT = 16  # tokens of a held-out text to go on from
TOKENS = 120  # that are written


def run(
    config: TrainConfig,
    path: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    start: nn.Module | None = None,
    tokenizer: Tokenizer | None = None,
) -> str:
    """Train in a directory, and return why it ended: finished, stopped, early, failed or diverged.

    A model to start from and a tokenizer that were given as objects are kept in the run, so that it can be resumed.
    """
    place = RunFiles(path)
    keep_memory()

    def prepared() -> TrainingSetup:
        if not resume and start is not None:
            _save_start(start, place, tokenizer, adapters=config.lora.rank > 0)
        if not resume and tokenizer is not None:
            save_whole(tokenizer, place.tokenizer)
        return prepare(config, place, say)

    with _world(config) as world, one_writer(place, world):
        check_shares(config.batch, world.data_size, config.accumulate)
        say = _say if world.first else _nothing
        # Processes that torchrun started again go on with the run that they had begun.
        resume = resume or (world.again and world.share(is_same_launch(place)))
        with run_directory(place, config, world, resume=resume, overwrite=overwrite):
            board = TensorBoard(place.path) if config.tensorboard and world.first else None
            # The first process reads the data and writes the run's own files; the others then find them ready.
            left = (rank_zero_first(world, lambda: verify_run(place, config, say)) or {}) if resume else {}
            work = rank_zero_first(world, prepared) or prepare(config, place, say)
            check_fits(work, world.data_size)
            left |= work.unverified if world.first else {}
            if left:
                size = sum(one.bytes for one in left.values()) / 1e9
                say(f"verifies {len(left):,} files ({size:.1f} GB) by their hashes while it trains")
            run = TrainingLoop(work, place, world, resume=resume, check=BackgroundCheck(left))
            rank_zero_first(world, lambda: write_run_hashes(place, config))
        for note in run.notes:
            say(note)
        return _follow(run, work, place, world, board, TrainingCost(run, work, place, say))


def _save_start(start: Any, place: RunFiles, tokenizer: Tokenizer | None, *, adapters: bool) -> None:
    """In headway's own layout, which says every option; adapters are named after the family's, where that says all."""
    dropout = any(block.dropout for stack in stacks_of(start.config).values() for block in stack.pattern)
    if adapters and not dropout:
        try:
            save(start, place.start, tokenizer=tokenizer)
            return
        except ValueError:  # the family has no word for this model
            pass
    save(start, place.start, tokenizer=tokenizer, layout="headway")


@dataclass(frozen=True)
class DryRun:
    """What would be trained."""

    task: str
    kind: str
    parameters: int
    steps: int
    batch: int
    passes: float  # over the training data
    examples: int
    held_out: int

    def __str__(self) -> str:
        return (
            f"{self.task}: a {self.kind} model of {self.parameters:,} parameters, {self.steps:,} steps of {self.batch} "
            f"examples ({self.passes:.1f} passes over {self.examples:,}), {self.held_out:,} held out"
        )


def dry_run(config: TrainConfig) -> DryRun:
    """Read the data, build the model, and keep nothing."""
    with TemporaryDirectory() as made:
        work = prepare(config, RunFiles(Path(made)), _say)
    check_fits(work, processes=1)
    held_out = 0 if work.validation is None else len(work.validation)
    passes, kind = config.steps * config.batch / len(work.train), work.model.config.kind_or_name()
    return DryRun(
        config.task, kind, parameters(work.model), config.steps, config.batch, passes, len(work.train), held_out
    )


def check_fits(work: TrainingSetup, processes: int) -> None:
    """Refuse what this machine's memory cannot hold: the optimiser's state, or the least that a batch takes.

    Gradients and two moments of AdamW beside the weights; of a batch its tokens, and the outputs of all layers.
    """
    config = work.config
    if processes == 1:
        check_room(trainable(work.model), 12, "what AdamW keeps beside the weights", "parameters")
    wide = sum(stack.layers * stack.block.width for stack in stacks_of(work.model.config).values())
    length = config.length if config.task == "language" else 1  # other examples may be shorter than the longest
    part = -(-config.batch // (config.accumulate * processes))
    check_room(part, length * (16 + 4 * wide), f"a batch of {part:,} examples", "examples")


def _follow(
    run: TrainingLoop, work: TrainingSetup, place: RunFiles, world: World, board: TensorBoard | None, cost: TrainingCost
) -> str:
    reason = "finished"
    start, count = run.trainer.facts.step, parameters(work.model)
    if not start:
        time = datetime.now(UTC).isoformat(timespec="seconds")
        run.metrics.write(
            "start", {"time": time, "run": place.path.name, "parameters": count, "machine": machine(world)}
        )
    with Progress(work.config.steps, start, place.path.name, silent=not world.first) as progress:
        for event in run.events():
            cost.see(event)
            found = _samples(run, work, event) if event.kind == "validation" and world.size == 1 else []
            _show(event, progress)
            for one in found:
                progress.sample(one["prompt"], one["text"])
            if board is not None:
                board.show(event)
            if event.kind == "end":
                reason = event.row["reason"]
            cost.rest()
    cost.close()
    if board is not None:
        board.close()
    if reason in ("finished", "early"):
        export(run, work, place)
        if world.first:
            _look(work, place)
    if world.first and reason != "failed":  # a page takes memory, and that may be what there is none of
        _report(place)
    return reason


def _show(event: TrainingEvent, progress: Progress) -> None:
    if event.kind == "train":
        progress.train(event.row)
    elif event.kind == "validation":
        progress.validation(event.row)
    elif event.kind == "end" and "diagnosis" in event.row:
        progress.note(event.row["diagnosis"])


def _samples(run: TrainingLoop, work: TrainingSetup, event: TrainingEvent) -> list[dict[str, Any]]:
    """Texts that the model writes by now; scores of translations join the event's row."""
    found = list(samples(work, event.row))
    for one in found:
        run.metrics.write("sample", {"step": event.row["step"], **one})
    return found


def export(run: TrainingLoop, work: TrainingSetup, place: RunFiles) -> None:
    """The best weights (the last ones where nothing was held out), as a directory that headway.load reads."""
    trainer, best = run.trainer, place.checkpoint(run.trainer.facts.best_step)
    if trainer.facts.best_step and best.exists():
        kept = {name: tensor for name, tensor in trainer.tensors().items() if not name.startswith("optim/")}
        try:
            checkpoint.load(best, kept, run.world)
        except checkpoint.Damaged as error:
            _say(f"{error}; the last weights are exported instead of the best")
    with trainer.averaged():
        weights = None if run.world.size == 1 else whole(trainer.learner.model)
        if run.world.first:
            if work.config.lora.rank:
                _export_adapter(work, place)
                return
            model = work.model if weights is None else _filled(work, weights)
            kept = save(model.eval(), place.model, tokenizer=work.tokenizer, overwrite=place.model.exists())
            if str(kept):
                _say(f"of {model.origin.title}: {kept}")


def _export_adapter(work: TrainingSetup, place: RunFiles) -> None:
    """The adapters alone, in the layout of the library peft, and the tokenizer beside them."""
    start = str(work.config.model.start)
    base = Path(start).expanduser()
    with replacing(place.model) as whole:
        write_adapter(work.model.eval(), work.config.lora, whole, str(base.resolve()) if base.exists() else start)
        if work.tokenizer is not None:
            work.tokenizer.save(whole)
        write_hashes(whole)


def _filled(work: TrainingSetup, weights: dict[str, Any]) -> Any:
    """A model in one piece, of weights that were put together."""
    model = build(work.model.config).eval()
    with torch.no_grad():
        for name, tensor in (*parts_of(model).items(), *model.named_buffers()):
            tensor.copy_(weights[name])
    model.origin, model.generation_defaults = work.model.origin, work.model.generation_defaults
    return model


@contextmanager
def _world(config: TrainConfig) -> Iterator[World]:
    world = join(config.parallel)
    try:
        yield world
    finally:
        world.leave()


def _look(work: TrainingSetup, place: RunFiles) -> None:
    """What attends to what, for the report; a model without attention has nothing to show."""
    from headway.app.heads import write_heads

    try:
        write_heads(work, place)
    except ValueError as error:
        _say(f"heads: {error}")


def _report(place: RunFiles) -> None:
    from headway.app.report import report

    _say(f"report: {report(place.path)}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _nothing(line: str) -> None:
    pass


def samples(work: TrainingSetup, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A few texts after a validation, the same prompts each time; nothing for models that write none.

    Where translations are to be scored, their chrF and BLEU go into the row.
    """
    if work.validation is None or work.tokenizer is None:
        return
    if work.config.task == "language" and work.config.samples:
        yield from _continued(work)
    if work.config.task == "instruct" and work.config.samples:
        yield from _instructed(work)
    if work.config.task == "seq2seq":
        row |= _scores(work)
        yield from _translated(work, work.config.samples)


def _some(work: TrainingSetup, count: int) -> dict[str, Any]:
    assert work.validation is not None
    rows = np.linspace(0, len(work.validation) - 1, min(count, len(work.validation))).astype(np.int64)
    return work.validation.batch(rows, rows).inputs


def _continued(work: TrainingSetup) -> Iterator[dict[str, Any]]:
    tokens = _some(work, work.config.samples)["tokens"]
    prompts = [tuple(row[: max(1, min(PROMPT, len(row) // 2))]) for row in tokens.tolist()]
    room = max(1, min(TOKENS, work.model.config.length - max(map(len, prompts))))
    requests = [
        Request(prompt=prompt, max_new_tokens=room, temperature=0.8, top_p=0.95, seed=seed)
        for seed, prompt in enumerate(prompts)
    ]
    for prompt, found in zip(prompts, generate(work.model, requests, tokenizer=work.tokenizer), strict=True):
        yield {"prompt": _text(work, prompt), "text": found.text}


def _instructed(work: TrainingSetup) -> Iterator[dict[str, Any]]:
    """Held-out instructions with the likeliest answer, and the one that was wanted."""
    inputs = _some(work, work.config.samples)
    for tokens, targets in zip(inputs["tokens"].tolist(), inputs["targets"].tolist(), strict=True):
        first = next(place for place, target in enumerate(targets) if target != IGNORED)
        wanted = list(takewhile(lambda target: target != IGNORED, targets[first:]))
        prompt, room = tuple(tokens[: first + 1]), min(TOKENS, work.model.config.length - first - 1)
        if room > 0:
            found = generate(work.model, [Request(prompt=prompt, max_new_tokens=room)], tokenizer=work.tokenizer)
            yield {"prompt": _text(work, prompt), "text": found[0].text, "wanted": _text(work, wanted)}


def _translated(work: TrainingSetup, count: int) -> Iterator[dict[str, Any]]:
    """Held-out sources with what the model makes of them, the likeliest token each time, and what was wanted."""
    if not count:
        return
    inputs = _some(work, count)
    kept = zip(inputs["source"].tolist(), inputs["source_keep"].tolist(), strict=True)
    sources = [tuple(token for token, real in zip(*pair, strict=True) if real) for pair in kept]
    most = min(2 * inputs["targets"].shape[1], work.config.length)
    requests = [Request(prompt=source, max_new_tokens=most) for source in sources]
    found = generate(work.model, requests, tokenizer=work.tokenizer)
    for source, result, target in zip(sources, found, inputs["targets"].tolist(), strict=True):
        wanted = _text(work, [token for token in target if token != IGNORED])
        yield {"prompt": _text(work, source), "text": result.text, "wanted": wanted}


def _scores(work: TrainingSetup) -> dict[str, float]:
    """chrF and BLEU of some held-out pairs; nothing where nobody asked, or where sacrebleu is not installed."""
    if not work.config.scored or find_spec("sacrebleu") is None:
        return {}
    from headway.app.metrics import corpus_scores

    pairs = list(_translated(work, work.config.scored))
    written = [" ".join(one["text"].splitlines()) for one in pairs]
    return corpus_scores(import_module("sacrebleu"), written, [one["wanted"] for one in pairs])[0]


def _text(work: TrainingSetup, tokens: Any) -> str:
    assert work.tokenizer is not None
    return work.tokenizer.decode(list(tokens))
