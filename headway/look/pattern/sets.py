"""Patterns that belong together: all masks, all mechanisms, the six of the textbook, the two of DaViT."""

from collections.abc import Mapping
from dataclasses import replace

from headway.config import nearest
from headway.look.pattern.asked import Asked, refuse_strangers, settled
from headway.look.pattern.masks import MASKS, mask_rules
from headway.look.pattern.mechanisms import OPTIONS, mechanism_rule
from headway.look.pattern.rule import Rule

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


def masks(name: str, asked: Asked) -> list[Rule]:
    """The rules of one mask, or of all of them (a table of one's own where there is one)."""
    name = name.replace("-", "_")
    if name == ALL:
        refuse_strangers(asked, frozenset().union(*(one.options for one in MASKS.values())), "--mask all", OWNERS)
        chosen = [one for one in MASKS if one != "allowed" or asked.table is not None]
        return [rule for one in chosen for rule in mask_rules(one, _own(asked, MASKS[one].options))]
    _known("mask", name, MASKS)
    refuse_strangers(asked, MASKS[name].options, f"--mask {name.replace('_', '-')}", OWNERS)
    return mask_rules(name, asked)


def mechanisms(name: str, asked: Asked) -> list[Rule]:
    """The rule of one mechanism, or those of all that can keep to what was said."""
    if name == ALL:
        refuse_strangers(asked, frozenset().union(*OPTIONS.values()), "--mechanism all", OWNERS)
        chosen = [one for one in OPTIONS if not asked.causal or "causal" in OPTIONS[one]]
        return [mechanism_rule(one, _own(asked, OPTIONS[one])) for one in chosen]
    _known("mechanism", name, OPTIONS)
    refuse_strangers(asked, OPTIONS[name], f"--mechanism {name}", OWNERS)
    return [mechanism_rule(name, asked)]


def patterns(name: str, asked: Asked) -> list[Rule]:
    """The six patterns of the textbook on a sequence or a grid, or the two attentions of DaViT."""
    _known("set of patterns", name, SETS)
    refuse_strangers(asked, SETS[name], f"--patterns {name}", OWNERS)
    return textbook(asked) if name == "textbook" else davit(asked)


def textbook(asked: Asked) -> list[Rule]:
    """Full, causal, local, dilated, local with selected tokens that see all, local with global tokens."""
    whole, plain = settled(asked), replace(asked, window=None, dilation=None, selected=None, global_tokens=None)
    near = replace(plain, window=whole.window)
    return [
        mechanism_rule("softmax", plain, label="full"),
        mechanism_rule("softmax", replace(plain, causal=True), label="causal"),
        mechanism_rule("local", near, label="local"),
        mechanism_rule("local", replace(near, dilation=whole.dilation), label="dilated"),
        mechanism_rule("local", replace(near, selected=whole.selected), label="selected tokens"),
        mechanism_rule("local", replace(near, global_tokens=whole.global_tokens), label="global tokens"),
    ]


def davit(asked: Asked) -> list[Rule]:
    """Attention between patches within windows, and between channels within groups (arXiv:2204.03645)."""
    grid = asked.grid or (8, 8)
    patches = Asked(grid=grid, window=asked.window or (4 if asked.grid is None else 2))
    channels = Asked(grid=grid, channels=asked.channels, groups=asked.groups)
    return [
        mechanism_rule("spatial", patches, label="windows of patches"),
        mechanism_rule("channel", channels, label="channels in groups"),
    ]


def _own(asked: Asked, options: frozenset[str]) -> Asked:
    """Only what this rule takes; how long the sequence is goes for all."""
    length = asked.length if asked.grid is None else asked.grid[0] * asked.grid[1]
    others = {name: False if name == "causal" else None for name in asked.said - options}
    return replace(asked, **{"length": length} | others)


def _known(what: str, name: str, known: Mapping[str, object]) -> None:
    if name not in known:
        names = ", ".join(one.replace("_", "-") for one in (*known, *((ALL,) if known is not SETS else ())))
        raise ValueError(f"there is no {what} {name!r}{nearest(name, known)}; there are {names}")
