"""What a process of a run computes in one part of a step: the batches as they are, padding and all."""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from torch import Tensor

from headway.cost.setting import Setting
from headway.data.batch import IGNORED, Batch
from headway.data.loader import Loader, Order
from headway.training.distributed import World
from headway.training.objectives import TrainingSetup
from headway.training.trainer import READ

LOOKS = 5  # steps whose batches are looked at

Inputs = Mapping[str, Tensor]


def typical(work: TrainingSetup, world: World) -> tuple[Setting, int]:
    """The setting of a typical batch of this process, and the tokens (or images) that all processes read in a step.

    Batches of texts differ in length: of a few from all over the run the median one stands for all.
    """
    c = work.config
    order = Order(len(work.train), seed=c.seed, sizes=work.train.sizes, batch=c.batch)
    feed = Loader(work.train, order, c.batch, c.accumulate, world.data_rank, world.data_size)
    steps = sorted({look * c.steps // LOOKS for look in range(LOOKS)})
    batches = sorted((feed.step(step)[0] for step in steps), key=read)
    batch = batches[len(batches) // 2]
    return setting_of(work, batch), read(batch) * c.accumulate * world.data_size


def read(batch: Batch) -> int:
    """Tokens of a batch, or images."""
    found = sum(batch.inputs[name].numel() for name in READ if name in batch.inputs)
    return found or next(iter(batch.inputs.values())).shape[0]


def setting_of(work: TrainingSetup, batch: Batch) -> Setting:
    """A batch as the price knows it."""
    sizes = SIZES[work.config.task](batch.inputs)
    return Setting(training=True, dtype=work.config.dtype, checkpointing=work.config.checkpointing, **sizes)


def _language(inputs: Inputs) -> dict[str, Any]:
    if "lengths" in inputs:
        return _packed(inputs["lengths"])
    batch, length = inputs["tokens"].shape
    return {"batch": batch, "length": length}


def _packed(*lengths: Tensor) -> dict[str, Any]:
    """Texts one after the other that do not see each other: as many rows of their mean length."""
    rows = sum(len(one) for one in lengths)
    return {"batch": rows, "length": max(1, round(sum(int(one.sum()) for one in lengths) / rows))}


def _masked(inputs: Inputs) -> dict[str, Any]:
    sizes = _classify(inputs)
    hidden = int((inputs["words"] != IGNORED).sum())
    return {**sizes, "logits": max(1, ceil(hidden / inputs["words"].shape[0]))}


def _classify(inputs: Inputs) -> dict[str, Any]:
    batch, length = inputs["tokens"].shape
    return {"batch": batch, "length": length, "lengths": _real(inputs["keep"])}


def _seq2seq(inputs: Inputs) -> dict[str, Any]:
    batch, length = inputs["target"].shape
    lengths = _real(inputs["target_keep"])
    return {
        "batch": batch, "length": length, "source": inputs["source"].shape[1], "lengths": lengths,
        "source_lengths": _real(inputs["source_keep"]), "logits": ceil(sum(lengths) / batch),
    }  # fmt: skip


def _images(inputs: Inputs) -> dict[str, Any]:
    return {"batch": inputs["images"].shape[0]}


def _embed(inputs: Inputs) -> dict[str, Any]:
    return _packed(inputs["lengths_a"], inputs["lengths_b"])


def _real(keep: Tensor) -> tuple[int, ...]:
    return tuple(keep.sum(1).tolist())


SIZES: dict[str, Callable[[Inputs], dict[str, Any]]] = {
    "language": _language, "masked": _masked, "classify": _classify, "seq2seq": _seq2seq, "images": _images,
    "embed": _embed,
}  # fmt: skip
