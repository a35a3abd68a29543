"""`headway look` without a model: mechanisms, masks and embeddings of positions as rules that can be drawn."""

import json as json_format
import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from headway.cli.look_options import colours, columns
from headway.data.files import write_whole

GROUP = "A rule instead of a model"
MASKS = (
    "everything, causal, window, dilated, tiles, selected, global-tokens, segments, packed, padding, "
    "allowed (a table of yours)"
)
KINDS = ("mechanism", "mask", "patterns", "positions", "softmax")
SIZES = ("width", "bias_heads", "base", "buckets", "max_distance")  # of embeddings of positions alone


def _help(text: str) -> Parameter:
    return Parameter(help=text, group=GROUP, negative="")


@dataclass(frozen=True)
class RuleOptions:
    """What can be drawn without a model, and its sizes."""

    mechanism: Annotated[str | None, _help("softmax, linear, local, spatial, channel, additive, or all.")] = None
    mask: Annotated[str | None, _help(f"{MASKS}, or all.")] = None
    patterns: Annotated[str | None, _help("textbook (its six patterns) or davit (its two attentions).")] = None
    positions: Annotated[str | None, _help("sinusoidal, grid, rotary, alibi or relative.")] = None
    softmax: Annotated[
        str | None, Parameter(help="Scores: their weights and Jacobian.", group=GROUP, allow_leading_hyphen=True)
    ] = None
    length: Annotated[int | None, _help("Queries, and keys where --keys says nothing else; 24.")] = None
    keys: Annotated[int | None, _help("Another number of keys, as between two texts.")] = None
    grid: Annotated[str | None, _help("Rows x columns of patches, as 6x6.")] = None
    causal: Annotated[bool, _help("No query sees a later position.")] = False
    window: Annotated[str | None, _help("Keys at a distance below this; on a grid also as 2x3.")] = None
    dilation: Annotated[str | None, _help("Only every such key of the window.")] = None
    step: Annotated[str | None, Parameter(show=False, group=GROUP)] = None  # the former name of --dilation
    tile: Annotated[str | None, _help("The side of windows that do not overlap.")] = None
    selected: Annotated[
        str | None, _help("Positions that see all and are seen by all, as 0,5; patches count row by row.")
    ] = None
    global_tokens: Annotated[int | None, _help("So many extra tokens see all and are seen by all.")] = None
    segments: Annotated[str | None, _help("Lengths of the texts in one row, as 5,7,3.")] = None
    lengths: Annotated[str | None, _help("Real keys of each row of a batch, as 5,7; the others are padding.")] = None
    table: Annotated[Path | None, _help("A file with a row of 0 and 1 for each query (--mask allowed).")] = None
    channels: Annotated[int | None, _help("Channels that attend to one another.")] = None
    groups: Annotated[int | None, _help("Groups that they stand in.")] = None
    width: Annotated[int | None, _help("Channels of an embedding of positions; 64.")] = None
    bias_heads: Annotated[int | None, _help("Heads of --positions alibi; 8.")] = None
    base: Annotated[float | None, _help("Base of the wavelengths of sinusoidal and rotary positions; 10,000.")] = None
    buckets: Annotated[int | None, _help("Buckets of --positions relative; 32.")] = None
    max_distance: Annotated[int | None, _help("Beyond it all share the last bucket; 128.")] = None


def rule(rule: RuleOptions, *, page: Path | None = None, picture: Path | None = None, json: bool = False) -> int:
    """Draw a rule: as a page, a picture, JSON, or (nothing of these being asked) in the terminal."""
    kinds = [kind for kind in KINDS if getattr(rule, kind) is not None]
    if len(kinds) != 1:
        names = ", ".join(f"--{kind}" for kind in (kinds or KINDS))
        raise ValueError(f"one rule is drawn at a time: name one of {names}")
    ways = {"positions": _positions, "softmax": _softmax}
    return ways.get(kinds[0], _patterns)(rule, kinds[0], page=page, picture=picture, json=json)


def _patterns(rule: RuleOptions, kind: str, *, page: Path | None, picture: Path | None, json: bool) -> int:
    if strange := list(_sizes(rule)):
        raise ValueError(f"{_option(strange[0])} belongs to --positions, not to --{kind}: leave it out")
    # torch takes seconds to import, and --help must not wait for it
    from headway.look.page import document
    from headway.look.pattern.rule import look_of, rules_json
    from headway.look.pattern.rules import rules_of, title
    from headway.look.picture import draw_picture
    from headway.look.terminal import draw

    name = getattr(rule, kind)
    found = rules_of(kind, name, _pattern_options(rule))
    made = look_of(title(kind, name), found)
    if picture is not None:
        _print_path(draw_picture(made, picture))
    if page is not None:
        _print_path(write_whole(page, document(made)))
    if json:
        print(json_format.dumps(rules_json(found), indent=1, ensure_ascii=False))
        return 0
    if page is None and picture is None:
        print(draw(made, width=columns(), colour=colours()), end="\n\n")
    print("\n".join(made.notes))
    return 0


def _positions(rule: RuleOptions, kind: str, *, page: Path | None, picture: Path | None, json: bool) -> int:
    from headway.look.pattern.figures import position_plots

    names = {"length", "grid", "causal"}
    _only({*names, *SIZES}, rule, kind, "mechanisms and masks")
    asked = {"length": rule.length, "grid": _pair(rule.grid), "causal": rule.causal or None, **_sizes(rule)}
    assert rule.positions is not None
    made = position_plots(rule.positions, **{name: value for name, value in asked.items() if value is not None})
    return _numbers_drawn(made, page=page, picture=picture, json=json)


def _softmax(rule: RuleOptions, kind: str, *, page: Path | None, picture: Path | None, json: bool) -> int:
    from headway.look.pattern.figures import softmax_plots

    _only(set(), rule, kind, "other rules")
    assert rule.softmax is not None
    return _numbers_drawn(softmax_plots(_scores(rule.softmax)), page=page, picture=picture, json=json)


def _only(known: set[str], rule: RuleOptions, kind: str, owners: str) -> None:
    """Refuse sizes that the rule would not read."""
    others = [one.name for one in fields(rule) if one.name not in {*KINDS, *known}]
    if strange := [name for name in others if getattr(rule, name) not in (None, False)]:
        raise ValueError(f"{_option(strange[0])} belongs to {owners}, not to --{kind}: leave it out")


def _numbers_drawn(made: Any, *, page: Path | None, picture: Path | None, json: bool) -> int:
    from headway.look.pattern.figures_page import document, text
    from headway.look.picture.patterns import positions_picture

    if picture is not None:
        _print_path(positions_picture(made, picture))
    if page is not None:
        _print_path(write_whole(page, document(made)))
    if json:
        print(json_format.dumps(made.as_json(), ensure_ascii=False))
    elif page is None and picture is None:
        print(text(made, width=columns()))
    return 0


def _sizes(rule: RuleOptions) -> dict[str, Any]:
    """The sizes of an embedding that were given."""
    return {name: value for name in SIZES if (value := getattr(rule, name)) is not None}


def _pattern_options(rule: RuleOptions) -> Any:
    from headway.look.pattern.options import PatternOptions

    return PatternOptions(
        length=rule.length, keys=rule.keys, grid=_pair(rule.grid), causal=rule.causal,
        window=_extent("window", rule.window), dilation=_extent("dilation", rule.dilation or rule.step),
        tile=_extent("tile", rule.tile), selected=_numbers("selected", rule.selected),
        global_tokens=rule.global_tokens, segments=_numbers("segments", rule.segments),
        lengths=_numbers("lengths", rule.lengths), table=rule.table, channels=rule.channels, groups=rule.groups,
    )  # fmt: skip


def _pair(text: str | None) -> tuple[int, int] | None:
    """
    >>> _pair("6x4")
    (6, 4)
    """
    if text is None:
        return None
    if not (found := re.fullmatch(r"\s*(\d+)\s*[x×X]\s*(\d+)\s*", text)):
        raise ValueError(f"--grid is rows x columns, as 6x6, not {text!r}")
    return int(found[1]), int(found[2])


def _extent(name: str, text: str | None) -> int | tuple[int, int] | None:
    """
    >>> _extent("window", "4"), _extent("window", "2x3")
    (4, (2, 3))
    """
    if text is None:
        return None
    if not (found := re.fullmatch(r"\s*(\d+)(?:\s*[x×X]\s*(\d+))?\s*", text)) or 0 in (
        int(one or 1) for one in found.groups()
    ):
        raise ValueError(f"{_option(name)} is a whole number of at least 1, on a grid also two as 2x3, not {text!r}")
    return int(found[1]) if found[2] is None else (int(found[1]), int(found[2]))


def _numbers(name: str, text: str | None) -> tuple[int, ...] | None:
    """
    >>> _numbers("selected", "0,5")
    (0, 5)
    """
    if text is None:
        return None
    if not re.fullmatch(r"\s*\d+(\s*,\s*\d+)*\s*", text):
        raise ValueError(f"--{name} is whole numbers with commas between, as 0,5, not {text!r}")
    return tuple(int(one) for one in text.split(","))


def _scores(text: str) -> tuple[float, ...]:
    """
    >>> _scores("-3, 1,100")
    (-3.0, 1.0, 100.0)
    """
    try:
        return tuple(float(one) for one in text.split(","))
    except ValueError:
        raise ValueError(f"--softmax is numbers with commas between, as -3,1,100,5,-1, not {text!r}") from None


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _print_path(path: Path) -> None:
    print(f"written: {path}", file=sys.stderr)
