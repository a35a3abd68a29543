"""What a rule is asked about, as a command line can say it. No torch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from math import isqrt
from pathlib import Path

Pair = tuple[int, int]

LENGTH, WINDOW, NEAR, TILE, DILATION, GLOBAL, CHANNELS, GROUPS = 24, 4, 2, 6, 2, 2, 24, 3  # where nothing is said
MOST = 2**24  # pairs of one pattern
LARGEST = 2**20  # of a window, a step or a tile
LONG = 32  # a side of the grid that prices are told for too; so many times itself on a sequence


@dataclass(frozen=True)
class Asked:
    """Sizes and options of a rule; None where nothing was said."""

    length: int | None = None
    keys: int | None = None
    grid: Pair | None = None
    causal: bool = False
    window: int | Pair | None = None
    dilation: int | Pair | None = None
    tile: int | Pair | None = None
    selected: tuple[int, ...] | None = None
    global_tokens: int | None = None
    segments: tuple[int, ...] | None = None
    lengths: tuple[int, ...] | None = None
    table: Path | None = None
    channels: int | None = None
    groups: int | None = None

    @property
    def said(self) -> set[str]:
        """The options that were given."""
        return {one.name for one in fields(self) if getattr(self, one.name) not in (None, False)}


def option(name: str) -> str:
    """
    >>> option("global_tokens"), option("dilation")
    ('--global-tokens', '--dilation (--step)')
    """
    return f"--{name.replace('_', '-')}" + (" (--step)" if name == "dilation" else "")


def refuse_strangers(asked: Asked, taken: Iterable[str], what: str, owners: Mapping[str, Iterable[str]]) -> None:
    """An option that this rule does not take is a mistake that names whose it is."""
    for name in sorted(asked.said - set(taken)):
        whose = [rule for rule, options in owners.items() if name in options]
        raise ValueError(f"{option(name)} is no option of {what}: it belongs to {', '.join(whose)}")


def settled(asked: Asked) -> Asked:
    """The same with a size for everything that the rules may need."""
    length = _length(asked)
    keys = length if asked.keys is None else _at_least(1, asked.keys, "keys")
    _refuse_large(length, keys, asked)
    if asked.grid is not None and keys != length:
        raise ValueError(f"--grid has as many keys as queries: leave --keys {keys} out")
    other = length // 2 if asked.grid is None else min(1, asked.grid[0] - 1) * asked.grid[1] + asked.grid[1] * 3 // 4
    third = -(-length // 3)
    parts = tuple(size for size in (third, third, length - 2 * third) if size > 0)
    return replace(
        asked,
        length=length,
        keys=keys,
        window=_extent(asked, "window") or (WINDOW if asked.grid is None else NEAR),
        dilation=_extent(asked, "dilation") or DILATION,
        tile=_extent(asked, "tile") or (TILE if asked.grid is None else NEAR),
        selected=_selected(asked, length, (0, other)),
        global_tokens=_at_least(1, GLOBAL if asked.global_tokens is None else asked.global_tokens, "global_tokens"),
        segments=asked.segments or parts,
        lengths=_lengths(asked, keys) or (-(-2 * keys // 3),),
        channels=_at_least(1, CHANNELS if asked.channels is None else asked.channels, "channels"),
        groups=_at_least(1, GROUPS if asked.groups is None else asked.groups, "groups"),
    )


def _refuse_large(length: int, keys: int, asked: Asked) -> None:
    extra, channels = asked.global_tokens or 0, asked.channels or 0
    if (length + extra) * (keys + extra) > MOST:
        way = "take fewer --global-tokens" if length * keys <= MOST else "take a --length of at most 4,096"
        raise ValueError(f"{length + extra:,} x {keys + extra:,} pairs are more than a page can hold: {way}")
    if channels**2 > MOST:
        raise ValueError(f"--channels is at most 4,096, not {channels:,}")


def _extent(asked: Asked, name: str) -> int | Pair | None:
    """A window, a step or a tile as it was said; two sides need a grid."""
    said: int | Pair | None = getattr(asked, name)
    if isinstance(said, tuple) and asked.grid is None:
        raise ValueError(f"{option(name)} {said[0]}x{said[1]} has two sides: give --grid too, for example --grid 6x6")
    for size in said if isinstance(said, tuple) else () if said is None else (said,):
        _at_least(1, size, name)
        if size > LARGEST:
            raise ValueError(f"{option(name)} is at most {LARGEST:,}, not {size:,}")
    return said


def _lengths(asked: Asked, keys: int) -> tuple[int, ...] | None:
    if asked.lengths is not None and max(asked.lengths, default=0) > keys:
        raise ValueError(f"--lengths {max(asked.lengths):,} does not fit into {keys:,} keys: give at most {keys:,}")
    return asked.lengths


def _length(asked: Asked) -> int:
    said = LENGTH if asked.length is None else _at_least(1, asked.length, "length")
    if asked.grid is not None:
        rows, columns = (_at_least(1, size, "grid") for size in asked.grid)
        return _agreed(asked, rows * columns, f"--grid {rows}x{columns} has {rows * columns} positions")
    if asked.segments is not None:
        total = sum(_at_least(1, size, "segments") for size in asked.segments)
        return _agreed(asked, total, f"--segments has {total} positions together")
    return said


def _agreed(asked: Asked, found: int, why: str) -> int:
    if asked.length not in (None, found):
        raise ValueError(f"{why}, and --length says {asked.length}: leave --length out")
    return found


def _selected(asked: Asked, length: int, usual: tuple[int, ...]) -> tuple[int, ...]:
    chosen = tuple(dict.fromkeys(usual)) if asked.selected is None else asked.selected
    if wrong := next((place for place in chosen if not 0 <= place < length), None):
        raise ValueError(f"--selected {wrong} is none of the positions 0 … {length - 1}")
    return chosen


def _at_least(least: int, value: int, name: str) -> int:
    if value < least:
        raise ValueError(f"{option(name)} is at least {least}, not {value}")
    return value


def folded(length: int) -> Pair:
    """A grid of so many positions, as near to a square as whole numbers allow.

    >>> folded(24), folded(7)
    ((4, 6), (1, 7))
    """
    rows = next(side for side in range(isqrt(length), 0, -1) if length % side == 0)
    return rows, length // rows


def patch(place: int, grid: Pair | None) -> str:
    """A position as it is named: on a grid by row and column from 1, else by its number.

    >>> patch(7, (6, 6)), patch(7, None)
    ('2,2', '7')
    """
    return str(place) if grid is None else f"{place // grid[1] + 1},{place % grid[1] + 1}"


def long(asked: Asked) -> Asked:
    """The same rule on 1,024 positions."""
    return replace(asked, length=LONG * LONG) if asked.grid is None else replace(asked, length=None, grid=(LONG, LONG))


def extent(size: int | Pair) -> str:
    """
    >>> extent(4), extent((2, 3))
    ('4', '2 x 3')
    """
    return str(size) if isinstance(size, int) else f"{size[0]} x {size[1]}"
