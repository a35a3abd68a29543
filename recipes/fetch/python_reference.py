"""What comes with every CPython: the language reference, and the docstrings and code of the standard library.

    python-answers    What does shutil.copytree(src, dst, ...) do?        the first paragraph of its documentation
    python-lookup     the first sentence of a function's docstring        its code; beside it other code of the module

A hard negative is the code of another function of the same module, the one that shares most words with the sentence.
Held out by a hash of the module's name (of the reference: of the entry's name): a fifth. Another version of Python has
other texts; the recipes' figures are of 3.11.
"""

import ast
import json
import re
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from pydoc_data.topics import topics
from typing import NamedTuple

from recipes.fetch.alike import words
from recipes.fetch.packages import fraction

LEFT_OUT = ("test", "tests", "idlelib", "lib2to3", "site-packages", "__pycache__", "turtledemo", "ensurepip")
CODE = 400  # characters of a function that are read
SHORTEST = 20  # characters of an answer or of a sentence


class Function(NamedTuple):
    """A documented function, class or method of the standard library."""

    module: str
    name: str
    doc: str
    code: str  # without its docstring


def make(place: Path) -> str:
    functions = list(_functions(Path(sysconfig.get_path("stdlib"))))
    answers = [*_reference(), *_answers(functions)]
    counts = _write(place, "python-answers", answers) | _write(place, "python-lookup", lookups(functions))
    return ", ".join(f"{count:,} rows in {name}" for name, count in counts.items())


def _write(place: Path, name: str, rows: Iterable[tuple[str, dict[str, str]]]) -> dict[str, int]:
    """Two files of rows, by the hash of what each belongs to."""
    parts: dict[str, list[str]] = {"train": [], "test": []}
    for group, row in rows:
        parts["test" if fraction(f"python {group}") < 0.2 else "train"].append(json.dumps(row))
    for part, lines in parts.items():
        (place / f"{name}-{part}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {f"{name}-{part}.jsonl": len(lines) for part, lines in parts.items()}


def _reference() -> Iterator[tuple[str, dict[str, str]]]:
    """Entries of the reference: a name at the beginning of a line, and its text set in."""
    seen: set[str] = set()
    for text in topics.values():
        for name, body in re.findall(r"^([A-Za-z_][\w.]*(?:\([^\n]*\))?)\n\n((?:   [^\n]*\n|\n)+)", text, re.MULTILINE):
            if name not in seen and len(answer := _paragraph(body)) >= SHORTEST:
                seen.add(name)
                yield name, {"prompt": f"What does the Python reference say of {name}?", "response": answer}


def _answers(functions: Iterable[Function]) -> Iterator[tuple[str, dict[str, str]]]:
    for one in functions:
        if len(answer := _paragraph(one.doc)) >= SHORTEST:
            yield one.module, {"prompt": f"What does {one.module}.{one.name} do?", "response": answer}


def lookups(functions: Iterable[Function]) -> Iterator[tuple[str, dict[str, str]]]:
    """Sentences, each with the code it is of and the code that it is most easily taken for."""
    modules: dict[str, list[Function]] = {}
    for one in functions:
        if one.code and len(sentence(one.doc)) >= SHORTEST:
            modules.setdefault(one.module, []).append(one)
    for module, found in modules.items():
        bags = [words(one.code) for one in found]
        for one in found:
            asked = words(sentence(one.doc))
            others = [(len(asked & bag), other.code) for other, bag in zip(found, bags, strict=True)]
            near = [code for _, code in sorted(others, reverse=True) if code != one.code]
            row = {"first": sentence(one.doc), "second": one.code}
            yield module, row | ({"negative": near[0]} if near else {"negative": ""})


def sentence(doc: str) -> str:
    """The first sentence of a docstring.

    >>> sentence("Copy a file. Then stop.")
    'Copy a file.'
    """
    return re.split(r"(?<=[.!?])\s", _paragraph(doc), maxsplit=1)[0]


def _paragraph(text: str) -> str:
    return " ".join(re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0].split())


def _functions(library: Path) -> Iterator[Function]:
    for file in sorted(library.rglob("*.py")):
        parts = file.relative_to(library).with_suffix("").parts
        if not set(LEFT_OUT) & set(parts) and not any(part.startswith("_") for part in parts):
            tree = ast.parse(file.read_bytes())
            yield from _inside(tree, ".".join(parts), "")


def _inside(tree: ast.Module | ast.ClassDef, module: str, above: str) -> Iterator[Function]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            if doc := ast.get_docstring(node):
                yield Function(module, f"{above}{node.name}", doc, "")
            yield from _inside(node, module, f"{above}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and (doc := ast.get_docstring(node)):
            name = f"{above}{node.name}({ast.unparse(node.args)})"
            node.body, node.decorator_list = node.body[1:] or [ast.Pass()], []
            yield Function(module, name, doc, ast.unparse(node)[:CODE])
