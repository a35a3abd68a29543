"""Small files of a model's directory."""

import json
import os
from pathlib import Path
from typing import Any


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; anything else is refused by name."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds {type(found).__name__} where an object is expected")
    return found


def read_optional(path: Path) -> dict[str, Any]:
    """The same, and nothing where there is no file."""
    return read_json(path) if path.exists() else {}


def write_json(path: Path, content: object) -> None:
    """JSON that people may read too; whole, or the file stays as it was."""
    made = path.with_name(f".{path.name}.new")
    made.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(made, path)
