"""`headway train --help`: the settings people use first; `--help-all`: every one. Both by topic, from TrainConfig.

cyclopts needs a second for so many options, and help should be there at once: neither it nor torch is imported here.
"""

import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from headway.config.train import TrainConfig

DESCRIPTION = """Train a model on files, folders or embedded sources.

A run has a directory of its own (--out): the settings, metrics.jsonl,
checkpoints, the finished model and report.html. Ctrl-C stops it; --resume
goes on, to the same weights as if it had never stopped. Settings come from
defaults, a file (--config), variables such as HEADWAY_TRAIN_OPTIM__RATE, and
this command line; a later one replaces an earlier one.

For example:

    headway train book.txt --out runs/book
    headway train --config recipes/shakespeare.yaml
    headway train pairs.tsv --task seq2seq --steps 5000
    headway train reviews.csv --task classify --model.start models/bert
    headway train --out runs/book --resume --steps 4000
    torchrun --nproc-per-node 2 -m headway train book.txt --out runs/book
"""


@dataclass(frozen=True)
class Option:
    """One line of the help."""

    name: str
    value: str  # what follows it: INT, CHOICE …; empty for a flag
    text: str
    default: str = ""


# The options of the command itself; all others are settings.
COMMAND = [
    Option("DATA", "", "Files, folders, globs, `-` for stdin, or sources by name: python, stdlib, digits, "
           "gettext:Django:es, cldr:es."),
    Option("--out", "PATH", "The run's directory (-o).", "runs/ and the name of the data"),
    Option("--resume", "", "Go on from the newest checkpoint in --out."),
    Option("--config", "PATH", "Settings in a YAML, TOML or JSON file.", "none"),
    Option("--overwrite", "", "Replace a run that is there already."),
    Option("--print-config", "", "Print the settings as YAML, and stop."),
    Option("--dry-run", "", "Read the data and build the model, say what would be trained, and stop."),
    Option("--force", "", "Try sizes that are refused because this machine cannot hold them."),
    Option("--json", "", "At the end, print the run as a JSON object instead of the model's path."),
    Option("--help", "", "The settings people use first."),
    Option("--help-all", "", "All settings."),
]  # fmt: skip

# Topic -> its settings: a group of TrainConfig, or single ones.
TOPICS: dict[str, tuple[str, ...]] = {
    "Run": tuple(one.name for one in COMMAND),
    "Training": ("--task", "--objectives", "--steps", "--batch", "--accumulate", "--length", "--seed", "--dtype",
                 "--checkpointing", "--compile", "--smoothing"),
    "Data": ("--data.",),
    "Tokenizer": ("--tokenizer.",),
    "Model": ("--model.",),
    "Adapters (LoRA) and frozen parts": ("--lora.", "--freeze"),
    "Preferences (DPO)": ("--dpo.",),
    "Distillation": ("--distil.",),
    "Optimiser": ("--optim.",),
    "Schedule of the learning rate": ("--schedule.",),
    "Evaluation": ("--evaluate-every", "--evaluate-batches", "--patience", "--samples", "--scored"),
    "Checkpoints and logs": ("--save-every", "--keep", "--log-every", "--tensorboard"),
    "Processes (torchrun)": ("--parallel.",),
}  # fmt: skip

# The settings people use first, each with an example.
FIRST = {
    "DATA": "headway train book.txt",
    "--out": "--out runs/book",
    "--resume": "headway train --out runs/book --resume",
    "--config": "--config recipes/shakespeare.yaml",
    "--json": "headway train book.txt --json",
    "--task": "--task classify",
    "--steps": "--steps 5000",
    "--batch": "--batch 32",
    "--length": "--length 256",
    "--data.validation": "--data.validation test.txt",
    "--tokenizer.kind": "--tokenizer.kind character",
    "--model.preset": "--model.preset gpt2",
    "--model.start": "--model.start models/bert",
    "--model.layers": "--model.layers 6",
    "--model.width": "--model.width 384",
    "--model.heads": "--model.heads 6",
    "--optim.kind": "--optim.kind muon",
    "--optim.rate": "--optim.rate 3e-4",
    "--schedule.warmup": "--schedule.warmup 200",
    "--evaluate-every": "--evaluate-every 500",
}


def help_text(*, every: bool, width: int | None = None) -> str:
    """The help as text, with the first settings or with every one."""
    columns = width or min(shutil.get_terminal_size((80, 24)).columns, 110)
    rest = "" if every else "\nAll settings: headway train --help-all. More: docs/train.md\n"
    return f"Usage: headway train [DATA...] [OPTIONS]\n\n{DESCRIPTION}\n{''.join(_topics(every, columns))}{rest}"


def option_names() -> list[str]:
    return [one.name for one in (*COMMAND[1:], *settings())]


def settings() -> Iterator[Option]:
    """Every setting of a run as an option."""
    for name, field in TrainConfig.model_fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        if inner is None:
            yield _option(name, field)
        else:
            yield from (_option(f"{name}.{part}", one) for part, one in inner.items())


def _option(name: str, field: Any) -> Option:
    kind = _plain(field.annotation)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    default = field.default
    if isinstance(default, dict):
        default = [f"{key}={value:g}" for key, value in default.items()]
    shown = (
        " ".join(map(str, default)) if isinstance(default, tuple | list) else "" if default is None else str(default)
    )
    text = (field.description or "") + (f" One of {', '.join(choices)}." if choices else "")
    value = "" if kind is bool else "CHOICE" if choices else _value(kind)
    return Option(f"--{name.replace('_', '-')}", value, text, "" if kind is bool else shown)


def _plain(kind: Any) -> Any:
    """A type without None and without its limits."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if isinstance(kind, UnionType) or (get_origin(kind) is not None and type(None) in get_args(kind)):
        return _plain(next(one for one in get_args(kind) if one is not type(None)))
    return kind


def _value(kind: Any) -> str:
    """What follows an option.

    >>> _value(int), _value(tuple[str, ...]), _value(tuple[float, float])
    ('INT', 'STR...', 'FLOAT FLOAT')
    """
    if get_origin(kind) is tuple:
        parts = [_value(_plain(one)) for one in get_args(kind) if one is not Ellipsis]
        return " ".join(parts) + ("..." if Ellipsis in get_args(kind) else "")
    return "" if get_origin(kind) is dict else kind.__name__.upper()


def _topics(every: bool, columns: int) -> Iterator[str]:
    known = [*COMMAND, *settings()]
    for topic, names in TOPICS.items():
        found = [
            one for one in known if one.name in names or one.name.startswith(tuple(n for n in names if n[-1] == "."))
        ]
        lines = [_lines(one, columns, example=not every) for one in found if every or one.name in FIRST]
        if lines:
            yield f"\n{topic}\n{''.join(lines)}"


def _lines(option: Option, columns: int, *, example: bool) -> str:
    """The option on the left, its text, default and example on the right."""
    left = f"  {option.name} {option.value}".rstrip()
    notes = [f"Default: {option.default}."] if option.default else []
    notes += [f"Example: {FIRST[option.name]}"] if example else []
    wrapped = textwrap.wrap(" ".join([option.text, *notes]), columns - 30) or [""]
    head = [left] if len(left) > 28 else []
    first = [] if head else [f"{left:<30}{wrapped.pop(0)}"]
    return "".join(f"{line}\n" for line in (*head, *first, *(" " * 30 + line for line in wrapped)))
