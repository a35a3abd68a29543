"""What a report says of a run: one function for each section, None where it has nothing to say."""

from shlex import quote

import yaml

from headway.app.model_tree import model_tree
from headway.app.run import Run
from headway.page import (
    Fact,
    Html,
    Section,
    columns,
    commands,
    duration,
    facts,
    folded,
    joined,
    number,
    paragraph,
    preformatted,
    sample,
    short,
    table,
)

STATES = {
    "running": ("running", "its last lines are recent"),
    "new": ("not begun", "there are no measurements yet"),
    "stopped": ("stopped", "it can be taken up again"),
    "finished": ("finished", ""),
    "diverged": ("diverged", "the loss went astray"),
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


def samples(run: Run) -> Section | None:
    """What the model wrote at each look, the newest first."""
    rows = run.of("sample")
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
    return table("What the model answered", names, [[row.get(name) for name in names] for row in rows])


def model(run: Run) -> Section | None:
    """The model as a tree."""
    found = model_tree(run.path)
    return None if found is None else Section("Model", found, "model")


def configuration(run: Run) -> Section | None:
    if not run.config:
        return None
    text = yaml.safe_dump(run.config, sort_keys=False, allow_unicode=True)
    machine = [[name.replace("_", " "), _plain(value)] for name, value in run.machine.items()]
    beside = [table("The machine", ["what", "value"], machine)] if machine else []
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
