"""A machine of made-up rates, the same at all sizes unless a test says otherwise."""

from dataclasses import replace

import torch

from headway.cost.time.kernels import Grid, Rates, tabulate
from headway.cost.time.machine import OVERHEADS, Machine, processor
from headway.cost.time.probes import PROBES

# Work per second: multiply-adds of products and attention, bytes of the rest.
RATES = {name: float(1000 + place) for place, name in enumerate(PROBES)}


def toy_machine(**grids: Grid) -> Machine:
    """Every call takes 1/8 s besides its work; `grids` by kernel, "product_forward" for "product/forward"."""
    given = {name.replace("_", "/"): grid for name, grid in grids.items()}
    tables = {name: tabulate(probe.axes, lambda rate=RATES[name], **_: rate) for name, probe in PROBES.items()}
    overheads = dict.fromkeys(OVERHEADS, 0.125)
    rates = Rates(tables | given, overheads)
    return Machine(processor(), torch.get_num_threads(), torch.__version__, "2026-11-16", {"float32": rates})


def without_overheads(machine: Machine) -> Machine:
    rates = {dtype: replace(one, overheads=dict.fromkeys(one.overheads, 0.0)) for dtype, one in machine.rates.items()}
    return replace(machine, rates=rates)
