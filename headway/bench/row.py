"""One line of a benchmark: headway's figure, its peers', their ratio, the machine's limit and the issue's target.

    ratio_to_best  = median over rounds of  headway / best peer
    share_of_limit = limit / headway for times, headway / limit for rates; 1 is all the machine has

Of times and bytes less is better, and a ratio below 1 is a win; of rates (a unit ending in "/s") more is better, and a
ratio above 1 is. `headway / peers[best_peer]` is the ratio of medians, for comparison. In a row on doubling the peer is
headway itself at half the size, so that the ratio is the growth.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from headway.bench.measure import Timing

FEW = 5  # rounds: with fewer, the row says how many there were


@dataclass(frozen=True)
class Row:
    """What is printed, plotted and written as JSON; None where a figure does not exist or was not measured."""

    work: str
    model: str
    shape: str
    precision: str
    streams: int = 1
    headway: float | None = None
    peers: dict[str, float] = field(default_factory=dict)
    unit: str = "ms"
    best_peer: str | None = None
    ratio_to_best: float | None = None
    limit: float | None = None
    share_of_limit: float | None = None
    spread: float | None = None  # of the ratio's rounds; of headway's own where there is no peer
    target: str | None = None
    verdict: str | None = None  # met, missed, unclear (within noise), not measured
    note: str = ""
    machine: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def measured(self) -> bool:
        return self.headway is not None

    def summary(self) -> str:
        """One line for the progress display."""
        label = f"{self.model}, {self.shape}, {self.precision}"
        if self.headway is None:
            return f"{label}: not measured, {self.note}"
        ratio = "" if self.ratio_to_best is None else f", {self.ratio_to_best:.3g} x {self.best_peer}"
        verdict = "" if self.verdict is None else f" ({self.verdict})"
        return f"{label}: {self.headway:.3g} {self.unit}{ratio}{verdict}"


@dataclass(frozen=True)
class Target:
    """A bound on a row's ratio (or on its own figure where `ratio` is False), and the words for it."""

    words: str
    at_most: float | None = None
    at_least: float | None = None
    ratio: bool = True

    def verdict(self, value: float, error: float | None) -> str:
        """Met or missed, or unclear when the bound lies within the error of the measurement.

        >>> Target("at most 1.05 x", at_most=1.05).verdict(1.02, 0.01)
        'met'
        >>> Target("at least 2 x", at_least=2.0).verdict(1.96, 0.05)
        'unclear'
        """
        low, high = value * (1 - (error or 0.0)), value * (1 + (error or 0.0))
        bottom = -1.0 if self.at_least is None else self.at_least
        top = float("inf") if self.at_most is None else self.at_most
        if bottom <= low and high <= top:
            return "met"
        return "missed" if high < bottom or top < low else "unclear"


def more_is_better(unit: str) -> bool:
    return unit.endswith("/s")


def milliseconds(seconds: float) -> float:
    return 1e3 * seconds


def timed(
    row: Row,
    timings: Mapping[str, Timing],
    *,
    figure: Callable[[float], float] = milliseconds,
    limit_seconds: float | None = None,
    target: Target | None = None,
) -> Row:
    """The row, filled from the rounds of "headway" and its peers; `figure` turns seconds into the row's unit.

    >>> row = timed(Row("toy", "sum", "9", "float32"), {"headway": Timing((1.0, 2.0)), "torch": Timing((2.0, 4.0))})
    >>> row.headway, row.peers, row.best_peer, row.ratio_to_best
    (1500.0, {'torch': 3000.0}, 'torch', 0.5)
    """
    figures = {name: Timing(tuple(map(figure, timing.rounds))) for name, timing in timings.items()}
    ours = figures.pop("headway", None)
    if ours is None:
        return _peers_alone(row, figures, target, None if limit_seconds is None else figure(limit_seconds))
    limit = None if limit_seconds is None else figure(limit_seconds)
    filled = replace(
        row,
        headway=ours.median,
        peers={name: timing.median for name, timing in figures.items()},
        limit=limit,
        share_of_limit=_share(limit, ours.median, row.unit),
    )
    best = best_peer(filled.peers, row.unit)
    ratio = None if best is None else ours.over(figures[best])
    judged = ratio if ratio is not None and (target is None or target.ratio) else ours
    shown = replace(
        filled,
        best_peer=best,
        ratio_to_best=None if ratio is None else ratio.median,
        spread=(ratio or ours).spread,
        note=_joined(row.note, _few(len(ours.rounds))),
    )
    if target is not None and target.ratio and ratio is None:
        return unmeasured(shown, "no peer to compare with", target=target)
    return _judged(shown, target, judged.median, judged.error)


def counted(row: Row, figure: float, peers: Mapping[str, float] | None = None, *, target: Target | None = None) -> Row:
    """The row, filled from exact figures such as bytes, which have no spread."""
    found = dict(peers or {})
    best = best_peer(found, row.unit)
    ratio = figure / found[best] if best is not None and found[best] else None
    shown = replace(row, headway=figure, peers=found, best_peer=best, ratio_to_best=ratio)
    judged = ratio if ratio is not None and (target is None or target.ratio) else figure
    return _judged(shown, target, judged, None)


def unmeasured(row: Row, why: str, *, target: Target | None = None) -> Row:
    """The row without figures, saying why."""
    words = None if target is None else target.words
    return replace(row, target=words, verdict="not measured", note=_joined(row.note, why))


def _peers_alone(row: Row, figures: Mapping[str, Timing], target: Target | None, limit: float | None) -> Row:
    """What the peers reach where headway has nothing to race with."""
    peers = {name: timing.median for name, timing in figures.items()}
    filled = replace(row, peers=peers, best_peer=best_peer(peers, row.unit), limit=limit)
    return unmeasured(filled, "" if row.note else "headway: none", target=target)


def best_peer(peers: Mapping[str, float], unit: str) -> str | None:
    """The fastest (or smallest) peer; the first named of equals."""
    if not peers:
        return None
    choose = max if more_is_better(unit) else min
    return choose(peers, key=lambda name: peers[name])


def _few(rounds: int) -> str:
    return "" if rounds >= FEW else f"only {rounds} round{'s' if rounds > 1 else ''}"


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _share(limit: float | None, figure: float, unit: str) -> float | None:
    if limit is None:
        return None
    return figure / limit if more_is_better(unit) else limit / figure


def _judged(row: Row, target: Target | None, value: float, error: float | None) -> Row:
    return row if target is None else replace(row, target=target.words, verdict=target.verdict(value, error))
