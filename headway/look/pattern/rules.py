"""Every mask, every mechanism and the sets of them as rules that can be drawn: name, options and formula.

The sets are the six patterns of the textbook and the two of DaViT.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Bool
from torch import Tensor

from headway.config import Spec, nearest, read_spec
from headway.config.read_file import read_text
from headway.look.pattern.options import (
    PatternOptions,
    at_1024_positions,
    extent,
    nearly_square,
    patch,
    refuse_unknown,
    with_defaults,
)
from headway.look.pattern.rule import PatternPositions, PatternRule
from headway.ops import mask as masks
from headway.ops.attention import MECHANISMS, record_of
from headway.ops.mask import Mask, causal

COMMON = frozenset({"length", "causal"})
EVERYTHING, CAUSAL = "all keys", "j ≤ i"
PLACED = COMMON | {"keys", "grid"}


@dataclass(frozen=True)
class Drawable:
    """The options of a mask, and how it is made of them once all have a value."""

    options: frozenset[str]
    make: Callable[[PatternOptions], tuple[Mask, str]]


def _window(options: PatternOptions) -> tuple[Mask, str]:
    assert options.window is not None
    return masks.window(options.window, grid=options.grid), near(options.window, options.grid)


def _dilated(options: PatternOptions) -> tuple[Mask, str]:
    assert options.window is not None and options.dilation is not None
    made = masks.dilated(options.window, dilation=options.dilation, grid=options.grid)
    return made, spread(options.window, options.dilation, options.grid)


def _tiles(options: PatternOptions) -> tuple[Mask, str]:
    assert options.tile is not None
    return masks.tiles(options.tile, grid=options.grid), f"i and j in one tile of {extent(options.tile)}"


def _selected(options: PatternOptions) -> tuple[Mask, str]:
    assert options.selected is not None
    names = [patch(place, options.grid) for place in options.selected]
    joined = (", " if options.grid is None else " and ").join(names)
    return masks.selected(options.selected), f"i or j is one of {joined}"


def _segments(options: PatternOptions) -> tuple[Mask, str]:
    assert options.segments is not None
    sizes = torch.tensor(options.segments)
    numbers = torch.arange(len(sizes)).repeat_interleave(sizes)
    return masks.segments(numbers), f"i and j in one segment of {' + '.join(map(str, options.segments))}"


def _packed(options: PatternOptions) -> tuple[Mask, str]:
    assert options.segments is not None
    return masks.packed(options.segments), f"i and j in one text of {' + '.join(map(str, options.segments))}"


def _padding(options: PatternOptions) -> tuple[Mask, str]:
    assert options.lengths is not None
    return masks.padding(lengths=options.lengths, total=options.keys), "j is a real key"


def _allowed(options: PatternOptions) -> tuple[Mask, str]:
    if options.table is None:
        raise ValueError("--mask allowed needs --table FILE: a row of 0 and 1 for each query, 1 where it may attend")
    return masks.allowed(read_table(options.table)), f"as {options.table.name} says"


MASKS: dict[str, Drawable] = {
    "everything": Drawable(PLACED, lambda options: (masks.everything(), EVERYTHING)),
    "causal": Drawable(PLACED, lambda options: (masks.causal(), CAUSAL)),
    "window": Drawable(PLACED | {"window"}, _window),
    "dilated": Drawable(PLACED | {"window", "dilation"}, _dilated),
    "tiles": Drawable(PLACED | {"tile"}, _tiles),
    "selected": Drawable(PLACED | {"selected"}, _selected),
    "global_tokens": Drawable(
        PLACED | {"global_tokens"}, lambda options: (masks.global_tokens(), "i or j stands outside the sequence")
    ),
    "segments": Drawable(COMMON | {"segments"}, _segments),
    "packed": Drawable(COMMON | {"segments"}, _packed),
    "padding": Drawable(PLACED | {"lengths"}, _padding),
    "allowed": Drawable(frozenset({"causal", "table"}), _allowed),
}


# What a longer sequence has too; the others say themselves how at_1024_positions it is.
GROWING = ("everything", "causal", "window", "dilated", "tiles", "selected", "global_tokens")


def mask_rules(name: str, options: PatternOptions) -> list[PatternRule]:
    """The rule of a mask; of one that tells the items of a batch apart, one for each."""
    given, options = options, with_defaults(_sized(options) if name == "allowed" else options)
    made, formula = MASKS[name].make(options)
    made, formula = (made & masks.causal(), earlier(formula)) if options.causal else (made, formula)
    places = PatternPositions.of(options, extra=(options.global_tokens or 0) if name == "global_tokens" else 0)
    batch = made.batch
    labels = [name.replace("_", " ") if batch == 1 else f"{name}, item {item}" for item in range(batch)]
    longer = (lambda: mask_rules(name, at_1024_positions(given))[0]) if name in GROWING and given.keys is None else None
    return [
        PatternRule(label, formula, read_spec("softmax"), made, places, item, longer=longer)
        for item, label in enumerate(labels)
    ]


def _sized(options: PatternOptions) -> PatternOptions:
    """A table says itself how many queries and keys there are."""
    if options.table is None:
        return options
    rows, columns = read_table(options.table).shape
    return replace(options, length=rows, keys=columns)


def read_table(path: Path) -> Bool[Tensor, "L M"]:
    """Rows of 0 and 1 from a text file, with commas, semicolons or blanks between them."""
    lines = [line.strip() for line in read_text(path).splitlines()]
    rows = [line.replace(",", " ").replace(";", " ").split() for line in lines if line]
    if not rows or not rows[0]:
        raise ValueError(f"{path} holds no table: write a row of 0 and 1 for each query, 1 where it may attend")
    for number, row in enumerate(rows, start=1):
        if wrong := next((cell for cell in row if cell not in ("0", "1")), None):
            raise ValueError(f"{path} has {wrong!r} in row {number}: a table of who may attend holds 0 and 1 only")
        if len(row) != len(rows[0]):
            raise ValueError(f"{path} has {len(row)} cells in row {number} and {len(rows[0])} in the first")
    return torch.tensor([[cell == "1" for cell in row] for row in rows])


def earlier(formula: str) -> str:
    """What is left of a rule where nobody sees later positions.

    >>> earlier("|i − j| < 4"), earlier(EVERYTHING)
    ('|i − j| < 4, and j ≤ i', 'j ≤ i')
    """
    return CAUSAL if formula in (EVERYTHING, CAUSAL) else f"{formula}, and {CAUSAL}"


def near(window: int | tuple[int, int], grid: tuple[int, int] | None) -> str:
    """
    >>> near(4, None), near(2, (6, 6))
    ('|i − j| < 4', 'rows and columns differ by less than 2')
    """
    return f"|i − j| < {window}" if grid is None else f"rows and columns differ by less than {extent(window)}"


def spread(window: int | tuple[int, int], step: int | tuple[int, int], grid: tuple[int, int] | None) -> str:
    """
    >>> spread(3, 2, None), spread(2, 2, (6, 6))
    ('|i − j| is 0, 2, 4', 'rows and columns differ by 0 or 2')
    """
    if grid is None and isinstance(window, int) and isinstance(step, int):
        return f"|i − j| is {_abridged([step * one for one in range(window)])}"
    if isinstance(window, int) and isinstance(step, int):
        return f"rows and columns differ by {_abridged([step * one for one in range(window)]).replace(', ', ' or ')}"
    return f"rows and columns differ by multiples of {extent(step)}, less than {extent(window)} of them"


def _abridged(values: list[int]) -> str:
    shown = values if len(values) <= 4 else [*values[:3], "…", values[-1]]
    return ", ".join(map(str, shown))


# A mechanism -> the options that it takes; one that is not here takes those of any attention between positions.
OPTIONS: dict[str, frozenset[str]] = dict.fromkeys(MECHANISMS, PLACED) | {
    "local": PLACED | {"window", "dilation", "selected", "global_tokens"},
    "spatial": COMMON | {"grid", "window"},
    "channel": frozenset({"length", "grid", "channels", "groups"}),
}


def mechanism_rule(name: str, options: PatternOptions, *, label: str | None = None) -> PatternRule:
    """The rule of a mechanism under the options given."""
    given, whole = options, with_defaults(_on_grid(options) if name == "spatial" else options)
    spec, formula = _spec(name, given, whole)
    extra = (whole.global_tokens or 0) if spec.knows_outside else 0
    formula = earlier(formula) if options.causal else formula
    channels, groups = _groups(whole) if record_of(spec).between == "channels" else (1, 1)
    mask = causal() if options.causal else None
    return PatternRule(
        label or name, formula, spec, mask, PatternPositions.of(whole, extra=extra), 0, channels, groups,
        longer=None if options.keys is not None else lambda: mechanism_rule(name, at_1024_positions(options)),
    )  # fmt: skip


def _on_grid(options: PatternOptions) -> PatternOptions:
    """Windows of patches lie on a grid; a sequence is nearly_square into one."""
    length = with_defaults(replace(options, window=None)).length
    return options if options.grid is not None or length is None else replace(options, grid=nearly_square(length))


def _spec(name: str, given: PatternOptions, whole: PatternOptions) -> tuple[Spec, str]:
    """The mechanism's own options, and what they say of i and j."""
    if name == "local":
        return _local(given, whole)
    if name == "spatial":
        assert whole.grid is not None
        inside = EVERYTHING if given.window is None else f"i and j in one window of {extent(given.window)}"
        return read_spec(name, grid=whole.grid, window=given.window), inside
    if name == "channel":
        channels, groups = _groups(whole)
        return read_spec(name), f"channels of one group ({groups} groups of {channels})"
    return read_spec(name), EVERYTHING


def _local(given: PatternOptions, whole: PatternOptions) -> tuple[Spec, str]:
    assert whole.window is not None
    step = given.dilation or 1
    formula = near(whole.window, whole.grid) if step == 1 else spread(whole.window, step, whole.grid)
    chosen = given.selected or ()
    formula += f", or one of them is {' or '.join(patch(place, whole.grid) for place in chosen)}" if chosen else ""
    formula += ", or one of them stands outside the sequence" if given.global_tokens else ""
    spec = read_spec(
        "local",
        window=whole.window,
        dilation=step,
        selected=chosen,
        global_tokens=bool(given.global_tokens),
        grid=whole.grid,
    )
    return spec, formula


def _groups(whole: PatternOptions) -> tuple[int, int]:
    """Channels of a group, and how many groups."""
    assert whole.channels is not None and whole.groups is not None
    if whole.channels % whole.groups:
        raise ValueError(f"--channels {whole.channels} cannot be shared evenly by --groups {whole.groups}")
    return whole.channels // whole.groups, whole.groups


ALL = "all"
SETS: dict[str, frozenset[str]] = {
    "textbook": frozenset({"length", "grid", "window", "dilation", "selected", "global_tokens"}),
    "davit": frozenset({"grid", "window", "channels", "groups"}),
}
OWNERS: dict[str, frozenset[str]] = (
    {f"--mechanism {name}": options for name, options in OPTIONS.items()}
    | {f"--mask {name.replace('_', '-')}": one.options for name, one in MASKS.items()}
    | {f"--patterns {name}": options for name, options in SETS.items()}
)


def rules_of_mask(name: str, options: PatternOptions) -> list[PatternRule]:
    """The rules of one mask, or of all of them (a table of one's own where there is one)."""
    name = name.replace("-", "_")
    if name == ALL:
        refuse_unknown(options, frozenset().union(*(one.options for one in MASKS.values())), "--mask all", OWNERS)
        chosen = [one for one in MASKS if one != "allowed" or options.table is not None]
        return [rule for one in chosen for rule in mask_rules(one, _own(options, MASKS[one].options))]
    _check_name("mask", name, MASKS)
    refuse_unknown(options, MASKS[name].options, f"--mask {name.replace('_', '-')}", OWNERS)
    return mask_rules(name, options)


def rules_of_mechanism(name: str, options: PatternOptions) -> list[PatternRule]:
    """The rule of one mechanism, or those of all that can keep to what was given."""
    if name == ALL:
        refuse_unknown(options, frozenset().union(*OPTIONS.values()), "--mechanism all", OWNERS)
        chosen = [one for one in OPTIONS if not options.causal or "causal" in OPTIONS[one]]
        return [mechanism_rule(one, _own(options, OPTIONS[one])) for one in chosen]
    _check_name("mechanism", name, OPTIONS)
    refuse_unknown(options, OPTIONS[name], f"--mechanism {name}", OWNERS)
    return [mechanism_rule(name, options)]


def rules_of_set(name: str, options: PatternOptions) -> list[PatternRule]:
    """The six patterns of the textbook on a sequence or a grid, or the two attentions of DaViT."""
    _check_name("set of patterns", name, SETS)
    refuse_unknown(options, SETS[name], f"--patterns {name}", OWNERS)
    return textbook(options) if name == "textbook" else davit(options)


def textbook(options: PatternOptions) -> list[PatternRule]:
    """Full, causal, local, dilated, local with selected tokens that see all, local with global tokens."""
    whole = with_defaults(options)
    plain = replace(options, window=None, dilation=None, selected=None, global_tokens=None)
    near = replace(plain, window=whole.window)
    return [
        mechanism_rule("softmax", plain, label="full"),
        mechanism_rule("softmax", replace(plain, causal=True), label="causal"),
        mechanism_rule("local", near, label="local"),
        mechanism_rule("local", replace(near, dilation=whole.dilation), label="dilated"),
        mechanism_rule("local", replace(near, selected=whole.selected), label="selected tokens"),
        mechanism_rule("local", replace(near, global_tokens=whole.global_tokens), label="global tokens"),
    ]


def davit(options: PatternOptions) -> list[PatternRule]:
    """Attention between patches within windows, and between channels within groups (arXiv:2204.03645)."""
    grid = options.grid or (8, 8)
    patches = PatternOptions(grid=grid, window=options.window or (4 if options.grid is None else 2))
    channels = PatternOptions(grid=grid, channels=options.channels, groups=options.groups)
    return [
        mechanism_rule("spatial", patches, label="windows of patches"),
        mechanism_rule("channel", channels, label="channels in groups"),
    ]


TITLES = {"textbook": "Six patterns of attention", "davit": "The two attentions of DaViT"}
KINDS = {"mechanism": rules_of_mechanism, "mask": rules_of_mask, "patterns": rules_of_set}


def rules_of(kind: str, name: str, options: PatternOptions) -> list[PatternRule]:
    """The rules of a "mechanism", a "mask" or a set of "patterns"."""
    return KINDS[kind](name, options)


def title(kind: str, name: str) -> str:
    """
    >>> title("mechanism", "local"), title("mask", "all")
    ('Local attention', 'Every mask')
    """
    if kind == "patterns":
        return TITLES[name]
    if name == ALL:
        return f"Every {kind}"
    plain = name.replace("-", " ").replace("_", " ")
    return f"{plain[0].upper()}{plain[1:]} {'attention' if kind == 'mechanism' else 'mask'}"


def _own(options: PatternOptions, accepted: frozenset[str]) -> PatternOptions:
    """Only what this rule takes; how at_1024_positions the sequence is goes for all."""
    length = options.length if options.grid is None else options.grid[0] * options.grid[1]
    others = {name: False if name == "causal" else None for name in options.given - accepted}
    return replace(options, **{"length": length} | others)


def _check_name(what: str, name: str, known: Mapping[str, object]) -> None:
    if name not in known:
        names = ", ".join(one.replace("_", "-") for one in (*known, *((ALL,) if known is not SETS else ())))
        raise ValueError(f"there is no {what} {name!r}{nearest(name, known)}; there are {names}")
