"""What `package.module:NAME` names: a function or a record of one's own, also from the directory one works in."""

import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from headway.config.base import nearest

_NAMED = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)")


def split_name(text: str) -> tuple[str, str] | None:
    """Module and name of `package.module:NAME`; None where the text has another form.

    >>> split_name("json:dumps"), split_name("runs/first")
    (('json', 'dumps'), None)
    """
    found = _NAMED.fullmatch(text)
    return None if found is None else (found[1], found[2])


def import_named(module: str, name: str) -> Any:
    """The attribute `name` of a module; what cannot be had is a ValueError in one sentence.

    >>> import_named("json", "dmps")
    Traceback (most recent call last):
    ValueError: json has no 'dmps' (did you mean dumps?)
    """
    holder = _module(module)
    found = getattr(holder, name, None)
    if found is None:
        raise ValueError(f"{module} has no {name!r}{nearest(name, vars(holder))}")
    return found


def _module(name: str) -> ModuleType:
    """The module, also from the directory that the command is given in, as `python -m` would find it."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        if not _exists(name):
            raise ValueError(f"there is no module {name!r}, neither installed nor in {here}")
        return import_module(name)
    except ImportError as error:
        raise ValueError(f"{name} cannot be imported: {error}") from None
    finally:
        sys.path.remove(here)


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):  # its package does not exist, or is no package
        return False
