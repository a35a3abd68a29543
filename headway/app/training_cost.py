"""The cost of a run: predicted before the first step, and compared with what was measured after the last.

Nothing here is worth a run: whatever goes wrong with a prediction is reported in one line, and the training goes on.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from headway.app.cost_section import FILE
from headway.app.step_cost import StepPrice, beside_second, module_step_price, step_price, typical
from headway.config.run_files import RunFiles
from headway.cost.op_tree import Line
from headway.cost.time.machine import Machine, stored
from headway.data.files import write_json
from headway.models.own_module import OwnModule
from headway.models.quantize import weight_bytes
from headway.render import duration, short, step_time
from headway.sizes import Cost
from headway.training.distributed import World
from headway.training.loop import TrainingEvent, TrainingLoop
from headway.training.objectives import TrainingSetup


@dataclass(frozen=True)
class Measured:
    """Of the steps that were watched: median seconds of one, tokens (or images) of one, bytes at their peak.

    memory: what the process took beyond what it held before the first step, with the weights (which it held);
    process: all of it, code and data too.
    """

    steps: int
    seconds: float
    tokens: float
    memory: int | None = None
    process: int | None = None


class StepClock:
    """Looks at the clock when an event comes and when its handling ends; between two lines of training lie steps alone.

    Validations, samples and checkpoints come as events of their own, and their time is in no step.
    """

    def __init__(self, step: int, tokens: int, *, held: int = 0) -> None:
        """`held`: bytes of a step's peak that are held already, before the first."""
        self._step, self._first, self._held = step, (step, tokens), held
        self._last = self._first
        self._laps: list[tuple[int, float]] = []  # steps, seconds
        self._before = _forget_peak()
        self._since = time.perf_counter()

    def see(self, event: TrainingEvent) -> None:
        """An event has come."""
        seconds, steps = time.perf_counter() - self._since, event.row["step"] - self._step
        if event.kind == "train":
            if steps > 0:
                self._laps.append((steps, seconds))
            self._last = event.row["step"], event.row["tokens"]
        self._step = event.row["step"]

    def rest(self) -> None:
        """It has been looked at: from here on the loop works again."""
        self._since = time.perf_counter()

    def measured(self) -> Measured | None:
        """None where no line of training came."""
        (first, before), (last, tokens) = self._first, self._last
        if not self._laps or last <= first:
            return None
        peak = _peak()
        memory = None if peak is None or self._before is None else max(0, peak - self._before) + self._held
        each = median(seconds / steps for steps, seconds in self._laps)
        return Measured(last - first, each, (tokens - before) / (last - first), memory, peak)


def _forget_peak() -> int | None:
    """Bytes that the process holds now; where the system can, its peak is counted from here on. None: it cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _status("VmRSS")


def _peak() -> int | None:
    """The most bytes that the process held since then."""
    found = _status("VmHWM")
    if found is not None:
        return found
    import resource  # which not every system has

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def _status(name: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), None)


MOST = "in use at most"


@dataclass(frozen=True)
class RunPrice:
    """What one process computes in a step; `tokens` (or images) are read by all of them."""

    step: StepPrice
    tokens: int
    unit: str
    steps: int  # that are still to come
    machine: Machine | None
    held: dict[str, int]  # bytes of a step, by what they are for
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        return self.step.seconds

    @property
    def memory(self) -> int:
        """Bytes in use at most."""
        return self.held[MOST]

    @property
    def peak(self) -> float | None:
        """FLOP/s of the machine's fastest product."""
        return None if self.machine is None else self.machine.peak(self.step.setting.dtype)


def price_run(work: TrainingSetup, world: World, *, done: int = 0) -> RunPrice:
    """Of a run that has taken `done` steps; times where the machine was measured."""
    if work.config.freeze:
        raise ValueError("a step of which parts of the model are frozen has none yet")
    c, notes = work.config, list(_notes(work, world))
    machine, why = stored() if world.device.type == "cpu" and world.tensor_size == 1 else (None, "")
    setting, tokens = typical(work, world)
    setting = replace(setting, lora=c.lora if c.lora.rank else None)
    options = {"optimiser": c.optim.kind, "parts": c.accumulate, "machine": machine}
    if isinstance(work.model, OwnModule):
        step = module_step_price(work.model, setting, **options)
    else:
        step = step_price(work.model.config, setting, **options)
        if work.reference is not None:
            held = weight_bytes(work.reference, next(work.reference.parameters()).dtype.itemsize)
            step = beside_second(step, work.reference.config, held, machine)
        elif c.task == "dpo":  # the model without its adapters
            step = beside_second(step, work.model.config, 0, machine)
    unit = "images" if c.task == "images" else "tokens"
    held = {**step.kept, MOST: step.memory}
    return RunPrice(step, tokens, unit, c.steps - done, machine, held, (*notes, *([why] if why else [])))


def _notes(work: TrainingSetup, world: World) -> Iterator[str]:
    if world.device.type != "cpu":
        yield "no predicted times: they are known for processors alone"
    if world.tensor_size > 1:
        yield f"{world.tensor_size} processes share each layer: the price is that of all of them, without times"
    elif world.size > 1:
        yield f"the price is of one of {world.size} processes, without what they tell each other"
    if work.config.compile:
        yield "predicted times are of a model that is not compiled"


def compared(price: RunPrice, found: Measured) -> list[tuple[str, int | float | None, int | float | None, str]]:
    """(what, predicted, measured, a remark) for each thing that was both said and seen."""
    flops, seconds = price.step.flops, price.seconds
    reached = flops / found.seconds
    share = "" if price.peak is None else f"{100 * reached / price.peak:.0f} % of the fastest product here"
    times = "" if seconds is None else f"{found.seconds / seconds:.2f} times what was expected"
    process = "" if found.process is None else f"the process held {short(found.process)}B"
    return [
        ("seconds of a step", seconds, found.seconds, times),
        ("memory of a step", price.memory, found.memory, process),
        (f"{price.unit} per second", _over(price.tokens, seconds), found.tokens / found.seconds, ""),
        ("FLOP/s in products", _over(flops, seconds), reached, share),
    ]


def _over(value: int, seconds: float | None) -> float | None:
    return None if seconds is None else value / seconds


COLUMNS = ("what", "predicted", "measured", "remark")


def opening(price: RunPrice) -> list[str]:
    """The price in a few lines, for a terminal."""
    step, cost = price.step, price.step.cost
    besides = (
        f"{short(step.flops)}FLOP in matrix products ({short(2 * cost.useful)} of use), {short(cost.other)} besides"
    )
    rows = [("parameters", f"{step.parameters:,}"), ("a step", besides)]
    rows.append(("", f"{short(price.memory)}B in use at most ({_listed_bytes(price.held)})"))
    if step.seconds is not None:
        each = f"{step_time(step.seconds)} expected, {price.tokens / step.seconds:,.0f} {price.unit}/s"
        rows += [("", each), (f"{price.steps:,} steps", _whole(price, step.seconds))]
    else:
        rows.append((f"{price.steps:,} steps", f"{short(price.steps * step.flops)}FLOP"))
    return ["price", *(f"  {name:<14}{text}" for name, text in rows), *(f"  {note}" for note in price.notes)]


def _listed_bytes(held: dict[str, int]) -> str:
    """All but the last, which is said before."""
    return ", ".join(f"{name} {short(size)}" for name, size in list(held.items())[:-1])


def _whole(price: RunPrice, seconds: float) -> str:
    time = price.steps * seconds
    shown = step_time(time) if time < 10 else duration(time)
    return f"{short(price.steps * price.step.flops)}FLOP, {shown} and the validations"


def closing(price: RunPrice, found: Measured) -> list[str]:
    """Predicted beside measured, for a terminal."""
    rows = [
        (what, "–" if said is None else _shown(what, said), "–" if seen is None else _shown(what, seen), remark)
        for what, said, seen, remark in compared(price, found)
    ]
    head = f"{'cost':<24}{'predicted':>12}{'measured':>12}"
    return [head, *(f"  {what:<22}{said:>12}{seen:>12}  {remark}".rstrip() for what, said, seen, remark in rows)]


def _shown(what: str, value: int | float) -> str:
    if what.startswith("seconds"):
        return step_time(value)
    return f"{short(value)}B" if what.startswith("memory") else short(value)


def write(place: RunFiles, price: RunPrice, found: Measured | None = None) -> Path:
    """cost.json of a run, whole."""
    path = place.path / FILE
    write_json(path, as_json(price, found))
    return path


def as_json(price: RunPrice, found: Measured | None) -> dict[str, Any]:
    step = price.step
    rows = None if found is None else [dict(zip(COLUMNS, row, strict=True)) for row in compared(price, found)]
    return {
        "parameters": step.kinds,
        "batch": {"rows": step.setting.batch, "length": step.setting.length, "parts": step.parts},
        price.unit: price.tokens,
        "seconds": step.seconds,
        "memory": price.held,
        "phases": {name: _cost(cost) for name, cost in _phases(step).items()},
        "machine": None if price.machine is None else str(price.machine),
        "operations": [_operation(line, seconds) for line, seconds in step.operations],
        "compared": rows,
        "notes": list(price.notes),
    }


def _phases(step: StepPrice) -> dict[str, Cost]:
    return {"forward": step.forward, "backward": step.backward, "step": step.cost}


def _cost(cost: Cost) -> dict[str, int | None]:
    executed = None if cost.executed is None else 2 * cost.executed
    return {
        "flops": cost.flops,
        "useful_flops": cost.useful_flops,
        "executed_flops": executed,
        "other_flops": cost.other,
    }


def _operation(line: Line, seconds: float | None) -> dict[str, Any]:
    one = line.operation
    flops, other = line.runs * one.forward.flops, line.runs * one.forward.other
    return {
        "path": line.path, "kind": one.kind, "runs": line.runs, "parameters": line.sets * one.parameters,
        "flops": flops, "other_flops": other, "seconds": seconds,
    }  # fmt: skip


Say = Callable[[str], None]


class TrainingCost:
    """Of the first process; the others have none."""

    def __init__(self, run: TrainingLoop, work: TrainingSetup, place: RunFiles, say: Say) -> None:
        self._place, self._say = place, say
        self._price: RunPrice | None = None
        self._watch: StepClock | None = None
        if run.world.first:
            with self._careful():
                self._open(run, work)

    def _open(self, run: TrainingLoop, work: TrainingSetup) -> None:
        facts = run.trainer.facts
        price = price_run(work, run.world, done=facts.step)
        write(self._place, price)
        for line in opening(price):
            self._say(line)
        self._price, self._watch = price, StepClock(facts.step, facts.tokens, held=_bytes_before(run))

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


def _bytes_before(run: TrainingLoop) -> int:
    """Bytes in memory before the first step: the weights; of a run that goes on, the optimiser's state too."""
    kept = run.trainer.tensors()
    fresh = run.trainer.facts.step == 0
    return sum(one.held.nbytes for name, one in kept.items() if not fresh or name.startswith("model/"))
