"""Published sizes by name: configurations without weights.

>>> preset("gpt2").stack.layers
12
>>> preset("gpt2_xl") == preset("gpt2-xl")
True
"""

from collections.abc import Callable, Iterator
from importlib import import_module

from headway.config import Frozen, nearest

# Every file holds PRESETS: name -> a function that makes the configuration.
FILES = ("gpt2", "llama", "gemma", "decoders", "bert", "encoders", "seq2seq", "vision", "seeds")


def names() -> Iterator[str]:
    """All names, in the order in which the files list them."""
    return iter(_all())


def preset(name: str) -> Frozen:
    """The configuration of a published model; underscores and capitals are accepted."""
    known = _all()
    wanted = spelled(name)
    if wanted not in known:
        raise ValueError(f"there is no preset {name!r}{nearest(wanted, known)}; `headway info` lists them")
    return known[wanted]()


def spelled(name: str) -> str:
    """A name as the tables have it."""
    return name.lower().replace("_", "-")


def _all() -> dict[str, Callable[[], Frozen]]:
    tables = [import_module(f"headway.presets.{file}").PRESETS for file in FILES]
    return {name: make for table in tables for name, make in table.items()}
