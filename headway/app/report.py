"""report.html: a run on one page, whether it is under way, was stopped or has finished.

A section is a function of the run in SECTIONS; one that has nothing to show returns None. No torch: it takes seconds to
import, and only the tree of an exported model needs it.
"""

from collections.abc import Callable
from math import prod
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import yaml

from headway.app.audit_section import audit
from headway.app.cost_section import cost
from headway.app.heads import heads
from headway.app.run import Run, is_step, read_run
from headway.config.file_errors import errors_of
from headway.config.read_file import read_object
from headway.config.size_limits import LARGE_BYTES
from headway.data.files import read_optional, write_whole
from headway.render import (
    Branch,
    Fact,
    Html,
    Section,
    Series,
    Table,
    columns,
    commands,
    duration,
    facts,
    folded,
    html_table,
    joined,
    line_chart,
    number,
    page,
    paragraph,
    preformatted,
    sample,
    short,
    smoothed,
    tree,
)

if TYPE_CHECKING:
    from headway.models.outline import Node

FILE = "report.html"
NOISY = 40  # points from which on a curve is smoothed too

STATES = {
    "running": ("running", "its last lines are recent"),
    "new": ("not begun", "there are no measurements yet"),
    "stopped": ("stopped", "it can be taken up again"),
    "finished": ("finished", ""),
    "diverged": ("diverged", "the loss went astray"),
    "damaged": ("damaged", "its metrics cannot be read"),
}


def subtitle(run: Run) -> str:
    """The run in a sentence."""
    size = "" if run.parameters is None else f"{short(run.parameters)} parameters, "
    best = "" if run.best is None else f"; best validation loss {number(run.best[1])}"
    time = "" if run.seconds is None else f" in {duration(run.seconds)}"
    return f"Task {run.task}, {size}{run.step:,} {'step' if run.step == 1 else 'steps'}{time}{best}"


def summary(run: Run) -> Section:
    state, note = STATES[run.state]
    if run.end is not None and run.end.get("reason") == "early":
        note = "early: the validation loss no longer fell"
    best = Fact("best validation loss", "–") if run.best is None else _best(run)
    speed = "" if not run.tokens or not run.seconds else f"{run.tokens / run.seconds:,.0f} tokens per second"
    of = "" if run.steps is None else f"of {run.steps:,} ({100 * run.step / max(run.steps, 1):.0f} %)"
    cards = [
        Fact("state", state, note),
        best,
        Fact("parameters", number(run.parameters), f"task {run.task}"),
        Fact("steps", f"{run.step:,}", of),
        Fact("time", duration(run.seconds), speed),
        *([] if run.tokens is None else [Fact("tokens read", short(run.tokens), f"{run.tokens:,}")]),
        *_machine(run),
    ]
    said = [str(run.end["diagnosis"])] if run.end and run.end.get("diagnosis") else []
    return Section("Summary", joined(facts("The run", cards), *map(paragraph, [*said, *run.notes])), "summary")


def _best(run: Run) -> Fact:
    assert run.best is not None
    return Fact("best validation loss", number(run.best[1]), f"at step {run.best[0]:,}")


def _machine(run: Run) -> list[Fact]:
    said = run.machine or next((row["machine"] for row in run.of("start") if isinstance(row.get("machine"), dict)), {})
    if not said:
        return []
    threads = f"{said['threads']} threads, " if "threads" in said else ""
    processes = said.get("processes", 1)
    many = f"{processes} processes, " if processes != 1 else ""
    value = str(said.get("device", "cpu")).upper() if said.get("device", "cpu") == "cpu" else str(said["device"])
    return [Fact("machine", value, f"{threads}{many}torch {said.get('torch', '?')}")]


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
    listed = html_table(
        Table("Each validation; the best loss is marked", ["step", *map(_words, names)], rows), best=best
    )
    return Section("Validation", joined(columns(*charts) if charts else Html(""), listed), "validation")


def _words(name: str) -> str:
    return name.replace("_", " ")


def samples(run: Run) -> Section | None:
    """What the model wrote at each look, the newest first."""
    rows = [row for row in run.of("sample") if is_step(row.get("step", 0))]
    steps = sorted({int(row.get("step", 0)) for row in rows}, reverse=True)
    if not steps:
        return None
    show = _continued if run.task == "language" else _answered
    groups = [(step, show([row for row in rows if row.get("step", 0) == step])) for step in steps]
    newest, *older = [folded(f"after step {step:,}", html, open=step == steps[0]) for step, html in groups]
    before = [folded(f"earlier ones ({len(older)})", joined(*older))] if older else []
    return Section("Samples", joined(newest, *before), "samples")


def _continued(rows: list[dict[str, object]]) -> Html:
    return joined(
        *(sample(str(row.get("prompt", "")), str(row.get("text", "")), label="Text of the model") for row in rows)
    )


def _answered(rows: list[dict[str, object]]) -> Html:
    names = list(dict.fromkeys(name for row in rows for name in row if name not in ("kind", "step", "seconds")))
    return html_table(Table("What the model answered", names, [[row.get(name) for name in names] for row in rows]))


def model(run: Run) -> Section | None:
    """The model as a tree."""
    found = _model_tree(run.path)
    return None if found is None else Section("Model", found, "model")


def _model_tree(run: Path) -> Html | None:
    """The tree, with what is known of its size; None where there is neither an export nor a checkpoint yet."""
    if (run / "model" / "config.json").is_file() or (run / "model" / "modules.json").is_file():
        return _export_tree(run / "model")
    checkpoints = sorted((run / "checkpoints").glob("step-*/manifest.json"), reverse=True)
    return _checkpoint_tree(checkpoints[0]) if checkpoints else None


def _export_tree(path: Path) -> Html:
    # torch takes seconds to import, and a list of runs does not wait for it
    from headway.hub.describe import describe

    found = describe(str(path))
    size = ", ".join(f"{short(found.memory[dtype])}B in {dtype}" for dtype in ("float32", "bfloat16"))
    layout = "" if found.family is None else f" in the layout of {found.family}"
    head = f"{found.kind}{layout}: {found.tree.parameters:,} parameters, {size}."
    tied = [f"{second} is {first}: one tensor in two places." for second, first in found.tied.items()]
    root = _branch(found.tree, found.tree.parameters, depth=0)
    return joined(paragraph(" ".join([head, *tied, *found.notes])), tree("The model", [root]))


def _branch(node: "Node", whole: int, *, depth: int, times: int = 1) -> Branch:
    """A node; what stands in a block that is there `times` times has the number of one, and the share of all."""
    shapes = [" × ".join(map(str, shape)) for _, shape in node.shapes] + [f"{name} shared" for name in node.shared]
    often = [f"{node.repeats} times {node.parameters // node.repeats:,}"] if node.repeats > 1 else []
    return Branch(
        name=node.name,
        note=" · ".join([node.kind, *often, *([" + ".join(shapes)] if shapes else [])]),
        value=f"{node.parameters:,}{' each' if times > 1 else ''}",
        share=times * node.parameters / max(whole, 1),
        children=tuple(_branch(child, whole, depth=depth + 1, times=times * node.repeats) for child in node.children),
        open=depth < 3,
    )


def _checkpoint_tree(manifest: Path) -> Html:
    """From the names and shapes of a checkpoint's tensors."""
    try:
        listed = read_object(manifest, LARGE_BYTES)["tensors"]
        shapes = {
            name.removeprefix("model/"): list(one["shape"]) for name, one in listed.items() if name.startswith("model/")
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{manifest.parent.name}/{manifest.name} cannot be read") from None
    whole = sum(map(prod, shapes.values()))
    nested: dict[str, Any] = {}
    for name, shape in shapes.items():
        *above, last = name.split(".")
        here = nested
        for part in above:
            here = here.setdefault(part, {})
        here[last] = shape
    said = paragraph(f"{whole:,} numbers in {len(shapes)} tensors, as kept in {manifest.parent.name}.")
    return joined(said, tree("The model", [_named(name, inside, whole, 0) for name, inside in nested.items()]))


def _named(name: str, inside: Any, whole: int, depth: int) -> Branch:
    if isinstance(inside, list):
        count = prod(inside)
        return Branch(name, " × ".join(map(str, inside)) or "one number", f"{count:,}", count / max(whole, 1))
    count = _count(inside)
    children = tuple(_named(key, value, whole, depth + 1) for key, value in inside.items())
    return Branch(name, "", f"{count:,}", count / max(whole, 1), children, open=depth < 1)


def _count(inside: Any) -> int:
    return prod(inside) if isinstance(inside, list) else sum(_count(value) for value in inside.values())


def configuration(run: Run) -> Section | None:
    if not run.config:
        return None
    text = yaml.safe_dump(run.config, sort_keys=False, allow_unicode=True)
    machine = [[name.replace("_", " "), _plain(value)] for name, value in run.machine.items()]
    beside = [html_table(Table("The machine", ["what", "value"], machine))] if machine else []
    return Section("Configuration", columns(preformatted(text, label="config.yaml"), *beside), "configuration")


def _plain(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def next_steps(run: Run) -> Section:
    """Commands that go on from here."""
    return Section("What to try next", commands(going_on(run)), "next")


def going_on(run: Run) -> list[tuple[str, str]]:
    """What to do next, and by which command."""
    place = quote(str(run.path))
    uses = {
        "language": ("write text", f'headway generate {place} --prompt "The"'),
        "instruct": ("answer a message", f'headway generate {place}{_chat(run.path)} --prompt "Hello"'),
        "dpo": ("answer a message", f'headway generate {place}{_chat(run.path)} --prompt "Hello"'),
        "seq2seq": ("translate lines of a file", f"headway translate {place} FILE"),
        "classify": ("classes of lines of a file", f"headway classify {place} FILE"),
        "images": ("classes of pictures", f"headway classify {place} PICTURE"),
        "embed": ("vectors of lines of a file", f"headway embed {place} FILE -o vectors.npy"),
    }
    lines = [] if run.state == "finished" else [("go on with this run", f"headway train --out {place} --resume")]
    if (run.path / "model").is_dir():
        lines += [uses[run.task]] if run.task in uses else []
        seen = "--image PICTURE" if run.task == "images" else '"A text"'
        lines += [("what attends to what", f"headway look {place} {seen} -o look.html")]
        lines += [("measure it on other data", f"headway eval {place} FILE")]
        lines += [("shapes and parameters", f"headway info {place}")]
    return [*lines, ("beside other runs", f"headway runs {quote(str(run.path.parent))} --html runs.html")]


def _chat(run: Path) -> str:
    """By the chat template, where the model has one."""
    return " --chat" if "chat_template" in read_optional(run / "model" / "tokenizer_config.json") else ""


# In the order in which they stand on the page.
SECTIONS: list[Callable[[Run], Section | None]] = [
    summary,
    loss,
    measures,
    samples,
    heads,
    model,
    cost,
    audit,
    configuration,
    next_steps,
]


def report(run_directory: Path) -> Path:
    """Write a run's report.html, whole or not at all, and return its path."""
    run = read_run(run_directory)
    parts = [found for write in SECTIONS if (found := _section(write, run)) is not None]
    return write_whole(run.path / FILE, page(run.name, parts, subtitle(run)))


def _section(write: Callable[[Run], Section | None], run: Run) -> Section | None:
    """A section that cannot be written says so in its place: the others are still worth reading."""
    try:
        with errors_of(run.path.name):
            return write(run)
    except ValueError as error:
        title = write.__name__.replace("_", " ").capitalize()
        return Section(title, paragraph(f"This part is missing: {error}"), write.__name__.replace("_", "-"))
