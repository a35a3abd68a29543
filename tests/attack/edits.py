"""Damage as data: an edit is a list of JSON, `[file, kind, *arguments]`, so that a finding is a short recipe.

    ["config.json", "set", ["rope_scaling", "factor"], "null"]      a value in a tree of JSON
    ["model.safetensors", "header", ["w", "shape"], "[-1]"]         the same in the header of a safetensors file
    ["source.spm", "flip", 117, 3]                                  a bit of a byte
    ["rows.csv", "line", 4, "a\\tb"]                                a line of text
    ["vocab.json", "whole", "deep:200000"]                          the whole file
    ["config.json", "node", "fifo"]                                 something else in its place

`draw` makes an edit that suits a file; `apply` carries it out. Values are JSON text, or `deep:N` (N brackets) or
`long:N` (a string of N letters).
"""

import json
import os
import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Edit = list[Any]

NUMBERS = [
    "0",
    "-1",
    "1",
    "2",
    "3",
    "7",
    "1.5",
    "-0.0",
    "1e308",
    "-1e308",
    "1e-320",
    "NaN",
    "Infinity",
    "-Infinity",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "-9223372036854775809",
    "1" + "0" * 40,
    "65536",
    "100000",
]
TEXTS = [
    '""',
    '"x"',
    '"0"',
    '"-1"',
    '"1e9"',
    '"nan"',
    '"null"',
    '"../../etc/passwd"',
    '"/dev/zero"',
    '"a\\u0000b"',
    '"\\ud800"',
    '"\\n\\t\\u001b[31m"',
    '"gelu"',
    '"float32"',
    '"os:system"',
    '"<script>"',
    '"%s{0}"',
    "long:300",
    "long:1000000",
    '"{% for a in range(999999999) %}x{% endfor %}"',
    '"{{ messages.__class__.__mro__ }}{{ 9 ** 9 ** 9 }}"',
    '"(a{1,9999}){1,9999}"',
]
OTHERS = [
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "[null]",
    "[[1]]",
    "[1, 2]",
    '{"a": 1}',
    '{"": null}',
    '["a"]',
    '[["a", "b"]]',
    '{"0": "a", "1": "b"}',
    "deep:500",
    "deep:100000",
]
VALUES = [*NUMBERS, *TEXTS, *OTHERS]
WHOLES = [
    "",
    "null",
    "[]",
    "{}",
    "0",
    '"text"',
    "deep:100000",
    "objects:50000",
    "long:100000",
    "\ufeff{}",
    "{",
    "[1,",
    "\x00" * 64,
    "a: &a [*a]\n",
    "? [1, 2]\n: 3\n",
    "1: 2\n",
    "!!python/object/apply:os.system [ls]\n",
    "- 1\n- 2\n",
    "#version: 0.2\n",
    "a b\nc\n",
    "\n\n\n",
    "\t\t\t\n",
    '"unclosed,\n',
    "%PDF-1.4\n%!PS\n",
    "\udcff\udcfe",
]
LINES = [
    "",
    "\t",
    "a\tb\tc\td",
    '"',
    '"a,b',
    "null",
    "{}",
    '{"text": null}',
    '{"text": [], "label": {}}',
    "deep:100000",
    "long:1200000",
    "\x00",
    "\udcff",
    "\ud7ff",
    "1 2 3",
    "(((a*)*)*)*b{0,99999}",
    "[^\\d-",
    "x y",
    "NaN",
    '{"kind": 3}',
    '{"kind": "train", "step": "x"}',
    '{"kind": "train", "step": 1e999, "loss": null}',
    '{"kind": "validation", "step": -1, "loss": "a"}',
]
NODES = ["missing", "directory", "fifo", "zero", "loop", "empty", "unreadable"]
TREES = (".json", ".yaml", ".toml")
TEXT_FILES = (".txt", ".csv", ".tsv", ".jsonl", ".yaml", ".toml")


def draw(chance: random.Random, place: Path, file: str) -> Edit:
    """An edit that suits this file."""
    path = place / file
    share = chance.random()
    if share < 0.02:
        return [file, "node", chance.choice(NODES)]
    if share < 0.07:
        return [file, "whole", chance.choice(WHOLES)]
    if path.suffix in TREES and share < 0.85:
        return _tree(chance, file, "set", _parsed(path))
    if path.suffix == ".safetensors" and share < 0.6:
        return _tree(chance, file, "header", _header(path.read_bytes())[0])
    if path.suffix == ".jsonl" and share < 0.5:
        rows = path.read_bytes().splitlines()
        number = chance.randrange(len(rows))
        edit = _tree(chance, file, "set", json.loads(rows[number]))
        return [file, "row", number, edit[2], edit[3]]
    if path.suffix in TEXT_FILES and share < 0.7:
        return [file, "line", chance.randrange(len(path.read_bytes().splitlines()) + 1), chance.choice(LINES)]
    return _bytes(chance, file, path.stat().st_size)


def _tree(chance: random.Random, file: str, kind: str, tree: Any) -> Edit:
    places = list(_places(tree))
    path = chance.choice(places)
    value = chance.choice(["delete", "copy", *VALUES] if path else VALUES)
    if value == "copy":  # a value of the right sort for somewhere else
        value = json.dumps(_at(tree, chance.choice(places)), default=str)
    number = _at(tree, path)
    if isinstance(number, int | float) and not isinstance(number, bool) and chance.random() < 0.3:
        value = json.dumps(chance.choice([number + 1, number - 1, number * 2, -number, number * 1000, float(number)]))
    if chance.random() < 0.05:
        path, value = [*path[:-1], chance.choice(["", "x", "0", "a\tb", "\ud800", "__class__", "model_type"])], value
    return [file, kind, path, value]


def _bytes(chance: random.Random, file: str, size: int) -> Edit:
    at, many = chance.randrange(max(size, 1)), chance.choice([1, 2, 8, 64, 1000])
    kind = chance.choice(["flip", "flip", "cut", "zero", "drop", "twice", "put"])
    if kind == "flip":
        return [file, kind, at, chance.randrange(8)]
    return (
        [file, kind, at]
        if kind == "cut"
        else [file, kind, at, many if kind != "put" else chance.randbytes(many % 9).hex()]
    )


def _places(tree: Any, path: tuple[Any, ...] = (), depth: int = 0) -> Iterator[list[Any]]:
    """The paths of a tree; of a long list the first and the last few."""
    yield list(path)
    rows = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    for key, value in rows if len(rows) < 60 else [*rows[:6], *rows[-3:]]:
        yield from _places(value, (*path, key), depth + 1)


def _at(tree: Any, path: list[Any]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _parsed(path: Path) -> Any:
    if path.suffix == ".toml":
        import tomllib

        return tomllib.loads(path.read_text())
    return yaml.safe_load(path.read_text()) if path.suffix == ".yaml" else json.loads(path.read_bytes())


def raw(value: str) -> str:
    """The text that stands for a value."""
    kind, _, count = value.partition(":")
    if kind == "deep" and count.isdigit():
        return "[" * int(count) + "]" * int(count)
    if kind == "objects" and count.isdigit():
        return '{"a":' * int(count) + "1" + "}" * int(count)
    return json.dumps("x" * int(count)) if kind == "long" and count.isdigit() else value


def apply(place: Path, edits: list[Edit]) -> None:
    """Carry out edits on the files of a directory; one that no longer fits, because its file is gone, is left out."""
    for file, kind, *arguments in edits:
        path = place / file
        if path.is_symlink() or not path.is_file():
            continue
        try:
            if kind == "node":
                _replace(path, *arguments)
                continue
            content = EDITS[kind](path.read_bytes(), path, *arguments)
        except (
            OSError,
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            struct.error,
            yaml.YAMLError,
            RecursionError,
        ):
            continue
        path.unlink()  # it may be a hard link
        path.write_bytes(content)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape" if "\ud800" not in text else "surrogatepass")


def _set(tree: Any, path: list[Any], value: str) -> str:
    """The tree as JSON text, with another value at a path."""
    if not path:
        return raw(value)
    node = _at(tree, path[:-1])
    if value == "delete":
        del node[path[-1]]
        return json.dumps(tree, default=str)
    mark = "@@here@@"
    if isinstance(node, list) and path[-1] == len(node):
        node.append(mark)
    else:
        node[path[-1]] = mark
    return json.dumps(tree, default=str).replace(json.dumps(mark), raw(value))


def _set_file(content: bytes, path: Path, where: list[Any], value: str) -> bytes:
    if path.suffix != ".toml":
        return _encoded(_set(_parsed(path), where, value))
    pattern = rf"(?m)^{re.escape(str(where[-1] if where else ''))} = .*$"
    return re.sub(pattern, lambda _: f"{where[-1]} = {raw(value)}", content.decode()).encode()


def _row(content: bytes, path: Path, number: int, where: list[Any], value: str) -> bytes:
    rows = content.splitlines()
    rows[number] = _encoded(_set(json.loads(rows[number]), where, value))
    return b"\n".join(rows) + b"\n"


def _header(content: bytes) -> tuple[Any, bytes]:
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def _set_header(content: bytes, path: Path, where: list[Any], value: str) -> bytes:
    tree, body = _header(content)
    text = _encoded(_set(tree, where, value))
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def _line(content: bytes, path: Path, number: int, text: str) -> bytes:
    rows = content.split(b"\n")
    return b"\n".join([*rows[:number], _encoded(raw(text)), *rows[number + (number % 2) :]])


def _flip(content: bytes, path: Path, at: int, bit: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


EDITS: dict[str, Any] = {
    "set": _set_file,
    "row": _row,
    "header": _set_header,
    "line": _line,
    "flip": _flip,
    "whole": lambda content, path, text: _encoded(raw(text)),
    "cut": lambda content, path, at: content[:at],
    "zero": lambda content, path, at, many: content[:at] + bytes(len(content[at : at + many])) + content[at + many :],
    "drop": lambda content, path, at, many: content[:at] + content[at + many :],
    "twice": lambda content, path, at, many: content[: at + many] + content[at:],
    "put": lambda content, path, at, text: content[:at] + bytes.fromhex(text) + content[at:],
    "stamp": lambda content, path: _stamped(content),
}


def _stamped(content: bytes) -> bytes:
    """A checkpoint's manifest with the right hash of itself, as somebody who wants to deceive would write it."""
    from headway.training.manifest import stamp

    body = json.loads(content)
    body.pop("sha256", None)
    return json.dumps({**body, "sha256": stamp(body)}).encode()


def _replace(path: Path, node: str) -> None:
    """Something else in a file's place."""
    path.unlink()
    if node == "directory":
        path.mkdir()
    elif node == "fifo":
        os.mkfifo(path)
    elif node in ("zero", "loop"):
        path.symlink_to("/dev/zero" if node == "zero" else path)
    elif node in ("empty", "unreadable"):
        path.write_bytes(b"")
        path.chmod(0o644 if node == "empty" else 0)
