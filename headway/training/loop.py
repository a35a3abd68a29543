"""The loop: batches -> losses -> gradients -> weights, with a look at held-out data and a checkpoint now and then.

It is a generator of events, and whoever runs it decides what to show; nothing is called back. The model rests while an
event is looked at: after a validation it stands in evaluation mode, with averaged weights where the run keeps them.
"""

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from headway.config.run_files import METRICS, RunFiles, read_rows
from headway.config.train import TrainConfig
from headway.data.batch import Batch
from headway.data.files import write_json
from headway.data.hashes import BackgroundCheck
from headway.data.loader import Loader, Order, check_shares
from headway.training import checkpoint
from headway.training.distributed import World
from headway.training.divergence import explain_nonfinite
from headway.training.memory_watch import MemoryWatch
from headway.training.metrics import Metrics
from headway.training.objectives import TrainingSetup
from headway.training.optim import factor_at
from headway.training.trainer import StepResult, Trainer, TrainerState, evaluate


@dataclass(frozen=True)
class TrainingEvent:
    """Something that happened: train, validation, checkpoint, end; the row is as in metrics.jsonl."""

    kind: str
    row: dict[str, Any]


class TrainingLoop:
    """One run, from its first step or from its newest checkpoint; `events` is the loop."""

    def __init__(
        self,
        work: TrainingSetup,
        place: RunFiles,
        world: World,
        *,
        resume: bool = False,
        check: BackgroundCheck | None = None,
    ) -> None:
        check_shares(work.config.batch, world.data_size, work.config.accumulate)
        self.place, self.world, self.check = place, world, check or BackgroundCheck()
        self.trainer = Trainer(work, world)
        self.notes = tuple(self._resume()) if resume else ()
        until = self.trainer.facts.step if resume else None
        self.metrics = Metrics(place.path, until=until, silent=not world.first)
        self.notes += self.metrics.notes

    def _resume(self) -> Iterator[str]:
        found = checkpoint.newest(self.place.checkpoints, self.world, check_facts=TrainerState.of)
        if found.path is None and found.notes:
            raise ValueError(
                f"{self.place.path} has no checkpoint to go on from: {found.notes[0]}: put it back from a copy, or "
                "begin again with --overwrite"
            )
        yield from found.notes
        if found.path is None:
            rows = [row for _, row in read_rows(self.place.metrics) if row and row["kind"] == "checkpoint"]
            if self.world.share(bool(rows)):
                raise ValueError(
                    f"{self.place.path} has no checkpoint to go on from, and {METRICS} says that some were saved: put "
                    "one back from a copy, or begin again with --overwrite"
                )
            yield f"{self.place.path} has no checkpoint yet: it begins again from the first step"
            return
        self.trainer.load(found.path)
        if self.world.first:
            # Damaged ones that are newer would be taken for the newest when old ones are removed.
            checkpoint.forget_after(self.place.checkpoints, found.path)
        yield f"goes on after step {self.trainer.facts.step:,}, from {found.path.name}"
        if self.trainer.facts.data != self.trainer.work.identity:
            frozen = not all(one.requires_grad for one in self.trainer.learner.parameters())
            what = "data, tokenizer or frozen weights have" if frozen else "data or tokenizer has"
            yield f"not the run that was saved: its {what} changed since"

    def events(self) -> Iterator[TrainingEvent]:
        """Until the last step, a signal, an early end, a loss that is no number, or data or memory that is gone.

        An event is written to metrics.jsonl after it was looked at: whoever looks may add to its row.
        """
        work = self.trainer.work
        c, world = work.config, self.world
        order = Order(len(work.train), seed=c.seed, sizes=work.train.sizes, batch=c.batch)
        feed = Loader(work.train, order, c.batch, c.accumulate, world.data_rank, world.data_size)
        try:
            with stop_on_signal() as wish:
                for event in _Steps(self.trainer, self.place, feed, wish, self.metrics, self.check).steps():
                    yield event
                    self.metrics.write(event.kind, event.row)
        finally:
            self.metrics.close()


@dataclass
class StopRequest:
    """Whether somebody wants the run to stop, and by which signal."""

    name: str = ""

    def __bool__(self) -> bool:
        return bool(self.name)


@dataclass
class _Steps:
    trainer: Trainer
    place: RunFiles
    feed: Loader
    wish: StopRequest
    metrics: Metrics
    check: BackgroundCheck
    memory: MemoryWatch = field(default_factory=MemoryWatch)
    problem: str | None = None  # why it cannot go on, in this process
    stopped: bool = False  # some process was asked to stop, or cannot go on

    @property
    def config(self) -> TrainConfig:
        return self.trainer.work.config

    def steps(self) -> Iterator[TrainingEvent]:
        facts, c = self.trainer.facts, self.config
        since, before = time.perf_counter(), facts.seconds
        if self._patience_is_over():
            yield from self._end("early")
            return
        steps = self.feed.steps(facts.step, c.steps)
        batches = self._fetched(steps)
        while not self._has_to_stop() and batches is not None:
            taken = self.trainer.learn(batches, factor_at(c.schedule, facts.step, c.steps))
            if not math.isfinite(taken.norm):
                yield from self._end_diverged(
                    explain_nonfinite(taken.losses, taken.norm, self.trainer.learner.model), last=True
                )
                return
            facts.step += 1
            facts.tokens += taken.tokens
            facts.seconds = before + time.perf_counter() - since
            yield from self._log(taken)
            if self.trainer.watch.climbs(taken.loss):
                yield from self._end_diverged("the loss climbs far above its lowest values", last=False)
                return
            yield from self._validate_and_save()
            if self._patience_is_over():
                yield from self._end("early")
                return
            self.problem = self.problem or self.memory.problem() or self.check.problem
            batches = self._fetched(steps)
        yield from self._end_after_steps()

    def _fetched(self, steps: Iterator[list[Batch]]) -> list[Batch] | None:
        """The batches of the next step; None after the last one, or where the data cannot be read any more."""
        try:
            return next(steps, None)
        except (OSError, ValueError) as error:
            self.problem = self.problem or str(error)
            return None

    def _has_to_stop(self) -> bool:
        """Whether any process was asked to stop or cannot go on; all of them then know, at the same step."""
        self.stopped = self.trainer.world.agree(bool(self.wish) or self.problem is not None)
        return self.stopped

    def _check_fails(self) -> bool:
        """Whether data that is still being hashed after the last step turns out to have changed."""
        self.problem = self.problem or self.check.wait()
        return self.trainer.world.agree(self.problem is not None)

    def _end_after_steps(self) -> Iterator[TrainingEvent]:
        """The state is kept; what went wrong in any process is said."""
        if not self.stopped and not self._check_fails():
            yield from self._end("finished")
            return
        problem = next((text for text in self.trainer.world.gather(self.problem) if text), None)
        if problem is None:
            yield from self._end("stopped")
            return
        step = self.trainer.facts.step
        text = f"{problem}; the state of step {step:,} is kept, and --resume goes on from it"
        yield from self._end("failed", diagnosis=text)

    def _log(self, taken: StepResult) -> Iterator[TrainingEvent]:
        """A line of the log every few steps, of means since the line before."""
        facts, meter = self.trainer.facts, self.trainer.meter
        parts = {} if list(taken.losses) == ["loss"] else taken.losses
        for name, value in {"loss": taken.loss, "norm": taken.norm, **parts}.items():
            meter.add({name: value, f"{name}/count": 1.0})
        if facts.step % self.config.log_every == 0 or facts.step == self.config.steps:
            sums = meter.take()
            means = {name: value / sums[f"{name}/count"] for name, value in sums.items() if "/" not in name}
            waited = {"waited": round(self.feed.waited, 4)}
            yield self._event("train", means | {"rate": taken.rate, "tokens": facts.tokens} | waited)

    def _validate_and_save(self) -> Iterator[TrainingEvent]:
        """Validation and checkpoints, each in its own rhythm; the last step has both."""
        step, c = self.trainer.facts.step, self.config
        last, better = step == c.steps, False
        if self.trainer.work.validation is not None and (step % c.evaluate_every == 0 or last):
            try:
                better = yield from self._validate()
            except (OSError, ValueError) as error:
                if self.trainer.world.size > 1:  # the others wait for this one's results
                    raise
                self.trainer.learner.train()
                self.problem = str(error)
        if better or last or step % c.save_every == 0:
            yield self._save(better)

    def _validate(self) -> Iterator[TrainingEvent]:
        trainer, facts, c = self.trainer, self.trainer.facts, self.config
        assert trainer.work.validation is not None
        trainer.learner.eval()
        with trainer.averaged():
            losses, shares = evaluate(
                trainer.module, trainer.work.validation, batch=c.batch // c.accumulate, world=trainer.world,
                limit=c.evaluate_batches,
            )  # fmt: skip
            row = _row(trainer.work, losses, shares)
            # A loss that is no number is never the best: no later one would be below it.
            better = math.isfinite(row["loss"]) and (facts.best is None or row["loss"] < facts.best)
            facts.waiting = 0 if better else facts.waiting + 1
            if better:
                facts.best, facts.best_step = row["loss"], facts.step
            yield self._event("validation", row)
        trainer.learner.train()
        return better

    def _save(self, better: bool) -> TrainingEvent:
        trainer, facts = self.trainer, self.trainer.facts
        self.metrics.sync()
        path = trainer.save(self.place)
        if trainer.world.first:
            if better:
                write_json(self.place.checkpoints / "best.json", {"step": facts.step, "loss": facts.best})
            best = self.place.checkpoint(facts.best_step) if facts.best_step else None
            checkpoint.prune(self.place.checkpoints, self.config.keep, best)
        return self._event("checkpoint", {"path": str(path.relative_to(self.place.path)), "best": better})

    def _patience_is_over(self) -> bool:
        return bool(self.config.patience) and self.trainer.facts.waiting >= self.config.patience

    def _end(self, reason: str, **more: str) -> Iterator[TrainingEvent]:
        if reason != "finished" and not self.place.checkpoint(self.trainer.facts.step).exists():
            yield self._save(False)
        yield self._event("end", {"reason": reason, **more})

    def _end_diverged(self, why: str, *, last: bool) -> Iterator[TrainingEvent]:
        """Keep the last good state: the one before this step, or where the weights have gone astray, an older one."""
        facts, kept = self.trainer.facts, self.place.checkpoints
        if last and not self.place.checkpoint(facts.step).exists():
            yield self._save(False)
        where = f"the last good state is kept, that of step {facts.step:,}" if last else f"older states are in {kept}"
        advice = "try a lower optim.rate, a longer schedule.warmup or a smaller optim.clip"
        if self.config.dtype == "bfloat16":
            advice += ", or dtype float32"
        text = f"step {facts.step + 1:,}: {why}; {where}; {advice}"
        yield self._event("end", {"reason": "diverged", "diagnosis": text})

    def _event(self, kind: str, row: dict[str, Any]) -> TrainingEvent:
        facts = self.trainer.facts
        return TrainingEvent(kind, {"step": facts.step, **row, "seconds": round(facts.seconds, 3)})


def _row(work: TrainingSetup, losses: dict[str, float], shares: dict[str, float]) -> dict[str, float]:
    """The line of a validation: the loss that training lowers, what it is made of, and shares of right answers."""
    row = {"loss": sum(work.weights.get(name, 1.0) * value for name, value in losses.items())}
    row |= {name: value for name, value in losses.items() if name != "loss"}
    row |= {"accuracy" if name == "loss" else f"{name}_accuracy": value for name, value in shares.items()}
    return row | work.measures(row)


SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Inside, the first signal is remembered; a second Ctrl-C interrupts at once, as usual."""
    wish = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield wish  # signals reach the main thread alone
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def remember(number: int, frame: FrameType | None) -> None:
        if wish and number == signal.SIGINT:
            raise KeyboardInterrupt
        wish.name = signal.Signals(number).name

    for number in SIGNALS:
        signal.signal(number, remember)
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
