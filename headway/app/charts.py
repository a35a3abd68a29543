"""What a run measured, over its steps: the sections of a report that are mostly curves."""

from headway.app.run import Run
from headway.page import Html, Section, Series, columns, joined, line_chart, smoothed, table

NOISY = 40  # points from which on a curve is smoothed too


def loss(run: Run) -> Section | None:
    """Loss, learning rate and norm of the gradients over the steps."""
    training, validation = run.curve("train", "loss"), run.series("validation", "loss", "validation", tone=1, dots=True)
    if not training and not validation.points:
        return None
    curves = [*noisy("training", training, 0), *([validation] if validation.points else [])]
    known = {"rate": "Learning rate", "norm": "Norm of the gradients"}
    below = [
        line_chart(title, _curves(run, name, title, tone), log=name == "norm")
        for tone, (name, title) in enumerate(known.items(), start=4)
        if run.curve("train", name)
    ]
    parts = [name for name in run.measures("train") if name not in ("loss", *known)]
    split = [line_chart("Training loss by objective", [run.series("train", name, name) for name in parts], log=True)]
    charts = [line_chart("Loss", curves, log=True), *(split if parts else []), columns(*below) if below else Html("")]
    return Section("Loss", joined(*charts), "loss")


def _curves(run: Run, name: str, title: str, tone: int) -> list[Series]:
    points = run.curve("train", name)
    return noisy(title, points, tone) if name == "norm" else [Series(title, points, tone)]  # a rate has no noise


def noisy(name: str, points: list[tuple[int, float]], tone: int) -> list[Series]:
    """A curve; one of many points is drawn smoothed, with itself faintly behind."""
    if len(points) < NOISY:
        return [Series(name, points, tone)]
    calm = smoothed(points, width=len(points) // 40 + 1)
    return [Series(name, points, tone, faint=True), Series(name, calm, tone)]


def measures(run: Run) -> Section | None:
    """All that was measured on the validation data."""
    names = run.measures("validation")
    if not names:
        return None
    shares = [name for name in names if name.endswith("accuracy")]
    single = [name for name in names if name != "loss" and name not in shares]
    charts = (
        [line_chart("Accuracy", [run.series("validation", name, _words(name), dots=True) for name in shares])]
        if shares
        else []
    )
    charts += [
        line_chart(_words(name).capitalize(), [run.series("validation", name, _words(name), tone=place % 8, dots=True)])
        for place, name in enumerate(single, start=len(shares))
    ]
    curves = [run.curve("validation", name) for name in names]
    values = [dict(curve) for curve in curves]
    steps = sorted({step for curve in curves for step, _ in curve})
    rows = [[step, *(value.get(step) for value in values)] for step in steps]
    best = None if run.best is None else run.best[0]
    listed = table("Each validation; the best loss is marked", ["step", *map(_words, names)], rows, best=best)
    return Section("Validation", joined(columns(*charts) if charts else Html(""), listed), "validation")


def _words(name: str) -> str:
    return name.replace("_", " ")
