"""`headway info`: a model as a tree, with shapes and parameters."""

import json as json_format
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from headway.hub.describe import Description
    from headway.models.outline import Node


def info(target: str | None = None, /, *, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """A model as a tree: shapes, parameters, memory.

    Nothing is loaded: of a directory config.json and the headers of the weights are read, of a preset the published
    sizes. Layers of one shape are shown once; a tensor that serves in two places is counted once. Without a target, the
    presets are listed.

    For example:

        headway info
        headway info gpt2
        headway info my-model --json

    Parameters
    ----------
    target
        A run, a directory with config.json, a preset (preset:NAME where a directory has its name), or
        package.module:function that makes a model.
    json
        One object instead of a tree; without a target, a list.
    """
    if target is None:
        return _list_presets(json)
    # torch takes seconds to import, and --help must not wait for it
    from headway.hub.describe import describe
    from headway.hub.target import hidden

    found = describe(target)
    if name := hidden(target):
        print(f"note: {target} is a directory here; the preset of that name is preset:{name}", file=sys.stderr)
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
    if json:
        print(json_format.dumps(found.as_json(), indent=2))
    else:
        _print_tree(found)
    return 0


def _list_presets(json: bool) -> int:
    from headway.presets import names, preset

    rows = [{"name": name, "kind": preset(name).kind_or_name()} for name in names()]
    if json:
        print(json_format.dumps(rows, indent=2))
    for row in [] if json else rows:
        print(f"{row['name']:<24}{row['kind']}")
    return 0


def _print_tree(found: "Description") -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console = console if console.is_terminal else Console(width=120)
    table = Table(box=None, pad_edge=False, header_style="")
    table.add_column("", no_wrap=True)
    table.add_column("shape")
    table.add_column("parameters", justify="right")
    for cells in _rows(found.tree, "", ""):
        table.add_row(*cells)
    console.print(table, highlight=False)
    for line in _summary(found):
        print(line)


def _rows(node: "Node", branch: str, below: str) -> Iterator[tuple[str, str, str]]:
    """One line per module; those in it are indented under it."""
    shapes = [" × ".join(map(str, shape)) for _, shape in node.shapes] + [f"{name} shared" for name in node.shared]
    times = [f"{node.repeats} times {node.parameters // node.repeats:,}"] if node.repeats > 1 else []
    yield f"{branch}{node.name}", ": ".join([*times, *([" + ".join(shapes)] if shapes else [])]), f"{node.parameters:,}"
    for child in node.children:
        last = child is node.children[-1]
        yield from _rows(child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))


def _summary(found: "Description") -> Iterator[str]:
    layout = "" if found.family is None else f" in the layout of {found.family}"
    yield f"{found.kind}{layout}: {found.tree.parameters:,} parameters"
    yield from (f"tied: {second} is {first}" for second, first in found.tied.items())
    if found.stored is not None:
        yield f"on disk: {_sizes(found.stored)}"
    yield f"in memory: {_sizes(found.memory)}"


def _sizes(sizes: dict[str, int]) -> str:
    """Bytes by dtype.

    >>> _sizes({"float32": 497759232, "bfloat16": 13476831232})
    '497.8 MB in float32, 13.5 GB in bfloat16'
    """
    return ", ".join(f"{_bytes(size)} in {dtype}" for dtype, size in sizes.items())


def _bytes(size: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:,.1f} {unit}"
    return f"{size} bytes"
