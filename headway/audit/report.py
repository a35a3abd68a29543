"""What an audit found: a finding for each law, with its trials, its largest deviation and a counter-example."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

HOLDS, BROKEN, NOT_APPLICABLE, REFUTED = "holds", "broken", "not applicable", "not claimed"
STATUSES = (HOLDS, BROKEN, NOT_APPLICABLE, REFUTED)


@dataclass(frozen=True)
class Strip:
    """A row of tokens as it was read. `marks` has a word for each: "" or several of changed, padding, hidden, broken
    (its result deviates), segment, put together by blanks; `deviations` one number for each, None where nothing is
    compared."""

    title: str
    tokens: list[str]
    marks: list[str]
    deviations: list[float | None]


@dataclass(frozen=True)
class Example:
    """A counter-example: one sentence, the rows that were read, and the draw it came from."""

    sentence: str
    strips: list[Strip]
    case: dict[str, Any]


@dataclass(frozen=True)
class ModuleDeviation:
    """How far one module's results deviate in the counter-example, relative to their largest number. `agreed`: what
    went into the module did not deviate."""

    module: str
    kind: str
    deviation: float
    agreed: bool


@dataclass(frozen=True)
class Finding:
    """One law on one model. `status` is holds, broken, not applicable (`why` says why), or not claimed: a law that the
    model need not obey, with the example that shows it does not (None: none was found).

    `deviation` is the largest over all trials, relative to the largest number compared, and `tolerance` how much
    rounding explains. `module` is the first one that went wrong, "" where it could not be told.
    """

    law: str
    status: str
    trials: int = 0
    deviation: float | None = None
    tolerance: float | None = None
    module: str = ""
    why: str = ""
    example: Example | None = None
    layers: list[ModuleDeviation] = field(default_factory=list)
    details: list[dict[str, Any]] = field(default_factory=list)  # rows of a table of the law's own (dtype, norm)
    seconds: float = 0.0

    @property
    def broken(self) -> bool:
        return self.status == BROKEN


@dataclass(frozen=True, repr=False)
class Report:
    """An audit: what was looked at, what was assumed of it, and the findings in the order of the laws."""

    target: str
    model: str  # one line: class, parameters, dtype, what it reads
    findings: list[Finding]
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    seed: int = 0
    quick: bool = False

    @property
    def broken(self) -> list[Finding]:
        return [one for one in self.findings if one.broken]

    @property
    def holds(self) -> bool:
        return not self.broken

    def __repr__(self) -> str:
        return f"Report({self.target!r}: {len(self.findings)} laws, {len(self.broken)} broken; print it for the table)"

    def __str__(self) -> str:
        from headway.audit.laws import LAWS  # a report is plain values, and needs no torch before it is printed
        from headway.audit.text import lines

        return "\n".join(lines(self, {name: law.sentence for name, law in LAWS.items()}))

    def __getitem__(self, law: str) -> Finding:
        found = next((one for one in self.findings if one.law == law), None)
        if found is None:
            raise KeyError(f"the law {law} was not examined; there are {', '.join(one.law for one in self.findings)}")
        return found

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values; NaN and inf as text, so that every reader of JSON takes it."""
        return plain_values(asdict(self) | {"holds": self.holds})


def plain_values(value: Any) -> Any:
    """What JSON has: NaN and inf become text."""
    if isinstance(value, dict):
        return {key: plain_values(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(one) for one in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


NOT_NUMBERS = ("nan", "inf", "-inf")  # what JSON has no number for is written as text


def read(found: dict[str, Any]) -> Report:
    """The report that was written; a ValueError says what is not as it was.

    >>> written = Report("gpt2", "LanguageModel", [Finding("causal", "broken", 3, float("inf"))])
    >>> read(written.as_json()) == written
    True
    """
    try:
        return _report(found)
    except KeyError as missing:
        raise ValueError(f"a report of an audit has {missing}") from None
    except (TypeError, AttributeError) as error:
        raise ValueError(f"not a report of an audit: {error}") from None


def _report(found: dict[str, Any]) -> Report:
    return Report(
        target=_text(found["target"]),
        model=_text(found["model"]),
        findings=[_finding(one) for one in found["findings"]],
        notes=[_text(one) for one in found["notes"]],
        seconds=_number(found["seconds"]),
        seed=int(found["seed"]),
        quick=bool(found["quick"]),
    )


def _finding(found: dict[str, Any]) -> Finding:
    if found["status"] not in STATUSES:
        raise ValueError(f"a law is {', '.join(STATUSES)}, not {found['status']!r}")
    return Finding(
        law=_text(found["law"]),
        status=found["status"],
        trials=int(found["trials"]),
        deviation=_measure(found["deviation"]),
        tolerance=_measure(found["tolerance"]),
        module=_text(found["module"]),
        why=_text(found["why"]),
        example=None if found["example"] is None else _example(found["example"]),
        layers=[_layer(one) for one in found["layers"]],
        details=[dict(one) for one in found["details"]],
        seconds=_number(found["seconds"]),
    )


def _example(found: dict[str, Any]) -> Example:
    return Example(_text(found["sentence"]), [_strip(one) for one in found["strips"]], dict(found["case"]))


def _strip(found: dict[str, Any]) -> Strip:
    tokens, marks = ([_text(one) for one in found[name]] for name in ("tokens", "marks"))
    deviations = [_measure(one) for one in found["deviations"]]
    if not len(tokens) == len(marks) == len(deviations):
        raise ValueError(f"{len(tokens)} tokens have {len(marks)} marks and {len(deviations)} deviations")
    return Strip(_text(found["title"]), tokens, marks, deviations)


def _layer(found: dict[str, Any]) -> ModuleDeviation:
    return ModuleDeviation(
        _text(found["module"]), _text(found["kind"]), _number(found["deviation"]), bool(found["agreed"])
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} stands where a text is expected")
    return value


def _measure(value: object) -> float | None:
    return None if value is None else _number(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not (isinstance(value, int | float) or value in NOT_NUMBERS):
        raise ValueError(f"{value!r} stands where a number is expected")
    return float(value)  # pyright: ignore[reportArgumentType]
