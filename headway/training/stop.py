"""Ctrl-C and SIGTERM as a wish: the step under way is finished, the state is saved, and then the run stops."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Wish:
    """Whether somebody wants the run to stop, and by which signal."""

    name: str = ""

    def __bool__(self) -> bool:
        return bool(self.name)


@contextmanager
def wish_to_stop() -> Iterator[Wish]:
    """Inside, the first signal is remembered; a second Ctrl-C interrupts at once, as usual."""
    wish = Wish()
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
