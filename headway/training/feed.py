"""Batches of every step, made one step ahead by a thread of their own, so that no core waits for data."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headway.data.batch import Batch, Examples
from headway.data.order import Order


@dataclass
class Feed:
    """What one process reads: its slice of each step's examples, in `parts` batches.

    Position p of the order belongs to step p // batch, whatever the number of processes and parts; so neither changes
    what is learned.
    """

    examples: Examples
    order: Order
    batch: int  # examples of a step, of all processes
    parts: int = 1
    rank: int = 0
    size: int = 1
    waited: float = 0.0  # seconds that whoever asked had to wait

    def step(self, step: int) -> list[Batch]:
        """The batches of one step."""
        share = self.batch // (self.size * self.parts)
        starts = [self.batch * step + share * (self.rank * self.parts + part) for part in range(self.parts)]
        return [self.examples.batch(*self.order.rows(start, start + share)) for start in starts]

    def steps(self, first: int, last: int) -> Iterator[list[Batch]]:
        """The same for step after step."""
        with ThreadPoolExecutor(1, thread_name_prefix="feed") as ahead:
            coming = ahead.submit(self.step, first)
            for step in range(first, last):
                begun = time.perf_counter()
                found = coming.result()
                self.waited += time.perf_counter() - begun
                if step + 1 < last:
                    coming = ahead.submit(self.step, step + 1)
                yield found


def check_shares(batch: int, size: int, parts: int) -> None:
    """Refuse a batch that cannot be shared out equally."""
    if batch % (size * parts):
        raise ValueError(
            f"batch {batch} cannot be shared by {size} processes of {parts} parts each: choose a multiple of "
            f"{size * parts}"
        )
