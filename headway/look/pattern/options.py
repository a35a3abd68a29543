"""Sizes and options of a pattern, as a command line can say them. No torch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from math import isqrt
from pathlib import Path

Pair = tuple[int, int]

LENGTH, WINDOW, NEAR, TILE, DILATION, GLOBAL, CHANNELS, GROUPS = 24, 4, 2, 6, 2, 2, 24, 3  # where nothing is given
MOST = 2**24  # pairs of one pattern
LARGEST = 2**20  # of a window, a dilation or a tile
LONG = 32  # a side of the grid that prices are computed for too; squared on a sequence


@dataclass(frozen=True)
class PatternOptions:
    """Sizes and options of a rule; None where nothing was given."""

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
    def given(self) -> set[str]:
        """The options that were given."""
        return {one.name for one in fields(self) if getattr(self, one.name) not in (None, False)}


def option(name: str) -> str:
    """
    >>> option("global_tokens"), option("dilation")
    ('--global-tokens', '--dilation')
    """
    return f"--{name.replace('_', '-')}"


def refuse_unknown(
    options: PatternOptions, taken: Iterable[str], what: str, owners: Mapping[str, Iterable[str]]
) -> None:
    """Raise for an option that this rule does not take, naming the rules that take it."""
    for name in sorted(options.given - set(taken)):
        whose = [rule for rule, known in owners.items() if name in known]
        raise ValueError(f"{option(name)} is no option of {what}: it belongs to {', '.join(whose)}")


def with_defaults(options: PatternOptions) -> PatternOptions:
    """The same with a size for everything that the rules may need."""
    length = _length(options)
    keys = length if options.keys is None else _at_least(1, options.keys, "keys")
    _refuse_large(length, keys, options)
    if options.grid is not None and keys != length:
        raise ValueError(f"--grid has as many keys as queries: leave --keys {keys} out")
    other = (
        length // 2
        if options.grid is None
        else min(1, options.grid[0] - 1) * options.grid[1] + options.grid[1] * 3 // 4
    )
    third = -(-length // 3)
    parts = tuple(size for size in (third, third, length - 2 * third) if size > 0)
    return replace(
        options,
        length=length,
        keys=keys,
        window=_extent(options, "window") or (WINDOW if options.grid is None else NEAR),
        dilation=_extent(options, "dilation") or DILATION,
        tile=_extent(options, "tile") or (TILE if options.grid is None else NEAR),
        selected=_selected(options, length, (0, other)),
        global_tokens=_at_least(1, GLOBAL if options.global_tokens is None else options.global_tokens, "global_tokens"),
        segments=options.segments or parts,
        lengths=_lengths(options, keys) or (-(-2 * keys // 3),),
        channels=_at_least(1, CHANNELS if options.channels is None else options.channels, "channels"),
        groups=_at_least(1, GROUPS if options.groups is None else options.groups, "groups"),
    )


def _refuse_large(length: int, keys: int, options: PatternOptions) -> None:
    extra, channels = options.global_tokens or 0, options.channels or 0
    if (length + extra) * (keys + extra) > MOST:
        way = "take fewer --global-tokens" if length * keys <= MOST else "take a --length of at most 4,096"
        raise ValueError(f"{length + extra:,} x {keys + extra:,} pairs are more than a page can hold: {way}")
    if channels**2 > MOST:
        raise ValueError(f"--channels is at most 4,096, not {channels:,}")


def _extent(options: PatternOptions, name: str) -> int | Pair | None:
    """A window, a dilation or a tile as it was given; two sides need a grid."""
    given: int | Pair | None = getattr(options, name)
    if isinstance(given, tuple) and options.grid is None:
        raise ValueError(f"{option(name)} {given[0]}x{given[1]} has two sides: give --grid too, for example --grid 6x6")
    for size in given if isinstance(given, tuple) else () if given is None else (given,):
        _at_least(1, size, name)
        if size > LARGEST:
            raise ValueError(f"{option(name)} is at most {LARGEST:,}, not {size:,}")
    return given


def _lengths(options: PatternOptions, keys: int) -> tuple[int, ...] | None:
    if options.lengths is not None and max(options.lengths, default=0) > keys:
        raise ValueError(f"--lengths {max(options.lengths):,} does not fit into {keys:,} keys: give at most {keys:,}")
    return options.lengths


def _length(options: PatternOptions) -> int:
    given = LENGTH if options.length is None else _at_least(1, options.length, "length")
    if options.grid is not None:
        rows, columns = (_at_least(1, size, "grid") for size in options.grid)
        return _consistent(options, rows * columns, f"--grid {rows}x{columns} has {rows * columns} positions")
    if options.segments is not None:
        total = sum(_at_least(1, size, "segments") for size in options.segments)
        return _consistent(options, total, f"--segments has {total} positions together")
    return given


def _consistent(options: PatternOptions, found: int, why: str) -> int:
    if options.length not in (None, found):
        raise ValueError(f"{why}, and --length says {options.length}: leave --length out")
    return found


def _selected(options: PatternOptions, length: int, usual: tuple[int, ...]) -> tuple[int, ...]:
    chosen = tuple(dict.fromkeys(usual)) if options.selected is None else options.selected
    if wrong := next((place for place in chosen if not 0 <= place < length), None):
        raise ValueError(f"--selected {wrong} is none of the positions 0 … {length - 1}")
    return chosen


def _at_least(least: int, value: int, name: str) -> int:
    if value < least:
        raise ValueError(f"{option(name)} is at least {least}, not {value}")
    return value


def nearly_square(length: int) -> Pair:
    """A grid of so many positions, as near to a square as whole numbers allow.

    >>> nearly_square(24), nearly_square(7)
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


def at_1024_positions(options: PatternOptions) -> PatternOptions:
    """The same rule on 1,024 positions."""
    return (
        replace(options, length=LONG * LONG)
        if options.grid is None
        else replace(options, length=None, grid=(LONG, LONG))
    )


def extent(size: int | Pair) -> str:
    """
    >>> extent(4), extent((2, 3))
    ('4', '2 x 3')
    """
    return str(size) if isinstance(size, int) else f"{size[0]} x {size[1]}"
