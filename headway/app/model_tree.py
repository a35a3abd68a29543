"""The model of a run as a tree of a page: of its export where there is one, else of its newest checkpoint."""

import json
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.page import Branch, Html, joined, paragraph, short, tree

if TYPE_CHECKING:
    from headway.models.outline import Node


def model_tree(run: Path) -> Html | None:
    """The tree, with what is known of its size; None where there is neither an export nor a checkpoint yet."""
    if (run / "model" / "config.json").is_file() or (run / "model" / "modules.json").is_file():
        return _exported(run / "model")
    checkpoints = sorted((run / "checkpoints").glob("step-*/manifest.json"), reverse=True)
    return _kept(checkpoints[0]) if checkpoints else None


def _exported(path: Path) -> Html:
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


def _kept(manifest: Path) -> Html:
    """From the names and shapes of a checkpoint's tensors."""
    try:
        listed = json.loads(manifest.read_bytes())["tensors"]
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
