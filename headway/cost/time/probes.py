"""What is timed to know a machine: each kernel as our models call it, over the sizes that decide its speed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F

from headway.cost.time.products import (
    FAR,
    NEAR,
    Made,
    attention,
    attention_backward,
    batched,
    product,
    product_backward,
    product_learning,
    wide,
    wide_backward,
)  # fmt: skip
from headway.cost.time.rates import Axes
from headway.cost.time.streams import CURVES, add, curve, lookup, lookup_backward, loss, memory, norm, stream, update


@dataclass(frozen=True)
class Probe:
    """Sizes to time at; `make(dtype, **sizes)` gives the work of a call and the call; `least` costs next to nothing."""

    axes: Axes
    make: Callable[..., Made]
    least: dict[str, float]
    gradients: bool = False


ROWS, SIDES = (1.0, 4.0, 16.0, 64.0, 128.0, 512.0), (64.0, 256.0, 1024.0)
BYTES = {"bytes": (2.0**14, 2.0**18, 2.0**22, 2.0**24, 2.0**26)}  # the last asks the system for new memory each time
NEARBY = {"bytes": BYTES["bytes"][:-1]}  # where the largest would take long and tell little
SLOWLY = {"bytes": (2.0**14, 2.0**21)}  # so much arithmetic that memory does not matter
FLOPS = {**NEARBY, "flops": tuple(CURVES)}
PAIRS = {"queries": (1.0, 32.0, 128.0, 512.0), "keys": (32.0, 128.0, 1024.0), "width": (32.0, 128.0)}
LEARNT = {"queries": (32.0, 128.0, 512.0), "keys": (32.0, 512.0), "width": (32.0, 128.0)}
WRITTEN = {"queries": (32.0, 128.0, 512.0), "keys": (32.0, 512.0), "width": (64.0,)}
SQUARE = {"rows": ROWS, "side": SIDES, "held": (NEAR, FAR)}
LEARNING = {**SQUARE, "rows": (16.0, 128.0, 512.0)}
HEAD = {"rows": (1.0, 16.0, 64.0), "columns": (2.0**15,)}
TINY, ONE = {"bytes": 64.0}, {"queries": 1.0, "keys": 1.0, "width": 1.0}
LEAST = {"rows": 1.0, "side": 4.0, "held": 64.0}

PROBES: dict[str, Probe] = {
    "memory/forward": Probe(BYTES, memory, TINY),
    "product/forward": Probe(SQUARE, product, LEAST),
    "product/learning": Probe(LEARNING, product_learning, LEAST, True),
    "product/backward": Probe(LEARNING, product_backward, LEAST),
    "wide/forward": Probe(HEAD, wide, {"rows": 1.0, "columns": 2.0}),
    "wide/backward": Probe(HEAD, wide_backward, {"rows": 1.0, "columns": 2.0}),
    "batched/forward": Probe({"side": (16.0, 64.0, 256.0)}, batched, {"side": 1.0}),
    "attention/forward": Probe(PAIRS, attention(), ONE),
    "attention/learning": Probe(LEARNT, attention(learns=True), ONE, True),
    "attention/backward": Probe(LEARNT, attention_backward(), ONE, True),
    "written/forward": Probe(WRITTEN, attention(written=True), ONE),
    "written/learning": Probe(WRITTEN, attention(learns=True, written=True), ONE, True),
    "written/backward": Probe(WRITTEN, attention_backward(written=True), ONE, True),
    "norm/forward": Probe(NEARBY, stream(norm), TINY),
    "norm/backward": Probe(NEARBY, stream(norm, learns=True), TINY, True),
    "activation/forward": Probe(FLOPS, curve(), {**TINY, "flops": 1.0}),
    "activation/backward": Probe(FLOPS, curve(learns=True), {**TINY, "flops": 1.0}, True),
    "elementwise/forward": Probe(BYTES, add, TINY),
    "dropout/forward": Probe(SLOWLY, stream(partial(F.dropout, p=0.1)), TINY),
    "embedding/forward": Probe(BYTES, lookup, TINY),
    "embedding/backward": Probe(BYTES, lookup_backward, TINY, True),
    "loss/forward": Probe(SLOWLY, loss, TINY, True),
    "update/forward": Probe(NEARBY, update, TINY),
}
