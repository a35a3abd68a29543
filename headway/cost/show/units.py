"""The rules by which is counted: FLOPs of an entry, and steps of the parallel depth."""

from headway.cost.optimiser import FLOPS as OPTIMISERS
from headway.ops.activation import FLOPS as CURVES
from headway.ops.attention.cost import PER_SCORE
from headway.ops.norm import FLOPS as NORMS
from headway.render.table import Table
from headway.steps import COUNTINGS, SERIAL, SUMS, TREE, Each, Product, Step, Sum, depth_of

LENGTHS = 1024  # terms of the sums in the table


def units() -> list[Table]:
    """FLOPs outside the matrix products, and steps by each way of counting."""
    return [_flops(), _steps()]


def _flops() -> Table:
    rows = [("one multiply-add of a matrix product", 2, "FLOPs")]
    rows += [(f"norm: {name}", count, "FLOPs an entry") for name, count in NORMS.items() if count]
    rows += [(f"activation: {name}", count, "FLOPs an entry") for name, count in CURVES.items()]
    rows += [
        ("softmax: scale, maximum, subtract, exp, sum, divide", PER_SCORE, "FLOPs a score (one less without a scale)"),
        ("bias, residual, position added; dropout", 1, "FLOPs an entry"),
        ("loss, forwards: maximum, subtract, exp, sum", 4, "FLOPs a logit"),
        ("loss, backwards: exp, divide, subtract", 3, "FLOPs a logit"),
        ("backwards: a product y = x W", 2, "times its forward (once where x needs no gradient)"),
        ("lookup, view, copy, selection by a mask", 0, "FLOPs"),
    ]
    rows += [(f"optimiser: {name}", count, "FLOPs a parameter") for name, count in OPTIMISERS.items() if count]
    return Table("FLOPs: each + - × ÷ exp log √ erf tanh max of two numbers is one", ("what", "count", "unit"), rows)


def _steps() -> Table:
    kinds: dict[str, Step] = {
        "+ - × ÷ exp log √ erf tanh max": Each(1),
        f"sum of n = {LENGTHS:,} terms over a width": Sum(LENGTHS),
        f"sum (or maximum) of n = {LENGTHS:,} terms over positions": Sum(LENGTHS, "positions"),
        f"inner product of n = {LENGTHS:,} terms over a width": Product(LENGTHS),
        f"inner product of n = {LENGTHS:,} terms over positions": Product(LENGTHS, "positions"),
    }
    rows = [(name, *(depth_of([step], how) for how in (TREE, SERIAL, SUMS))) for name, step in kinds.items()]
    rows.append(("moving numbers: views, copies, lookups, masks", 0, 0, 0))
    return Table("Steps of the parallel depth", ("what", *COUNTINGS), rows)
