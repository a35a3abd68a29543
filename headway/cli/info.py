"""`headway info`: a model as a tree, with shapes and parameters."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headway.cli.output import STDOUT, Output

if TYPE_CHECKING:
    from headway.hub.describe import Description
    from headway.models.outline import Node
    from headway.render import Table


def info(
    target: str | None = None,
    /,
    *,
    force: Annotated[bool, Parameter(negative="")] = False,
    output: Output = STDOUT,
) -> int:
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
    force
        Try sizes that are refused because this machine cannot hold them, or nobody could wait for them.
    """
    output.check()
    if target is None:
        return _list_presets(output)
    # torch takes seconds to import, and --help must not wait for it
    from headway.hub.describe import describe
    from headway.hub.target import hidden

    found = describe(target)
    if name := hidden(target):
        print(f"note: {target} is a directory here; the preset of that name is preset:{name}", file=sys.stderr)
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
    text = lambda console: _print_tree(console, found)  # noqa: E731
    output.write([_table(found)], record=found.as_json(), title=target, notes=list(_summary(found)), text=text)
    return 0


def _list_presets(output: Output) -> int:
    from headway.presets import names, preset
    from headway.render import Table

    rows = [(name, preset(name).kind_or_name()) for name in names()]
    record = [{"name": name, "kind": kind} for name, kind in rows]

    def text(console) -> None:
        for name, kind in rows:
            console.print(f"{name:<24}{kind}", highlight=False, markup=False)

    output.write([Table("Presets", ("name", "kind"), rows)], record=record, text=text)
    return 0


def _table(found: "Description") -> "Table":
    """A line for each module, by its path."""
    from headway.render import Table

    return Table("", ("module", "shape", "parameters"), list(_modules(found.tree, "")))


def _modules(node: "Node", above: str) -> Iterator[tuple[str, str, int]]:
    path = f"{above}.{node.name}" if above else node.name
    yield path, _shape(node), node.parameters
    for child in node.children:
        yield from _modules(child, path)


def _print_tree(console, found: "Description") -> None:
    from headway.render.table import Table, print_tables

    print_tables(console, "", [Table("", ("", "shape", "parameters"), list(_rows(found.tree, "", "")))])
    for line in _summary(found):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _rows(node: "Node", branch: str, below: str) -> Iterator[tuple[str, str, int]]:
    """One line per module; those in it are indented under it."""
    yield f"{branch}{node.name}", _shape(node), node.parameters
    for child in node.children:
        last = child is node.children[-1]
        yield from _rows(child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))


def _shape(node: "Node") -> str:
    shapes = [" × ".join(map(str, shape)) for _, shape in node.shapes] + [f"{name} shared" for name in node.shared]
    times = [f"{node.repeats} times {node.parameters // node.repeats:,}"] if node.repeats > 1 else []
    return ": ".join([*times, *([" + ".join(shapes)] if shapes else [])])


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
    from headway.render import byte_size

    return ", ".join(f"{byte_size(size)} in {dtype}" for dtype, size in sizes.items())
