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


def _window(asked: PatternOptions) -> tuple[Mask, str]:
    assert asked.window is not None
    return masks.window(asked.window, grid=asked.grid), near(asked.window, asked.grid)


def _dilated(asked: PatternOptions) -> tuple[Mask, str]:
    assert asked.window is not None and asked.dilation is not None
    made = masks.dilated(asked.window, dilation=asked.dilation, grid=asked.grid)
    return made, spread(asked.window, asked.dilation, asked.grid)


def _tiles(asked: PatternOptions) -> tuple[Mask, str]:
    assert asked.tile is not None
    return masks.tiles(asked.tile, grid=asked.grid), f"i and j in one tile of {extent(asked.tile)}"


def _selected(asked: PatternOptions) -> tuple[Mask, str]:
    assert asked.selected is not None
    names = [patch(place, asked.grid) for place in asked.selected]
    return masks.selected(asked.selected), f"i or j is one of {(', ' if asked.grid is None else ' and ').join(names)}"


def _segments(asked: PatternOptions) -> tuple[Mask, str]:
    assert asked.segments is not None
    sizes = torch.tensor(asked.segments)
    numbers = torch.arange(len(sizes)).repeat_interleave(sizes)
    return masks.segments(numbers), f"i and j in one segment of {' + '.join(map(str, asked.segments))}"


def _packed(asked: PatternOptions) -> tuple[Mask, str]:
    assert asked.segments is not None
    return masks.packed(asked.segments), f"i and j in one text of {' + '.join(map(str, asked.segments))}"


def _padding(asked: PatternOptions) -> tuple[Mask, str]:
    assert asked.lengths is not None
    return masks.padding(lengths=asked.lengths, total=asked.keys), "j is a real key"


def _allowed(asked: PatternOptions) -> tuple[Mask, str]:
    if asked.table is None:
        raise ValueError("--mask allowed needs --table FILE: a row of 0 and 1 for each query, 1 where it may attend")
    return masks.allowed(read_table(asked.table)), f"as {asked.table.name} says"


MASKS: dict[str, Drawable] = {
    "everything": Drawable(PLACED, lambda asked: (masks.everything(), EVERYTHING)),
    "causal": Drawable(PLACED, lambda asked: (masks.causal(), CAUSAL)),
    "window": Drawable(PLACED | {"window"}, _window),
    "dilated": Drawable(PLACED | {"window", "dilation"}, _dilated),
    "tiles": Drawable(PLACED | {"tile"}, _tiles),
    "selected": Drawable(PLACED | {"selected"}, _selected),
    "global_tokens": Drawable(
        PLACED | {"global_tokens"}, lambda asked: (masks.global_tokens(), "i or j stands outside the sequence")
    ),
    "segments": Drawable(COMMON | {"segments"}, _segments),
    "packed": Drawable(COMMON | {"segments"}, _packed),
    "padding": Drawable(PLACED | {"lengths"}, _padding),
    "allowed": Drawable(frozenset({"causal", "table"}), _allowed),
}


# What a longer sequence has too; the others say themselves how at_1024_positions it is.
GROWING = ("everything", "causal", "window", "dilated", "tiles", "selected", "global_tokens")


def mask_rules(name: str, asked: PatternOptions) -> list[PatternRule]:
    """The rule of a mask; of one that tells the items of a batch apart, one for each."""
    said, asked = asked, with_defaults(_sized(asked) if name == "allowed" else asked)
    made, formula = MASKS[name].make(asked)
    made, formula = (made & masks.causal(), earlier(formula)) if asked.causal else (made, formula)
    places = PatternPositions.of(asked, extra=(asked.global_tokens or 0) if name == "global_tokens" else 0)
    batch = made.batch
    labels = [name.replace("_", " ") if batch == 1 else f"{name}, item {item}" for item in range(batch)]
    longer = (lambda: mask_rules(name, at_1024_positions(said))[0]) if name in GROWING and said.keys is None else None
    return [
        PatternRule(label, formula, read_spec("softmax"), made, places, item, longer=longer)
        for item, label in enumerate(labels)
    ]


def _sized(asked: PatternOptions) -> PatternOptions:
    """A table says itself how many queries and keys there are."""
    if asked.table is None:
        return asked
    rows, columns = read_table(asked.table).shape
    return replace(asked, length=rows, keys=columns)


def read_table(path: Path) -> Bool[Tensor, "L M"]:
    """Rows of 0 and 1 from a text file, with commas, semicolons or blanks between them."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8: write a row of 0 and 1 for each query") from None
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
        return f"|i − j| is {_counted([step * one for one in range(window)])}"
    if isinstance(window, int) and isinstance(step, int):
        return f"rows and columns differ by {_counted([step * one for one in range(window)]).replace(', ', ' or ')}"
    return f"rows and columns differ by multiples of {extent(step)}, less than {extent(window)} of them"


def _counted(values: list[int]) -> str:
    shown = values if len(values) <= 4 else [*values[:3], "…", values[-1]]
    return ", ".join(map(str, shown))


# A mechanism -> the options that it takes; one that is not here takes those of any attention between positions.
OPTIONS: dict[str, frozenset[str]] = dict.fromkeys(MECHANISMS, PLACED) | {
    "local": PLACED | {"window", "dilation", "selected", "global_tokens"},
    "spatial": COMMON | {"grid", "window"},
    "channel": frozenset({"length", "grid", "channels", "groups"}),
}


def mechanism_rule(name: str, asked: PatternOptions, *, label: str | None = None) -> PatternRule:
    """The rule of a mechanism under the options said."""
    said, whole = asked, with_defaults(_on_grid(asked) if name == "spatial" else asked)
    spec, formula = _spec(name, said, whole)
    extra = (whole.global_tokens or 0) if spec.knows_outside else 0
    formula = earlier(formula) if asked.causal else formula
    channels, groups = _groups(whole) if record_of(spec).between == "channels" else (1, 1)
    mask = causal() if asked.causal else None
    return PatternRule(
        label or name, formula, spec, mask, PatternPositions.of(whole, extra=extra), 0, channels, groups,
        longer=None if asked.keys is not None else lambda: mechanism_rule(name, at_1024_positions(asked)),
    )  # fmt: skip


def _on_grid(asked: PatternOptions) -> PatternOptions:
    """Windows of patches lie on a grid; a sequence is nearly_square into one."""
    length = with_defaults(replace(asked, window=None)).length
    return asked if asked.grid is not None or length is None else replace(asked, grid=nearly_square(length))


def _spec(name: str, said: PatternOptions, whole: PatternOptions) -> tuple[Spec, str]:
    """The mechanism's own options, and what they say of i and j."""
    if name == "local":
        return _local(said, whole)
    if name == "spatial":
        assert whole.grid is not None
        inside = EVERYTHING if said.window is None else f"i and j in one window of {extent(said.window)}"
        return read_spec(name, grid=whole.grid, window=said.window), inside
    if name == "channel":
        channels, groups = _groups(whole)
        return read_spec(name), f"channels of one group ({groups} groups of {channels})"
    return read_spec(name), EVERYTHING


def _local(said: PatternOptions, whole: PatternOptions) -> tuple[Spec, str]:
    assert whole.window is not None
    step = said.dilation or 1
    formula = near(whole.window, whole.grid) if step == 1 else spread(whole.window, step, whole.grid)
    chosen = said.selected or ()
    formula += f", or one of them is {' or '.join(patch(place, whole.grid) for place in chosen)}" if chosen else ""
    formula += ", or one of them stands outside the sequence" if said.global_tokens else ""
    spec = read_spec(
        "local",
        window=whole.window,
        dilation=step,
        selected=chosen,
        global_tokens=bool(said.global_tokens),
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


def rules_of_mask(name: str, asked: PatternOptions) -> list[PatternRule]:
    """The rules of one mask, or of all of them (a table of one's own where there is one)."""
    name = name.replace("-", "_")
    if name == ALL:
        refuse_unknown(asked, frozenset().union(*(one.options for one in MASKS.values())), "--mask all", OWNERS)
        chosen = [one for one in MASKS if one != "allowed" or asked.table is not None]
        return [rule for one in chosen for rule in mask_rules(one, _own(asked, MASKS[one].options))]
    _known("mask", name, MASKS)
    refuse_unknown(asked, MASKS[name].options, f"--mask {name.replace('_', '-')}", OWNERS)
    return mask_rules(name, asked)


def rules_of_mechanism(name: str, asked: PatternOptions) -> list[PatternRule]:
    """The rule of one mechanism, or those of all that can keep to what was said."""
    if name == ALL:
        refuse_unknown(asked, frozenset().union(*OPTIONS.values()), "--mechanism all", OWNERS)
        chosen = [one for one in OPTIONS if not asked.causal or "causal" in OPTIONS[one]]
        return [mechanism_rule(one, _own(asked, OPTIONS[one])) for one in chosen]
    _known("mechanism", name, OPTIONS)
    refuse_unknown(asked, OPTIONS[name], f"--mechanism {name}", OWNERS)
    return [mechanism_rule(name, asked)]


def rules_of_set(name: str, asked: PatternOptions) -> list[PatternRule]:
    """The six patterns of the textbook on a sequence or a grid, or the two attentions of DaViT."""
    _known("set of patterns", name, SETS)
    refuse_unknown(asked, SETS[name], f"--patterns {name}", OWNERS)
    return textbook(asked) if name == "textbook" else davit(asked)


def textbook(asked: PatternOptions) -> list[PatternRule]:
    """Full, causal, local, dilated, local with selected tokens that see all, local with global tokens."""
    whole, plain = with_defaults(asked), replace(asked, window=None, dilation=None, selected=None, global_tokens=None)
    near = replace(plain, window=whole.window)
    return [
        mechanism_rule("softmax", plain, label="full"),
        mechanism_rule("softmax", replace(plain, causal=True), label="causal"),
        mechanism_rule("local", near, label="local"),
        mechanism_rule("local", replace(near, dilation=whole.dilation), label="dilated"),
        mechanism_rule("local", replace(near, selected=whole.selected), label="selected tokens"),
        mechanism_rule("local", replace(near, global_tokens=whole.global_tokens), label="global tokens"),
    ]


def davit(asked: PatternOptions) -> list[PatternRule]:
    """Attention between patches within windows, and between channels within groups (arXiv:2204.03645)."""
    grid = asked.grid or (8, 8)
    patches = PatternOptions(grid=grid, window=asked.window or (4 if asked.grid is None else 2))
    channels = PatternOptions(grid=grid, channels=asked.channels, groups=asked.groups)
    return [
        mechanism_rule("spatial", patches, label="windows of patches"),
        mechanism_rule("channel", channels, label="channels in groups"),
    ]


TITLES = {"textbook": "Six patterns of attention", "davit": "The two attentions of DaViT"}
KINDS = {"mechanism": rules_of_mechanism, "mask": rules_of_mask, "patterns": rules_of_set}


def rules_of(kind: str, name: str, asked: PatternOptions) -> list[PatternRule]:
    """The rules of a "mechanism", a "mask" or a set of "patterns"."""
    return KINDS[kind](name, asked)


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


def _own(asked: PatternOptions, options: frozenset[str]) -> PatternOptions:
    """Only what this rule takes; how at_1024_positions the sequence is goes for all."""
    length = asked.length if asked.grid is None else asked.grid[0] * asked.grid[1]
    others = {name: False if name == "causal" else None for name in asked.given - options}
    return replace(asked, **{"length": length} | others)


def _known(what: str, name: str, known: Mapping[str, object]) -> None:
    if name not in known:
        names = ", ".join(one.replace("_", "-") for one in (*known, *((ALL,) if known is not SETS else ())))
        raise ValueError(f"there is no {what} {name!r}{nearest(name, known)}; there are {names}")
