"""A plan as the command that carries it out."""

from collections.abc import Iterator, Mapping
from shlex import join
from typing import Any

from headway.app.settings import merged

FIRST = ("task", "model", "batch", "length", "steps")  # what is looked for first


def command_of(data: tuple[str, ...], given: Mapping[str, Any], planned: Mapping[str, Any]) -> str:
    """`headway train` with the settings that were given and those that were planned.

    >>> command_of(("a b.txt",), {"data": {"packed": True}}, {"steps": 3, "model": {"width": 8}})
    "headway train 'a b.txt' --model.width 8 --steps 3 --data.packed"
    """
    whole = merged(given, planned)
    ordered = {name: whole[name] for name in (*(one for one in FIRST if one in whole), *whole)}
    return join(["headway", "train", *data, *_words(ordered)])


def _words(settings: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in settings.items():
        option = f"{above}.{name}" if above else name
        if option == "data.train" or value is None or value is False:
            continue
        if isinstance(value, Mapping):
            yield from _words(value, option)
            continue
        for one in value if isinstance(value, tuple | list) else (value,):
            yield f"--{option.replace('_', '-')}"
            if one is not True:
                yield str(one)
