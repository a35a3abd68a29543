"""The laws of mechanisms: each a sentence and a function that measures how far a mechanism strays from it on a trial.

A mechanism claims the laws that hold for it (`Mechanism.laws`). A claimed law must hold on every trial; one that is
not claimed must be refuted by a counter-example; of one that cannot even be posed `why_not` gives the reason.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from headway.audit.mechanisms import deviations as measure
from headway.audit.mechanisms.trials import Trial
from headway.config import Spec
from headway.ops.attention import Mechanism
from headway.ops.attention.mechanism import all_pairs

# In float64, on calls this small, rounding stays three decimal places below.
TOLERANCE = 1e-10


@dataclass(frozen=True)
class MechanismLaw:
    """`deviation`: the largest absolute deviation on one trial; a ValueError where the trial cannot pose the law."""

    name: str
    sentence: str
    deviation: Callable[[Mechanism, Trial], float]
    tolerance: float = TOLERANCE


def _law(
    name: str, deviation: Callable[[Mechanism, Trial], float], tolerance: float = TOLERANCE
) -> tuple[str, MechanismLaw]:
    return name, MechanismLaw(name, str(deviation.__doc__), deviation, tolerance)


LAWS: dict[str, MechanismLaw] = dict(
    [
        _law("loop", measure.loop),
        _law("rows_sum", measure.rows_sum),
        _law("weights_are_output", measure.weights_are_output),
        _law("masked_is_deleted", measure.masked_is_deleted),
        _law("keys_permute", measure.keys_permute),
        _law("queries_independent", measure.queries_independent, 0.0),
        _law("equivariant", measure.equivariant),
        _law("causal", measure.causality, 0.0),
        _law("window_is_full", measure.window_is_full),
        _law("groups", measure.groups),
        _law("batch", measure.batch),
        _law("padding", measure.padding_is_nothing),
        _law("quarantine", measure.quarantine),
        _law("empty_rows", measure.empty_rows, 0.0),
        _law("flattened", measure.flattened),
        _law("three_forms", measure.three_forms),
        _law("keys_shift", measure.keys_shift),
        _law("values_linear", measure.values_linear),
    ]
)


def _between_channels(mechanism: Mechanism) -> bool:
    return mechanism.between == "channels"


def _grid_is_full(mechanism: Mechanism) -> bool:
    return _example(mechanism).fills_layout


def _no_causality(mechanism: Mechanism) -> bool:
    return mechanism.masks == "padding"


def _no_windows(mechanism: Mechanism) -> bool:
    return mechanism.masks in ("causal", "padding")


def _no_grid(mechanism: Mechanism) -> bool:
    return mechanism.scores != "dot" or mechanism.pattern in (None, all_pairs)


def _no_total(mechanism: Mechanism) -> bool:
    return mechanism.cache_of(_example(mechanism)).kind != "total"


def _example(mechanism: Mechanism) -> Spec:
    return mechanism.spec(**mechanism.examples(Random(0)))


# A law, which mechanisms cannot be asked about it by what their records say, and why. Everything else is tried.
_CANNOT: tuple[tuple[str, Callable[[Mechanism], bool], str], ...] = (
    ("weights_are_output", _between_channels, "its weights relate channels; the output is v times their transpose"),
    ("masked_is_deleted", _between_channels, "it needs as many queries as keys, so a key cannot go alone"),
    ("masked_is_deleted", _grid_is_full, "a grid with a key missing is no grid"),
    ("causal", _no_causality, "it honours padding alone, so it refuses causal()"),
    ("window_is_full", _no_windows, "it honours causality and padding at most, so it refuses window()"),
    ("flattened", _no_grid, "it is no softmax of q·k under a pattern on a grid that could be flattened"),
    ("three_forms", _no_total, "it has no running total: it needs all keys of a row at once"),
)


def why_not(mechanism: Mechanism, law: str) -> str | None:
    """Why the law cannot be posed for the mechanism; None where it is tried."""
    return next((why for name, holds, why in _CANNOT if name == law and holds(mechanism)), None)


def deviations(mechanism: Mechanism, law: MechanismLaw, trials: Iterable[Trial]) -> list[tuple[Trial, float]]:
    """The trials on which the law can be posed, each with its deviation."""
    found = []
    for trial in trials:
        try:
            found.append((trial, law.deviation(mechanism, trial)))
        except ValueError:
            # The mechanism refuses this call, in words: there is nothing to compare.
            continue
    return found


def hold(mechanism: Mechanism, law: MechanismLaw, trials: Iterable[Trial]) -> float:
    """The largest deviation from the law; an error where no trial could pose it, so that nothing passes untried."""
    found = deviations(mechanism, law, trials)
    if not found:
        raise ValueError(f"no trial could pose the law {law.name} for {mechanism.name}")
    return max(deviation for _, deviation in found)


def refute(mechanism: Mechanism, law: MechanismLaw, trials: Iterable[Trial]) -> Trial | None:
    """The first counter-example: a trial that breaks the law by more than rounding can explain; None: none was found.

    A law that no trial could pose is an error: what was not tried does not hold.
    """
    posed = False
    for trial in trials:
        for _, deviation in deviations(mechanism, law, [trial]):
            posed = True
            if not deviation <= max(law.tolerance, TOLERANCE):
                return trial
    if not posed:
        raise ValueError(f"no trial could pose the law {law.name} for {mechanism.name}")
    return None
