"""How far a training is, on stderr: a live display on a terminal, a line every few seconds in a log.

first  ━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━━━━━━━━  840 of 2,000  42 %  1 min 12 s left
       loss 1.7321 · validation 1.8120 · rate 8.2e-4 · 17,067 tokens/s
"""

import os
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headway.render import duration, number, visible

if TYPE_CHECKING:
    from headway.training.loop import TrainingEvent

PAUSE = 5.0  # seconds between two lines of a log, at first; they become fewer
LONGEST = 30.0
RECENT = 20  # rows over which speed is measured


class _Moment(NamedTuple):
    time: float
    step: int
    tokens: int | None


class Progress:
    """Shows rows of metrics.jsonl as they come; use it in a `with`, or close it.

    Of many processes the first alone shows anything, unless `silent` says otherwise.
    """

    def __init__(self, steps: int, start: int = 0, title: str = "", *, silent: bool | None = None) -> None:
        self.steps, self.step, self.title = steps, start, title
        self.silent = os.environ.get("RANK", "0") != "0" if silent is None else silent
        self.console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=False)
        self.row: Mapping[str, Any] = {}
        self.held: float | None = None
        self._times = deque([_Moment(time.monotonic(), start, None)], maxlen=RECENT)
        self._said, self._pause, self._fresh = float("-inf"), PAUSE, False
        # Asked for colours (FORCE_COLOR), rich takes a file for a terminal; lines that move up have no place in one.
        terminal = sys.stderr.isatty() and self.console.is_terminal and not self.console.is_dumb_terminal
        self._live = self._started() if terminal and not self.silent else None

    def _started(self) -> Live:
        # What is printed to stdout by the way would tear the display, but only where stdout is that terminal.
        both = sys.stdout.isatty()
        live = Live(get_renderable=self._display, console=self.console, refresh_per_second=4, redirect_stdout=both)
        live.start()
        return live

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def train(self, row: Mapping[str, Any]) -> None:
        """A row of the training: step, loss, rate, tokens so far."""
        self.row, self.step, self._fresh = row, row["step"], True
        self._times.append(_Moment(time.monotonic(), self.step, row.get("tokens")))
        if time.monotonic() - self._said >= self._pause:
            self._line()
            self._pause = min(1.3 * self._pause, LONGEST) if self._said > 0 else self._pause

    def validation(self, row: Mapping[str, Any]) -> None:
        """A row of the validation; it stays to be read."""
        self.held, self.step = _float(row.get("loss")), row["step"]
        skipped = ("kind", "step", "seconds", "loss")
        more = [f"{name.replace('_', ' ')} {number(value)}" for name, value in row.items() if name not in skipped]
        self.note(" · ".join([f"step {self.step:,}: validation loss {number(self.held)}", *more]))

    def note(self, text: str) -> None:
        """A line that stays, above the display."""
        if not self.silent:
            self.console.print(Text(visible(text)), soft_wrap=True)

    def sample(self, prompt: str, text: str) -> None:
        """What the model writes by now."""
        if not self.silent:
            shown = Text.assemble((visible(prompt), "bold"), visible(text))
            for place, line in enumerate(shown.split("\n", allow_blank=True)):
                self.console.print(Text.assemble(("  │ " if place else "  ╭ ", "dim"), line), soft_wrap=True)

    def close(self) -> None:
        """Leave the last state to be read; a second time does nothing."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        elif self._fresh:
            self._line()

    def _line(self) -> None:
        """In a log: the state as one line."""
        if self._live is None and not self.silent:
            done = f"{self.step:,} of {self.steps:,} steps"
            self.console.print(" · ".join([done, *self._measures(), *self._left()]), soft_wrap=True)
        self._said, self._fresh = time.monotonic(), False

    def _measures(self) -> list[str]:
        losses = [("loss", _float(self.row.get("loss"))), ("validation", self.held)]
        shown = [f"{name} {_loss(value)}" for name, value in losses if value is not None]
        shown += [f"rate {number(self.row['rate'], digits=3)}"] if "rate" in self.row else []
        _, tokens = self._speed()
        return [*shown, *([f"{tokens:,.0f} tokens/s"] if tokens else [])]

    def _left(self) -> list[str]:
        steps, _ = self._speed()
        return [f"{duration((self.steps - self.step) / steps)} left"] if steps and self.step < self.steps else []

    def _speed(self) -> tuple[float, float]:
        """Steps and tokens per second, lately; 0 before anything is known."""
        return _slope(self._times, "step"), _slope([one for one in self._times if one.tokens is not None], "tokens")

    def _display(self) -> Group:
        bar = ProgressBar(total=max(self.steps, 1), completed=self.step, width=None)
        share = f"{100 * self.step / max(self.steps, 1):.0f} %"
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(no_wrap=True)
        grid.add_column(ratio=1)
        grid.add_column(no_wrap=True, justify="right")
        end = "  ".join([f"{self.step:,} of {self.steps:,}", share, *self._left()])
        grid.add_row(Text(self.title, style="bold"), bar, Text(end))
        below = Text(" · ".join(self._measures()) or "the first steps take a moment", style="dim", overflow="ellipsis")
        below.no_wrap = True
        return Group(grid, below)


class TensorBoard:
    """Event files in `tensorboard/` of a run; without the extra it says how to get it."""

    def __init__(self, directory: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError('TensorBoard is not installed: pip install "headway[tensorboard]"') from None
        self._writer: Any = SummaryWriter(str(directory / "tensorboard"))

    def show(self, event: "TrainingEvent") -> None:
        """Every number of a training or validation line, by its name."""
        if event.kind in ("train", "validation"):
            step = event.row["step"]
            for name, value in event.row.items():
                if name != "step" and isinstance(value, int | float):
                    self._writer.add_scalar(f"{event.kind}/{name}", value, step)

    def close(self) -> None:
        self._writer.close()


def _slope(moments: Sequence[_Moment], name: str) -> float:
    if len(moments) < 2 or moments[-1].time <= moments[0].time:
        return 0.0
    return (getattr(moments[-1], name) - getattr(moments[0], name)) / (moments[-1].time - moments[0].time)


def _loss(value: float) -> str:
    """Always as many digits, so that a number that changes keeps still.

    >>> _loss(1.7), _loss(12345.6)
    ('1.7000', '12,346')
    """
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e3 else number(value)


def _float(value: object) -> float | None:
    """JSON has no NaN, so that it may come as a word."""
    return value if isinstance(value, float) else None if value is None else float(str(value))
