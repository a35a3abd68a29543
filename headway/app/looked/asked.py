"""What somebody asks for in Python, after a look at whether it can be asked: nobody has checked its types."""

from collections.abc import Iterable, Mapping
from operator import index
from pathlib import Path
from typing import Any

from torch import Tensor

from headway.look.reading import Given
from headway.observe.weights import Selection


def given_of(text: Any, pair: Any = None, image: Any = None, inputs: Any = None, tokens: Any = None) -> Given:
    """What the model is to read."""
    if text is not None:
        _text(text, "the text")
    pair = _whole_numbers(pair)
    if not isinstance(pair, tuple | None):
        _text(pair, "the pair")
    if not isinstance(image, str | Path | None):
        raise ValueError(f"image= is the path of a picture, not {_named(image)}: a tensor goes into inputs=")
    if not isinstance(inputs, Tensor | Mapping | None):
        raise ValueError(f"inputs= is a tensor or tensors by their names, not {_named(inputs)}")
    if tokens is not None and not isinstance(tokens, Iterable):
        raise ValueError(f"tokens= are names, one for each place, not {_named(tokens)}")
    return Given(text, pair, image, inputs, None if tokens is None else tuple(map(str, tokens)))


def _text(value: Any, what: str) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{what} is one str, not {_named(value)}: decode bytes, join a list, or pass inputs=")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} is not UTF-8: it holds half a character, {value[error.start]!r}, alone") from None


def _named(value: Any) -> str:
    """
    >>> _named(b"a"), _named([0.5] * 99)
    ("b'a'", 'a list')
    """
    shown = repr(value)
    return shown if len(shown) < 40 else f"a {type(value).__name__}"


def _whole_numbers(value: Any) -> Any:
    """Numbers of tokens, whoever holds them; anything else as it is."""
    try:
        return value if isinstance(value, str | bytes) else tuple(index(one) for one in value)
    except TypeError:
        return value


def wanted_of(layers: Any, heads: Any, rows: Any) -> Selection:
    """What is asked of every attention; layers and heads are whole numbers, rows a range.

    >>> wanted_of([2, 0], None, range(1, 5))
    Selection(layers=(0, 2), heads=None, rows=(1, 4))
    """
    if not isinstance(rows, range | None):
        raise ValueError(f"rows= is a range, such as range(0, 8), not {_named(rows)}")
    if rows is not None and (_none_or_negative(rows) or rows.step != 1):
        raise ValueError(f"rows are counted from 0 on and stand one after the other, at least one of them, not {rows}")
    return Selection(
        _numbers("layers", layers), _numbers("heads", heads), None if rows is None else (rows.start, len(rows))
    )


def _numbers(name: str, asked: Any) -> tuple[int, ...] | None:
    if asked is None:
        return None
    try:
        found = sorted({index(one) for one in asked})
    except TypeError:
        raise ValueError(f"{name}= are whole numbers in a list, such as [0, 3], not {_named(asked)}") from None
    if _none_or_negative(found):
        raise ValueError(f"{name} are counted from 0 on, and at least one is asked for, not {_named(asked)}")
    return tuple(found)


def _none_or_negative(numbers: Any) -> bool:
    return len(numbers) == 0 or min(numbers) < 0
