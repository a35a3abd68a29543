"""Every mask as a rule that can be drawn: its name, the options that it takes, the mask and its formula."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Bool
from torch import Tensor

from headway.config import read_spec
from headway.look.pattern.asked import Asked, extent, long, patch, settled
from headway.look.pattern.rule import Places, Rule
from headway.ops import mask as masks
from headway.ops.mask import Mask

COMMON = frozenset({"length", "causal"})
EVERYTHING, CAUSAL = "all keys", "j ≤ i"
PLACED = COMMON | {"keys", "grid"}


@dataclass(frozen=True)
class Drawable:
    """The options of a mask, and how it is made of them once all have a value."""

    options: frozenset[str]
    make: Callable[[Asked], tuple[Mask, str]]


def _window(asked: Asked) -> tuple[Mask, str]:
    assert asked.window is not None
    return masks.window(asked.window, grid=asked.grid), near(asked.window, asked.grid)


def _dilated(asked: Asked) -> tuple[Mask, str]:
    assert asked.window is not None and asked.dilation is not None
    made = masks.dilated(asked.window, step=asked.dilation, grid=asked.grid)
    return made, spread(asked.window, asked.dilation, asked.grid)


def _tiles(asked: Asked) -> tuple[Mask, str]:
    assert asked.tile is not None
    return masks.tiles(asked.tile, grid=asked.grid), f"i and j in one tile of {extent(asked.tile)}"


def _selected(asked: Asked) -> tuple[Mask, str]:
    assert asked.selected is not None
    names = [patch(place, asked.grid) for place in asked.selected]
    return masks.selected(asked.selected), f"i or j is one of {(', ' if asked.grid is None else ' and ').join(names)}"


def _segments(asked: Asked) -> tuple[Mask, str]:
    assert asked.segments is not None
    sizes = torch.tensor(asked.segments)
    numbers = torch.arange(len(sizes)).repeat_interleave(sizes)
    return masks.segments(numbers), f"i and j in one segment of {' + '.join(map(str, asked.segments))}"


def _packed(asked: Asked) -> tuple[Mask, str]:
    assert asked.segments is not None
    return masks.packed(asked.segments), f"i and j in one text of {' + '.join(map(str, asked.segments))}"


def _padding(asked: Asked) -> tuple[Mask, str]:
    assert asked.lengths is not None
    return masks.padding(lengths=asked.lengths, total=asked.keys), "j is a real key"


def _allowed(asked: Asked) -> tuple[Mask, str]:
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


# What a longer sequence has too; the others say themselves how long it is.
GROWING = ("everything", "causal", "window", "dilated", "tiles", "selected", "global_tokens")


def mask_rules(name: str, asked: Asked) -> list[Rule]:
    """The rule of a mask; of one that tells the items of a batch apart, one for each."""
    said, asked = asked, settled(_sized(asked) if name == "allowed" else asked)
    made, formula = MASKS[name].make(asked)
    made, formula = (made & masks.causal(), earlier(formula)) if asked.causal else (made, formula)
    places = Places.of(asked, extra=(asked.global_tokens or 0) if name == "global_tokens" else 0)
    batch = made.batch
    labels = [name.replace("_", " ") if batch == 1 else f"{name}, item {item}" for item in range(batch)]
    longer = (lambda: mask_rules(name, long(said))[0]) if name in GROWING and said.keys is None else None
    return [
        Rule(label, formula, read_spec("softmax"), made, places, item, longer=longer)
        for item, label in enumerate(labels)
    ]


def _sized(asked: Asked) -> Asked:
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
