"""Pricing anybody's module by looking at what it does, without allocating it."""

from headway.cost.trace.inputs import inputs_for
from headway.cost.trace.report import Parameters, merged, parameters_of
from headway.cost.trace.rules import UNIT_COSTS, table
from headway.cost.trace.run import Bytes, Trace, trace

__all__ = ["Bytes", "Parameters", "Trace", "UNIT_COSTS", "inputs_for", "merged", "parameters_of", "table", "trace"]
