"""JSON schemas as patterns: every text that matches is JSON that the schema accepts.

Keys come in the order of `properties`; one space may follow a colon and a comma. What a finite automaton cannot follow
(references to an outer schema, `uniqueItems`, bounds of numbers) is refused by its name.

>>> point = json_schema('{"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}')
>>> point.accepts(point.after(point.start, b'{"x": -7}')), point.after(point.start, b'{"y"')
(True, None)
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from headway.decoding.automaton import Automaton, BytePattern, Part, chars, choice, repeat, sequence, text
from headway.decoding.regex import regex_part

DEEPEST = 3  # arrays and objects inside of a value that the schema leaves open
ANNOTATIONS = {
    "title", "description", "default", "examples", "$schema", "$id", "$comment", "$defs", "definitions", "readOnly",
    "writeOnly", "deprecated",
}  # fmt: skip
OF_TYPE = {
    "string": {"minLength", "maxLength", "pattern"}, "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties"},
}  # fmt: skip
TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")

ESCAPED = [(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)]  # what JSON writes with a backslash
SPACE = repeat(text(" "), 0, 1)
CHARACTER = choice(
    chars((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF)),
    sequence(text("\\"), choice(*map(text, '"\\/bfnrt'))),
    # Half of a character, written as \\ud83d, is no text: those are left out.
    sequence(text("\\u"), regex_part("[0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}")),
)
INTEGER = regex_part("-?(0|[1-9][0-9]*)")
NUMBER = regex_part(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")


@lru_cache(maxsize=64)
def json_schema(schema: str) -> BytePattern:
    """The pattern of a schema, which is given as JSON."""
    found = json.loads(schema)
    try:
        return BytePattern(_Schema(found).part(found))
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"this is no JSON schema: {error}") from None


def _string(character: Part = CHARACTER, least: int = 0, most: int | None = None) -> Part:
    return sequence(text('"'), repeat(character, least, most), text('"'))


def _array(item: Part, least: int = 0, most: int | None = None) -> Part:
    """[item, item, ...]"""
    if most is not None and most < max(1, least):
        if most < least:
            raise ValueError(f"no array has at least {least} and at most {most} items")
        return text("[]")
    more = sequence(text(","), SPACE, item)
    some = sequence(item, repeat(more, max(0, least - 1), None if most is None else most - 1))
    return sequence(text("["), some if least else choice(sequence(), some), text("]"))


def _anything(depth: int = DEEPEST) -> Part:
    """Any value, with arrays and objects inside of each other so deep."""
    scalar = choice(_string(), NUMBER, *map(text, ("true", "false", "null")))
    if depth == 0:
        return scalar
    inner = _anything(depth - 1)
    entry = sequence(_string(), text(":"), SPACE, inner)
    entries = sequence(text("{"), choice(sequence(), _listed(entry)), text("}"))
    return choice(scalar, sequence(text("["), choice(sequence(), _listed(inner)), text("]")), entries)


def _listed(item: Part) -> Part:
    """item, item, ...: one or more, with the states of one item."""

    def build(automaton: Automaton, after: int) -> int:
        behind = automaton.state(after)
        start = item(automaton, behind)
        automaton.empty[behind].append(sequence(text(","), SPACE)(automaton, start))
        return start

    return build


class _Schema:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._open: list[str] = []  # references that are being operations_are_followed

    def part(self, schema: Any) -> Part:
        if schema is True or schema == {}:
            return _anything()
        if not isinstance(schema, Mapping):
            raise ValueError(f"a JSON schema is an object, not {schema!r}")
        said = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
        if "$ref" in said:
            return self._reference(**said)
        if "anyOf" in said:
            self._only(said, {"anyOf"})
            return choice(*map(self.part, said["anyOf"]))
        if "const" in said or "enum" in said:
            self._only(said, {"type", "const", "enum"})
            values = [said["const"]] if "const" in said else said["enum"]
            return choice(*(text(json.dumps(value, ensure_ascii=False)) for value in values))
        kinds = said.get("type")
        if kinds is None:
            raise ValueError(f"a JSON schema with {', '.join(said)} and no type is not followed: give it a type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        self._only(said, {"type"}.union(*(OF_TYPE.get(str(kind), set()) for kind in kinds)))
        return choice(*(self._of_type(kind, said) for kind in kinds))

    def _of_type(self, kind: Any, said: Mapping[str, Any]) -> Part:
        if kind == "string":
            return self._text(said)
        if kind == "array":
            item = self.part(said.get("items", True))
            return _array(item, said.get("minItems", 0), said.get("maxItems"))
        if kind == "object":
            return self._object(said)
        if kind == "boolean":
            return choice(text("true"), text("false"))
        simple = {"number": NUMBER, "integer": INTEGER, "null": text("null")}
        if kind not in simple:
            raise ValueError(f"a JSON schema has no type {kind!r}; there are {', '.join(TYPES)}")
        return simple[kind]

    def _text(self, said: Mapping[str, Any]) -> Part:
        if "pattern" not in said:
            return _string(least=said.get("minLength", 0), most=said.get("maxLength"))
        self._only(said, {"type", "pattern"})
        pattern = str(said["pattern"])
        if not (pattern.startswith("^") and pattern.endswith("$")):
            raise ValueError(f"the pattern {pattern!r} of a string may match anywhere in it: write it as ^...$")
        return sequence(text('"'), regex_part(pattern[1:-1], without=ESCAPED), text('"'))

    def _object(self, said: Mapping[str, Any]) -> Part:
        properties, required = said.get("properties"), set(said.get("required", ()))
        if said.get("additionalProperties", False) not in (False, True):
            raise ValueError("additionalProperties with a schema is not followed: list them as properties")
        if properties is None:
            return sequence(text("{"), choice(sequence(), _listed(self._entry_of_anything())), text("}"))
        if missing := required - properties.keys():
            raise ValueError(f"the property {min(missing)!r} is required, and properties does not have it")
        entries = [
            (name in required, sequence(text(json.dumps(name, ensure_ascii=False) + ":"), SPACE, self.part(value)))
            for name, value in properties.items()
        ]

        def build(automaton: Automaton, after: int) -> int:
            """From the last property to the first: the state before it where one was written already, or none."""
            end = text("}")(automaton, after)
            written, nothing = end, end
            for needed, entry in reversed(entries):
                here = entry(automaton, written)
                comma = sequence(text(","), SPACE)(automaton, here)
                written = comma if needed else automaton.state(comma, written)
                nothing = here if needed else automaton.state(here, nothing)
            return text("{")(automaton, nothing)

        return build

    @staticmethod
    def _entry_of_anything() -> Part:
        return sequence(_string(), text(":"), SPACE, _anything(DEEPEST - 1))

    def _reference(self, **said: Any) -> Part:
        self._only(said, {"$ref"})
        name = str(said["$ref"])
        if name in self._open:
            raise ValueError(f"the schema refers to itself ({name}), which no finite automaton can follow")
        found: Any = self._root
        for step in name.removeprefix("#").strip("/").split("/") if name != "#" else []:
            found = found.get(step) if isinstance(found, Mapping) else None
        if not name.startswith("#") or found is None or name == "#":
            raise ValueError(f"the reference {name!r} is to nothing in the schema: use #/$defs/...")
        self._open.append(name)
        part = self.part(found)
        self._open.pop()
        return part

    @staticmethod
    def _only(said: Mapping[str, Any], known: set[str]) -> None:
        if unknown := sorted(said.keys() - known):
            raise ValueError(f"{unknown[0]!r} of a JSON schema is not followed here: leave it out")
