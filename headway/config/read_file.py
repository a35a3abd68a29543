"""The one reader of small structured files: JSON, YAML, TOML. Any file that is no such thing is refused in a sentence.

Only regular files are opened, so that no pipe or device is waited for. Size, depth and what YAML's aliases would become
are limited before anything is built.
"""

import errno
import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from headway.config.size_limits import DEPTH, JSON_BYTES, SETTINGS_BYTES, YAML_NODES

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same in C, where it was built: many runs are read at once
_KINDS = {
    stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}  # fmt: skip
# What the parsers raise for files that people could write; narrower than Exception, so that our own mistakes show.
_DAMAGE = (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def open_file(path: str | Path) -> BinaryIO:
    """A regular file, open to be read; a pipe or a device is refused and never waited for.

    >>> open_file("/dev/zero")
    Traceback (most recent call last):
    ValueError: /dev/zero is a device, and a regular file is expected
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError(_why_not_open(path, error)) from None
    except ValueError as error:  # a name with a zero byte
        raise ValueError(f"{str(path)!r} is no name of a file: {error}") from None
    kind = stat.S_IFMT(os.fstat(handle).st_mode)
    if kind != stat.S_IFREG:
        os.close(handle)
        raise ValueError(f"{path} is {_KINDS.get(kind, 'something else')}, and a regular file is expected")
    return os.fdopen(handle, "rb")


def _why_not_open(path: str | Path, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return f"{path}: no such file or directory"
    if error.errno == errno.ENXIO:  # how the system refuses a socket
        return f"{path} is a socket, and a regular file is expected"
    return f"{path} cannot be read: {(error.strerror or str(error)).lower()}"


def read_bytes(path: str | Path, limit: int = JSON_BYTES) -> bytes:
    """All of a small file; one with more than `limit` bytes is refused unread."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = (
            b"" if size > limit else file.read(size + 1)
        )  # not the limit: room for all that is asked is made first
    if max(size, len(content)) > limit:
        raise ValueError(f"{path} has {max(size, len(content)):,} bytes, and such a file at most {limit:,}")
    return content


def read_text(path: str | Path, limit: int = JSON_BYTES) -> str:
    """The same as UTF-8 text, with or without a mark of byte order."""
    try:
        return read_bytes(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}") from None


def read_json(path: str | Path, limit: int = JSON_BYTES) -> Any:
    """What a JSON file holds."""
    return parse_json(read_text(path, limit), path)


def read_object(path: str | Path, limit: int = JSON_BYTES) -> dict[str, Any]:
    """The object in a JSON file; anything else is refused by name."""
    found = read_json(path, limit)
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds {type(found).__name__} where an object is expected")
    return found


def read_settings(path: str | Path) -> Any:
    """What a file holds by the ending of its name: .json, .toml, and YAML otherwise."""
    ending = Path(path).suffix
    if ending == ".json":
        return read_json(path)
    text = read_text(path, SETTINGS_BYTES)
    return parse_toml(text, path) if ending == ".toml" else parse_yaml(text, path)


def parse_json(text: str | bytes, name: object) -> Any:
    """What JSON says; `name` is how a sentence calls it.

    >>> parse_json("[" * 100_000, "deep.json")
    Traceback (most recent call last):
    ValueError: deep.json is nested more than 64 levels deep
    """
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError(_too_deep(name)) from None
    except json.JSONDecodeError as error:
        line = "" if "\n" not in error.doc else f"line {error.lineno}, "
        raise ValueError(f"{name} is not valid JSON: {error.msg} at {line}character {error.colno}") from None
    except ValueError as error:  # no UTF-8, or a number of thousands of digits
        raise ValueError(f"{name} is not valid JSON: {error}") from None
    check_depth(found, name)
    return found


def parse_yaml(text: str, name: object) -> Any:
    """What YAML says; keys are text, tags and aliases that refer to themselves are refused.

    >>> parse_yaml("steps: 20", "run.yaml")
    {'steps': 20}
    >>> parse_yaml("2: steps", "run.yaml")
    Traceback (most recent call last):
    ValueError: run.yaml has the key 2, which is int and not text: put quotes around it
    """
    try:
        _check_events(text, name)
        found = yaml.load(text, _LOADER)
    except _Refused as error:
        raise ValueError(str(error)) from None
    except _DAMAGE as error:
        raise ValueError(f"{name} is not valid YAML: {' '.join(str(error).split())}") from None
    _check_keys(found, name)
    return found


def parse_toml(text: str, name: object) -> dict[str, Any]:
    """What TOML says."""
    # The parser's time grows with the square of the parts of a dotted key.
    if max(part.count(".") for part in re.split(r"[=,{}\[\]\n]", text)) > 16 * DEPTH:
        raise ValueError(_too_deep(name))
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise ValueError(_too_deep(name)) from None
    except _DAMAGE as error:
        raise ValueError(f"{name} is not valid TOML: {error}") from None
    check_depth(found, name)
    return found


def check_depth(found: Any, name: object) -> None:
    """Refuse what is nested deeper than any file needs, before a function that calls itself meets it."""
    level = [found]
    for _ in range(DEPTH + 1):
        level = [child for one in level for child in _children(one) if isinstance(child, dict | list)]
        if not level:
            return
    raise ValueError(_too_deep(name))


def _children(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


class _Refused(Exception):
    """A sentence of ours, among the errors of a parser."""


def _check_events(text: str, name: object) -> None:
    """Depth and expanded size from the stream of events, before a tree is built: the C loader crashes on a deep one."""
    sizes: dict[str, int] = {}  # anchor -> nodes behind it, aliases written out
    parents: list[tuple[str | None, int]] = []  # the collections that are open: anchor, nodes before them
    nodes = 0
    for event in yaml.parse(text, _LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            parents.append((event.anchor, nodes))
            if len(parents) > DEPTH:
                raise _Refused(_too_deep(name))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = parents.pop()
            sizes |= {anchor: nodes - before + 1} if anchor else {}
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise _Refused(f"{name} is not valid YAML: the alias *{event.anchor} stands for nothing before it")
            nodes += sizes[event.anchor] - 1
        elif isinstance(event, yaml.ScalarEvent) and event.anchor:
            sizes[event.anchor] = 1
        nodes += isinstance(event, yaml.NodeEvent)
        if nodes > YAML_NODES:
            raise _Refused(f"{name} holds more than {YAML_NODES:,} values, its aliases written out")


def _check_keys(found: Any, name: object) -> None:
    level = [found]
    while level:
        for one in level:
            for key in one if isinstance(one, dict) else ():
                if not isinstance(key, str):
                    raise ValueError(
                        f"{name} has the key {key}, which is {type(key).__name__} and not text: put quotes around it"
                    )
        level = [child for one in level for child in _children(one) if isinstance(child, dict | list)]


def _too_deep(name: object) -> str:
    return f"{name} is nested more than {DEPTH} levels deep"
