"""Rules as a record that everything draws: one layer for each, with one head."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, UInt8

from headway.look.packed import Factors, Weights, factors
from headway.look.packed import weights as packed_weights
from headway.look.pattern.rule import WIDTH, Rule
from headway.look.record import Layer, Look, Measures, Side

SMALL = 48  # cells of a map in the overview
MEANING = (
    "Multiply-adds are those that the fast path executes, of those that softmax attention of all positions to all "
    f"takes in as many channels ({WIDTH} a head)."
)
FEW = 2**18  # pairs that are packed as weights; more as bits, from which the page makes the rows


def look_of(title: str, rules: Sequence[Rule]) -> Look:
    """One record of several rules; what each costs stands in its notes."""
    sides = tuple(dict.fromkeys(side for rule in rules for side in rule.sides()))
    layers = tuple(_layer(rule, sides) for rule in rules)
    notes = [f"{rule.label}: {rule.formula}. {counted(rule)}, {price(rule)}." for rule in rules]
    return Look(title, sides, layers, None, (*notes, MEANING), "Who may attend to whom")


def counted(rule: Rule) -> str:
    """How many pairs are allowed of all."""
    allowed, pairs = int(rule.allowed.sum()), rule.allowed.size
    return f"{allowed:,} of {pairs:,} pairs ({share(rule)})"


def share(rule: Rule) -> str:
    """The part of all pairs that is allowed, in percent."""
    return f"{100 * rule.allowed.mean():.3g} %"


def price(rule: Rule) -> str:
    """A pattern is about its price: what the fast path executes of what attention of all positions to all takes."""
    told = f"{rule.executed:,} of {rule.dense:,} multiply-adds"
    if rule.executed > rule.dense:
        told = f"{rule.executed:,} multiply-adds, more than the {rule.dense:,} of softmax attention"
    if rule.longer is None:
        return told
    longer = rule.longer()
    positions = len(longer.places.query) - longer.places.extra
    return f"{told}; at {positions:,} positions {100 * longer.executed / longer.dense:.3g} %"


def _layer(rule: Rule, sides: tuple[Side, ...]) -> Layer:
    asks, answers = rule.sides()
    held = (sides.index(asks), sides.index(answers))
    maps = small(rule.allowed)[None]
    return Layer(
        rule.formula, rule.label, "pattern", rule.mechanism, *held, (0,), (0, len(rule.weights)), _packed(rule), maps,
        (_measures(rule),),
    )  # fmt: skip


def _packed(rule: Rule) -> Weights | Factors:
    if rule.weights.size <= FEW:
        return packed_weights(rule.weights[None])
    queries, keys = rule.weights.shape
    return factors(np.zeros((1, queries, 1)), np.zeros((1, keys, 1)), allowed=rule.allowed[None])


def small(allowed: Bool[np.ndarray, "L M"], *, most: int = SMALL) -> UInt8[np.ndarray, "y x"]:
    """The pattern in at most so many cells each way: how many queries of a cell may see one of its keys.

    >>> small(np.array([[True, False], [True, True]])).tolist()
    [[255, 0], [255, 255]]
    """
    rows, columns = (_starts(size, most) for size in allowed.shape)
    seen = np.maximum.reduceat(allowed, columns, axis=1)
    share = np.add.reduceat(seen.astype(np.float64), rows, axis=0) / np.diff([*rows, len(allowed)])[:, None]
    return np.rint(255 * share / max(share.max(), 1e-9)).astype(np.uint8)


def _starts(size: int, most: int) -> np.ndarray:
    """Where each of the cells begins."""
    cells = min(size, most)
    return np.arange(cells) * size // cells


def _measures(rule: Rule) -> Measures:
    """Of uniform rows: all are as broad as they may be."""
    seeing = rule.allowed.any(1)
    largest = rule.weights.max(1)[seeing].mean() if seeing.any() else 0.0
    return Measures(1.0, _reach(rule), float(largest), role=f"{share(rule)} of pairs")


def _reach(rule: Rule) -> float | None:
    asks, answers = rule.sides()
    seeing = np.asarray(rule.allowed.any(1))
    if rule.between_channels or asks != answers or not seeing.any():
        return None
    inside = rule.places.query.numpy() >= 0
    distance = _distances(rule.places.query.numpy(), rule.places.grid)
    # A token outside the sequence is at no distance.
    weights = rule.weights * inside[:, None] * inside[None]
    return float((weights * distance).sum() / max(int((seeing & inside).sum()), 1))


def _distances(positions: np.ndarray, grid: tuple[int, int] | None) -> Float[np.ndarray, "L M"]:
    """On a grid the larger of the two differences."""
    axes = (positions,) if grid is None else (positions // grid[1], positions % grid[1])
    return np.max([np.abs(axis[:, None] - axis[None]) for axis in axes], axis=0).astype(np.float64)
