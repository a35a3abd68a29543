"""`headway bench models TARGET ...`: the user's own models and modules, timed side by side.

    forward   one call in eval mode, without gradients
    step      one training step: forward, loss, backward and torch's fused AdamW. The loss is the output's own `.loss`,
              or the mean of the squares of the output
    decode    greedy generation with a cache: half of the length is the prompt, up to 32 tokens are new

All targets get inputs of the same batch and length and take turns, round by round. A ratio is time / time of the first
target, the median over the rounds: below 1 is faster. Peak memory is what a call holds at most beyond what was there
before it, such as weights and the state of the optimiser.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headway.bench.measure import Timing, compare, peak_memory, tensors
from headway.bench.run import Bench, Case
from headway.cost.trace.inputs import inputs_for
from headway.hub.load import load
from headway.models import parameters
from headway.models.language import Language
from headway.models.recurrent import Recurrent
from headway.models.seq2seq import Seq2Seq

LENGTH, NEW = 128, 32  # tokens of an input; tokens generated
RATE = 1e-6  # of the optimiser: any number of steps leaves the weights finite


@dataclass(frozen=True)
class TargetRow:
    """One target in one phase; without figures where it could not run, and `note` says why."""

    target: str
    phase: str
    batch: int
    length: int | None  # None: images
    precision: str
    parameters: int
    milliseconds: float | None = None
    spread: float | None = None  # interquartile range / median
    rate: float | None = None
    unit: str = "tokens/s"
    ratio_to_first: float | None = None
    peak_bytes: int | None = None
    rounds: int = 0
    note: str = ""
    machine: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def measured(self) -> bool:
        return self.milliseconds is not None

    def summary(self) -> str:
        """One line for the progress display."""
        if self.milliseconds is None or self.rate is None:
            return f"{self.target}: not measured, {self.note}"
        return f"{self.target}: {self.milliseconds:.3g} ms, {self.rate:,.0f} {self.unit}, {self.ratio_to_first:.3g} x"


@dataclass(frozen=True)
class Subject:
    """A target as a module, and what it is called with."""

    name: str
    module: nn.Module
    inputs: tuple[Any, ...]
    keywords: dict[str, Any]

    def __call__(self) -> Any:
        return self.module(*self.inputs, **self.keywords)

    @property
    def given(self) -> list[Tensor]:
        return list(tensors([*self.inputs, *self.keywords.values()]))

    @property
    def items(self) -> tuple[int, str]:
        """What one call reads, and the unit of its rate: tokens (or positions of vectors), or images."""
        images = next((one for one in self.given if one.ndim == 4), None)
        if images is not None:
            return len(images), "images/s"
        return sum(one.shape[0] * one.shape[1] for one in self.given), "tokens/s"

    @property
    def precision(self) -> str:
        first = next(self.module.parameters(), torch.empty(0))
        return str(first.dtype).removeprefix("torch.")


Call = Callable[[], object]


def subjects(
    targets: Sequence[str], *, batch: int = 1, length: int | None = None, dtype: str | None = None,
    inputs: str | None = None,
) -> list[Subject]:  # fmt: skip
    """Opens every target; all read the same batch and length. A preset has random weights."""
    modules = {}
    for name in targets:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a preset's weights are random
            modules[_label(name, modules)] = load(name, dtype=dtype).model
    wanted = min([LENGTH, *map(_limit, modules.values())]) if length is None else length
    return [_subject(name, module, batch, wanted, inputs) for name, module in modules.items()]


def _label(name: str, taken: Any) -> str:
    """A target that is named twice is timed twice."""
    return name if name not in taken else f"{name} ({sum(one.split(' (')[0] == name for one in taken) + 1})"


def _limit(module: nn.Module) -> int:
    """The longest text that a module's configuration allows, by the names that are usual."""
    config = getattr(module, "config", None)
    sizes = (getattr(config, name, None) for name in ("length", "limit", "max_position_embeddings", "n_positions"))
    return next((size for size in sizes if isinstance(size, int) and size > 0), LENGTH)


def _subject(name: str, module: nn.Module, batch: int, length: int, shape: str | None) -> Subject:
    given, keywords = inputs_for(module, batch, length, shape=shape)
    tables = [one.num_embeddings for one in module.modules() if isinstance(one, nn.Embedding)]
    draw = torch.Generator().manual_seed(3)
    dtype = next((one.dtype for one in module.parameters()), torch.float32)

    def real(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if value.is_floating_point():
            return torch.randn(value.shape, generator=draw).to(dtype)
        # Below the smallest table, so that every table in the module has the row.
        return torch.randint(0, min(tables, default=2), value.shape, generator=draw)

    found = Subject(name, module, tuple(map(real, given)), {key: real(one) for key, one in keywords.items()})
    try:
        with torch.inference_mode():
            module.eval()
            found()
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise ValueError(
            f"{name} does not run on {', '.join(str(tuple(one.shape)) for one in found.given)}: "
            f"{type(error).__name__}: {first}; --inputs says what it reads, for example tokens or vectors:2,64,8"
        ) from error
    return found


def _forward(subject: Subject) -> Call:
    subject.module.eval()

    def call() -> object:
        with torch.inference_mode():
            return subject()

    return call


def _step(subject: Subject) -> Call | None:
    weights = [one for one in subject.module.parameters() if one.requires_grad]
    if not weights:
        return None
    subject.module.train()
    optimizer = torch.optim.AdamW(weights, lr=RATE, fused=True)

    def call() -> object:
        optimizer.zero_grad()
        loss = _loss(subject())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return call


def _loss(output: Any) -> Tensor:
    own = getattr(output, "loss", None)
    if isinstance(own, Tensor):
        return own
    found = [one.float().square().mean() for one in tensors(output) if one.is_floating_point() and one.requires_grad]
    if not found:
        raise ValueError("its output has no gradient")
    return torch.stack(found).sum()


def _decode(subject: Subject) -> Call | None:
    """Models of headway by their session, others by their own `generate`; None where neither exists."""
    module, text = subject.module.eval(), subject.given[-1]
    if text.is_floating_point():
        return None
    new = new_tokens(text.shape[1])
    prompt = text[:, : text.shape[1] - new]

    def session() -> Any:
        if isinstance(module, Language):
            return module.session(capacity=text.shape[1])
        assert isinstance(module, Seq2Seq | Recurrent)
        return module.session(subject.given[0])

    def ours() -> object:
        with torch.inference_mode():
            begun = session()
            logits = begun.read(prompt)
            for _ in range(new - 1):
                logits = begun.read(logits.argmax(-1, keepdim=True))
            return logits

    def theirs() -> object:
        options = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, "pad_token_id": 0}
        return generate(prompt, attention_mask=torch.ones_like(prompt), **options)

    if isinstance(module, Language | Seq2Seq | Recurrent):
        return ours
    generate: Any = getattr(module, "generate", None)
    return theirs if callable(generate) and getattr(module, "main_input_name", "") == "input_ids" else None


def new_tokens(length: int) -> int:
    """How many of a text's tokens are generated: half of them, at most 32."""
    return max(1, min(NEW, length // 2))


PHASES: dict[str, Callable[[Subject], Call | None]] = {"forward": _forward, "step": _step, "decode": _decode}


def cases(found: Sequence[Subject]) -> dict[str, Case]:
    """One case for each phase, as every work of the bench has them."""
    return {phase: partial(_time, found, phase) for phase in PHASES}


def _time(found: Sequence[Subject], phase: str, run: Bench) -> Iterator[TargetRow]:
    """The rows of one phase; a target that has no such phase gives none."""
    calls = {one.name: call for one in found if (call := PHASES[phase](one)) is not None}
    problems = {name: _problem(call) for name, call in calls.items()}
    running = {name: call for name, call in calls.items() if not problems[name]}
    timings = compare(running, budget=run.seconds, longest=8 * run.seconds) if running else {}
    for one in (one for one in found if one.name in calls):
        row = _row(one, phase, problems[one.name])
        if one.name in timings:
            first = next(iter(timings.values()))
            row = _timed(row, one, timings[one.name], first, peak_memory(running[one.name]).peak)
        yield row


def _row(subject: Subject, phase: str, note: str) -> TargetRow:
    given = subject.given[-1]
    length = given.shape[1] if given.ndim < 4 else None
    sizes = parameters(subject.module)
    return TargetRow(subject.name, phase, given.shape[0], length, subject.precision, sizes, note=note)


def _timed(row: TargetRow, subject: Subject, timing: Timing, first: Timing, peak: int) -> TargetRow:
    items, unit = subject.items
    if row.phase == "decode":
        items, unit = row.batch * new_tokens(row.length or 1), "tokens/s"
    return replace(
        row, milliseconds=1e3 * timing.median, spread=timing.spread, rate=items / timing.median, unit=unit,
        ratio_to_first=timing.over(first).median, peak_bytes=peak, rounds=len(timing.rounds),
    )  # fmt: skip


def _problem(call: Call) -> str:
    """Why a call fails, in a sentence; nothing where it runs."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
    return ""
