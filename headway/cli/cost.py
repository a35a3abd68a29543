"""`headway cost`: what a model costs, before it runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from headway.cli.common import Weights
from headway.cli.output import STDOUT, Flag, Output
from headway.config.size_limits import SIZE, check_size
from headway.config.train import LoraConfig

Count = int | str | None  # a letter is for --formula alone


@Parameter(name="*")
@dataclass(frozen=True)
class Size:
    """What is asked of the model."""

    batch: Count = 1
    "Rows."
    length: Count = None
    "Tokens of a row; what the model was made for by default."
    source_length: Count = None
    "Tokens of the source, of a model that reads one; as many as of the text by default."
    past: int | None = None
    "Tokens in the cache of a decoding step; the text by default."
    new: int | None = None
    "Tokens to generate after the text."
    lengths: str | None = None
    "Real lengths of padded rows, for example 5,9."
    source_lengths: str | None = None
    "The same of the source."
    image: str | None = None
    "Pixels of a picture's side, or rows x columns, for example 384 or 384x512."
    inputs: str | None = None
    "What a module of one's own reads, where that cannot be told: tokens, vectors:2,64,8 or images:2,3,32,32."
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    "Precision of weights and activations."
    weights: Weights = None
    optimiser: str = "adamw"
    "Optimiser of a training step: adamw, adam, sgd or none."
    memory: str | None = None
    "Also the largest batch and length that fit into it, for example 8G (k M G T: powers of 1,000; Ki Mi Gi Ti: 1,024)."


@Parameter(name="*")
@dataclass(frozen=True)
class CostView:
    """How the price is shown."""

    formula: Flag = False
    "Polynomials in batch B and length L."
    explain: Flag = False
    "Line by line: formula, the same with numbers, value."
    units: Flag = False
    "The rules by which FLOPs and steps are counted."
    sweep: str | None = None
    "A table over sizes: length=128..65536 (doubling), length=128..1024:128, width=256,512; also batch, past, layers."
    plot: Path | None = None
    "Draw the sweep into this file (.png, .svg or .pdf)."
    verify: Flag = False
    "Run the model with random weights and print predicted beside measured."
    machine: Flag = False
    "Measure this machine and remember it, so that times can be predicted; takes some seconds."


@Parameter(name="*", group="The table of --latex and --markdown")
@dataclass(frozen=True)
class PaperTable:
    """One compact table, as a paper has it."""

    full: Flag = False
    "Every table of the report, in all digits, instead of the compact one."
    rows: str | None = None
    "Rows of the compact table, for example params,flops,memory; a wrong name lists them all."
    names: Annotated[list[str] | None, Parameter(name="--as", negative="")] = None
    'Name of a target in the tables, in the order of the targets: --as "Ours" --as "GPT-2".'
    label: str = "tab:cost"
    "Label of the compact table in LaTeX."
    transpose: Flag = False
    "Models down and quantities across in the compact table."


def cost(
    *targets: str,
    size: Size = Size(),
    view: CostView = CostView(),
    paper: PaperTable = PaperTable(),
    lora: Annotated[LoraConfig | None, Parameter(negative="", group="A step of adapters alone (LoRA)")] = None,
    force: Annotated[bool, Parameter(negative="")] = False,
    output: Output = STDOUT,
) -> int:
    """What a model costs: parameters, FLOPs, memory, depth, reach, bottleneck, time.

    Nothing is allocated, so a model of any size has a price at once. A
    multiply-add (MAC) is two FLOPs. Matrix products are counted three ways:
    dense (every pair of query and key), useful (the pairs that the mask
    allows) and executed (what the fast path computes); everything else
    (softmax, norms, activations) is counted apart as other FLOPs. Several
    targets stand side by side.

    For example:

        headway cost gpt2 --length 1024
        headway cost gpt2 gpt2-medium llama3-8b --length 512
        headway cost my_package:model gpt2 --latex --as Ours --as GPT-2
        headway cost llama3-70b --formula
        headway cost gpt2 --sweep length=128..1024 --plot gpt2.png
        headway cost my-model --batch 8 --memory 8G --json
        headway cost gpt2 --weights int8
        headway cost gpt2 --lora.rank 8 --length 128 --verify
        headway cost gpt2 --length 128 --verify
        headway cost --machine

    Parameters
    ----------
    targets
        A preset, a directory with config.json, a run, or package.module:function that makes a model.
    force
        Try sizes that are refused because this machine cannot hold them, or nobody could wait for them.
    """
    mode = _mode(view, targets)
    _check_table(paper, mode, output.format, targets)
    if lora is not None and (not lora.rank or mode in ("formula", "explain", "sweep")):
        raise ValueError("adapters are part of a report and of --verify, with --lora.rank of at least 1")
    output.check()
    # torch takes seconds to import, and --help must not wait for it
    from headway.cli import cost_views

    return cost_views.run(
        cost_views.Job(targets, _given(size, mode) | {"lora": lora}, mode, view, paper, output, size.memory)
    )


def _mode(view: CostView, targets: tuple[str, ...]) -> str:
    """The one thing that is asked for, or a refusal."""
    asked = {"formula": view.formula, "explain": view.explain, "units": view.units, "sweep": view.sweep is not None,
             "verify": view.verify, "machine": view.machine}  # fmt: skip
    found = [name for name, wanted in asked.items() if wanted]
    if len(found) > 1 and set(found) - {"units"}:
        raise ValueError(f"one view at a time: --{found[0]} or --{found[1]}")
    mode = found[0] if found else "report"
    if view.plot is not None and mode != "sweep":
        raise ValueError("--plot draws a sweep: add --sweep length=128..1024, for example")
    if mode == "machine" and targets:
        raise ValueError(f"--machine measures this machine and prices nothing: leave out {targets[0]!r}")
    if mode in ("units", "machine"):
        return mode
    if not targets:
        raise ValueError("a price needs a target: headway cost gpt2, for example; `headway info` lists the presets")
    return mode


def _check_table(paper: PaperTable, mode: str, kind: str, targets: tuple[str, ...]) -> None:
    """Refuse what belongs to the compact table where there is none."""
    if len(paper.names or ()) > len(targets):
        raise ValueError(f"--as names the targets in their order: {len(paper.names or ())} names for {len(targets)}")
    if paper.full and paper.rows is not None:
        raise ValueError("--rows chooses rows of the compact table, and --full prints all tables: leave one out")
    if paper.rows is not None and (mode != "report" or kind in ("json", "csv")):
        raise ValueError("--rows is for the compact table of a report, in the terminal, --latex or --markdown")


def _given(size: Size, mode: str) -> dict[str, Any]:
    """The arguments of `headway.price`."""
    return {
        "batch": _number(size.batch, "--batch", "B", mode) or 1,
        "length": _number(size.length, "--length", "L", mode),
        "source": _number(size.source_length, "--source-length", "M", mode),
        "past": None if size.past is None else check_size(size.past, SIZE, "--past"),
        "new": None if size.new is None else check_size(size.new, SIZE, "--new"),
        "lengths": _listed(size.lengths, "--lengths"),
        "source_lengths": _listed(size.source_lengths, "--source-lengths"),
        "image": _image(size.image),
        "inputs": size.inputs,
        "dtype": size.dtype,
        "weights": size.weights,
        "optimiser": size.optimiser,
    }


def _number(value: Count, option: str, letter: str, mode: str) -> int | None:
    if value is None or isinstance(value, int):
        if value is not None and value < 1:
            raise ValueError(f"{option} is at least 1, not {value}")
        return None if value is None else check_size(value, SIZE, option)
    if mode == "formula" and value == letter:
        return None
    hint = f"; --formula keeps {letter} as a letter" if value == letter else ""
    raise ValueError(f"{option} is a whole number here, not {value!r}{hint}")


def _listed(text: str | None, option: str) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"{option} are whole numbers with commas between them, for example 5,9; not {text!r}")
    return tuple(int(part) for part in parts)


def _image(text: str | None) -> int | tuple[int, int] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"--image is a side in pixels or rows x columns, for example 384 or 384x512; not {text!r}")
    return int(parts[0]) if len(parts) == 1 else (int(parts[0]), int(parts[1]))
