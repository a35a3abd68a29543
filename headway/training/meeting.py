"""How processes find each other after a restart.

torchrun keeps one table of addresses for all attempts (torch 2.13), so a process that is started again may read where
another one was before it died. Here the processes of one attempt agree on a word of their own first, and everything
else they write is put under it.
"""

import time
from typing import Protocol, runtime_checkable
from uuid import uuid4

PAUSE = 0.02


@runtime_checkable
class Table(Protocol):
    """What is needed of torch's Store."""

    def set(self, key: str, value: str, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def check(self, keys: list[str], /) -> bool: ...


def meet(table: Table, rank: int, size: int, *, seconds: float = 600.0) -> str:
    """A word that the `size` processes of this attempt share, and no process before them.

    Each of the others says hello with a word just made up, and believes only an answer to that word; the first one
    answers whatever it hears, what is left of dead processes too, until all the others have called it by its own.
    """
    word = uuid4().hex
    if rank:
        table.set(f"hello/{rank}", word)
        found = table.get(f"answer/{rank}/{word}").decode()
        table.set(f"here/{found}/{rank}", "yes")
        return found
    absent, until = list(range(1, size)), time.monotonic() + seconds
    while absent := [other for other in absent if not table.check([f"here/{word}/{other}"])]:
        if time.monotonic() > until:
            raise TimeoutError(f"process {absent[0]} of {size} did not come within {seconds:.0f} seconds")
        for other in absent:
            if table.check([f"hello/{other}"]):
                table.set(f"answer/{other}/{table.get(f'hello/{other}').decode()}", word)
        time.sleep(PAUSE)
    return word
