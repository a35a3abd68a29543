"""A run's price and what came of it: said before the first step, and again, beside what was measured, after the last.

Nothing here is worth a run: whatever goes wrong with a price is said in one line, and the training goes on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headway.app.price.measured import Watch
from headway.app.price.run import RunPrice, price_run
from headway.app.price.show import closing, opening, write
from headway.config.run_files import RunFiles
from headway.training.loop import TrainingEvent, TrainingLoop
from headway.training.objectives import TrainingSetup

Say = Callable[[str], None]


class Bill:
    """Of the first process; the others have none."""

    def __init__(self, run: TrainingLoop, work: TrainingSetup, place: RunFiles, say: Say) -> None:
        self._place, self._say = place, say
        self._price: RunPrice | None = None
        self._watch: Watch | None = None
        if run.world.first:
            with self._careful():
                self._open(run, work)

    def _open(self, run: TrainingLoop, work: TrainingSetup) -> None:
        facts = run.training.facts
        price = price_run(work, run.world, done=facts.step)
        write(self._place, price)
        for line in opening(price):
            self._say(line)
        self._price, self._watch = price, Watch(facts.step, facts.tokens, held=_held(run))

    def see(self, event: TrainingEvent) -> None:
        """Before an event is looked at."""
        if self._watch is not None:
            self._watch.see(event)

    def rest(self) -> None:
        """After it was."""
        if self._watch is not None:
            self._watch.rest()

    def close(self) -> None:
        """The end: predicted beside measured, in the terminal and in the run's directory."""
        found = None if self._watch is None else self._watch.measured()
        if self._price is None or found is None:
            return
        with self._careful():
            write(self._place, self._price, found)
            for line in closing(self._price, found):
                self._say(line)

    @contextmanager
    def _careful(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._say(f"no price: {' '.join(str(error).split()) or type(error).__name__}")


def _held(run: TrainingLoop) -> int:
    """Bytes in memory before the first step: the weights; of a run that goes on, the optimiser's state too."""
    kept = run.training.tensors()
    fresh = run.training.facts.step == 0
    return sum(one.held.nbytes for name, one in kept.items() if not fresh or name.startswith("model/"))
