"""A report read back from plain values, as `Report.as_json` wrote them."""

from typing import Any

from headway.audit.report import Example, Finding, Layer, Report, Strip
from headway.audit.show.words import STATUSES

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


def _layer(found: dict[str, Any]) -> Layer:
    return Layer(_text(found["module"]), _text(found["kind"]), _number(found["deviation"]), bool(found["agreed"]))


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
