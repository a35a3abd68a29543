"""Every mechanism as a rule that can be drawn."""

from dataclasses import replace

from headway.config import Spec, read_spec
from headway.look.pattern.asked import Asked, extent, folded, long, patch, settled
from headway.look.pattern.masks import COMMON, EVERYTHING, PLACED, earlier, near, spread
from headway.look.pattern.rule import Places, Rule
from headway.ops.attention import MECHANISMS, record_of
from headway.ops.mask import causal

# A mechanism -> the options that it takes; one that is not here takes those of any attention between positions.
OPTIONS: dict[str, frozenset[str]] = dict.fromkeys(MECHANISMS, PLACED) | {
    "local": PLACED | {"window", "dilation", "selected", "global_tokens"},
    "spatial": COMMON | {"grid", "window"},
    "channel": frozenset({"length", "grid", "channels", "groups"}),
}


def mechanism_rule(name: str, asked: Asked, *, label: str | None = None) -> Rule:
    """The rule of a mechanism under the options said."""
    said, whole = asked, settled(_on_grid(asked) if name == "spatial" else asked)
    spec, formula = _spec(name, said, whole)
    extra = (whole.global_tokens or 0) if spec.knows_outside else 0
    formula = earlier(formula) if asked.causal else formula
    channels, groups = _groups(whole) if record_of(spec).between == "channels" else (1, 1)
    mask = causal() if asked.causal else None
    return Rule(
        label or name, formula, spec, mask, Places.of(whole, extra=extra), 0, channels, groups,
        longer=None if asked.keys is not None else lambda: mechanism_rule(name, long(asked)),
    )  # fmt: skip


def _on_grid(asked: Asked) -> Asked:
    """Windows of patches lie on a grid; a sequence is folded into one."""
    length = settled(replace(asked, window=None)).length
    return asked if asked.grid is not None or length is None else replace(asked, grid=folded(length))


def _spec(name: str, said: Asked, whole: Asked) -> tuple[Spec, str]:
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


def _local(said: Asked, whole: Asked) -> tuple[Spec, str]:
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


def _groups(whole: Asked) -> tuple[int, int]:
    """Channels of a group, and how many groups."""
    assert whole.channels is not None and whole.groups is not None
    if whole.channels % whole.groups:
        raise ValueError(f"--channels {whole.channels} cannot be shared evenly by --groups {whole.groups}")
    return whole.channels // whole.groups, whole.groups
