"""How long the cores wait for data while a small GPT trains: batches are cut from memory-mapped tokens of real text.

The thread that makes them runs beside the step, so the row has two figures: how long a step stood still for its batch,
and (as its note) how long making one takes, which the other cores lose where none is idle.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from headway.bench.row import Row, Target, counted
from headway.bench.run import Run
from headway.bench.sizes import SIZES, Size
from headway.bench.steps import headway_step
from headway.config.train import TokenizerConfig
from headway.data.chunks import Document
from headway.data.embedded import python
from headway.data.learn import learn
from headway.data.order import Order
from headway.data.shards import build as build_shards
from headway.data.windows import Windows
from headway.models import build
from headway.training.feed import Feed

TARGET = Target("the cores idle below 2 % of the time", at_most=2.0, ratio=False)
STEPS = 100


def feeding(run: Run) -> Iterator[Row]:
    """The share of the time that training waits for its next batch."""
    size = SIZES["characters"]
    with TemporaryDirectory() as place:
        yield waiting(size, Path(place), steps=10 if run.quick else STEPS)


def waiting(size: Size, place: Path, *, steps: int) -> Row:
    """One row: real steps on real text, after a few that warm up."""
    feed, vocabulary = feed_of(size, place)
    step = headway_step(build(replace(size, vocabulary=vocabulary).config))
    for batches in feed.steps(0, 3):
        step(batches[0].inputs)
    feed.waited, begun = 0.0, time.perf_counter()
    for batches in feed.steps(3, 3 + steps):
        step(batches[0].inputs)
    passed = time.perf_counter() - begun
    row = Row("train", f"{size.name}, waiting for data", size.shape, "float32", unit="%")
    making = f"making a batch takes {100 * seconds_of_a_batch(feed) * steps / passed:.2g} % of a step"
    return counted(replace(row, note=making), 100 * feed.waited / passed, target=TARGET)


def feed_of(size: Size, place: Path) -> tuple[Feed, int]:
    """Windows over the Python reference, in characters, and how many characters there are."""
    texts = [Document(where, fields["text"]) for where, fields in python()]
    tokenizer = learn((text.text for text in texts), TokenizerConfig(kind="character"), task="language")
    examples = Windows(build_shards(texts, tokenizer, place, identity="the Python reference").view(), size.length)
    return Feed(examples, Order(len(examples), seed=0), size.batch), tokenizer.size


def seconds_of_a_batch(feed: Feed, *, count: int = 50) -> float:
    begun = time.perf_counter()
    for step in range(1000, 1000 + count):
        feed.step(step)
    return (time.perf_counter() - begun) / count
