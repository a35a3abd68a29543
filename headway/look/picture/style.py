"""How pictures look: colours that readers without colour vision tell apart, one font, thin lines, legible text.

Lightness falls steadily with what is shown.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from headway.render import legible

SEQUENTIAL = ("#ffffff", "#dce7fa", "#94b8f0", "#3f7fe0", "#164aa6", "#0a2557")  # 0 … 1
DIVERGING = ("#6e3300", "#c65d07", "#f4b978", "#fafafa", "#9dbff2", "#1c5fd4", "#0a2557")  # −1 … 1
ALLOWED, NOT_ALLOWED = "#1c4fae", "#e9ecf1"


def sequential(values: Float[np.ndarray, "y x"]) -> UInt8[np.ndarray, "y x 3"]:
    """From 0 (white) to 1 (dark).

    >>> sequential(np.array([[0.0, 1.0]])).tolist()
    [[[255, 255, 255], [10, 37, 87]]]
    """
    return _between(values, SEQUENTIAL)


def diverging(values: Float[np.ndarray, "y x"]) -> UInt8[np.ndarray, "y x 3"]:
    """From −1 (brown) through 0 (white) to 1 (blue).

    >>> diverging(np.array([[-1.0, 0.0, 1.0]])).tolist()
    [[[110, 51, 0], [250, 250, 250], [10, 37, 87]]]
    """
    return _between((values + 1) / 2, DIVERGING)


def _between(places: Float[np.ndarray, "y x"], colours: tuple[str, ...]) -> UInt8[np.ndarray, "y x 3"]:
    """The colour at each place from 0 to 1 along a row of colours."""
    points = np.linspace(0, 1, len(colours))
    channels = np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in colours], dtype=np.float64)
    mixed = [np.interp(places, points, channels[:, one]) for one in range(3)]
    return np.rint(np.stack(mixed, axis=-1)).astype(np.uint8)


SUFFIXES = (".png", ".svg", ".pdf")
DOTS = 300  # an inch
WIDTH = 7.0  # inches: a page of a paper
INK, SOFT, LINE = "#1d2129", "#5c6470", "#b9c0ca"
LONGEST = 14  # characters of a token on an axis
UNKNOWN = "□"  # for what no font at hand can write
# Fonts with letters that matplotlib's own lacks; those that are installed are used.
MORE_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Noto Sans Devanagari", "Noto Sans Thai",
              "Arial Unicode MS", "Noto Emoji", "Symbola")  # fmt: skip


def require(path: Path, *, option: str = "--png") -> None:
    """Refuses before any work what would make the picture fail."""
    if find_spec("matplotlib") is None:
        raise ValueError(f'{option} needs matplotlib: pip install "headway[plot]"')
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{option} writes {', '.join(SUFFIXES)}, not {path.name!r}")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{option} cannot write {path}: the directory {path.parent} does not exist")


def figure(width: float, height: float, *, laid_out: bool = True) -> Any:
    """An empty picture of so many inches, its parts put in order by matplotlib or by hand."""
    from matplotlib.figure import Figure  # an extra, and slow to import
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    room = ConstrainedLayoutEngine(w_pad=0.04, h_pad=0.04, wspace=0.02, hspace=0.02)
    return Figure(figsize=(width, height), layout=room if laid_out else None)


@contextmanager
def with_fonts() -> Iterator[None]:
    """All fonts at hand, for texts made within: each keeps the fonts of the moment it was made."""
    from matplotlib import rc_context

    # Letters stay letters in a PDF or SVG, and a file is the same whenever it is made.
    settings: dict[Any, Any] = {
        "font.family": list(fonts()),
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
        "svg.hashsalt": "headway",
    }
    with rc_context(settings):
        yield


def save_figure(made: Any, path: Path) -> Path:
    """Beside the place first, so that nothing half-written stands there."""
    part = path.with_name(f".{path.stem}.partial{path.suffix}")
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})
    try:
        with with_fonts():
            made.savefig(part, dpi=DOTS, bbox_inches="tight", pad_inches=0.03, metadata=dates)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


@lru_cache
def fonts() -> tuple[str, ...]:
    """matplotlib's own font, and those at hand that know more letters."""
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    return ("DejaVu Sans", *(name for name in MORE_FONTS if name in installed))


@lru_cache
def _letters() -> frozenset[int]:
    """Every character that one of the fonts can write."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    paths = [findfont(FontProperties(family=name)) for name in fonts()]
    return frozenset(code for path in paths for code in get_font(path).get_charmap())


def token_label(text: str, *, longest: int = LONGEST) -> str:
    """A token as a picture can have it: what no font at hand knows is a box.

    >>> token_label("a\\n\\U00012000")
    'a↵□'
    """
    known = _letters()
    return "".join(one if ord(one) in known else UNKNOWN for one in legible(text, longest=longest))


def tokens(axes: Any, texts: Sequence[str], *, which: str, size: float) -> None:
    """All tokens on an axis, or numbers where they have no room."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    shown = [token_label(text) for text in texts]
    axis.set_ticks(range(len(shown)), shown, fontsize=size, parse_math=False)
    if which == "x":
        axes.tick_params(axis="x", labelrotation=90 if max(map(len, shown)) > 2 else 0)


def style_axes(axes: Any) -> None:
    axes.tick_params(length=2, width=0.4, color=LINE, labelcolor=INK, pad=1.5)
    for side in axes.spines.values():
        side.set(color=LINE, linewidth=0.5)


@lru_cache
def map_of(kind: str) -> Any:
    """The colours as matplotlib takes them."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = SEQUENTIAL if kind == "sequential" else DIVERGING
    return LinearSegmentedColormap.from_list(kind, colours, N=512)
