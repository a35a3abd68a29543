"""A view of a model, which `headway.show` gives: a page in a notebook, a drawing in a terminal, files, exact numbers.

It is made from one pass: every attention is captured, then measured and packed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from headway.data.files import writable, write_whole
from headway.look.layer import BUDGET, layer_of, row_step
from headway.look.logit_lens import logit_lens
from headway.look.packed import Factors
from headway.look.page import document
from headway.look.reading.sample import AttentionPlace, ModelSample, Sides, at_rest, labels
from headway.look.record import HeadRole, Layer, Lens, Look, Side, roles_table
from headway.observe.attention import captured
from headway.observe.weights import CapturedAttention, Selection
from headway.ops.mask.pairs import ALL

HEIGHT = 860  # of the page within a notebook, in pixels
WIDTH = 100  # of the drawing, in characters


@dataclass(frozen=True, eq=False)
class View:
    """A look at a model. The attentions keep queries and keys, so that any weight can be computed again."""

    look: Look
    attentions: tuple[CapturedAttention, ...]

    def save(self, path: str | Path) -> Path:
        """Write the page: one file that asks for nothing else."""
        return write_whole(writable(Path(path)), document(self.look))

    def png(self, path: str | Path, *, head: tuple[int, int] | None = None) -> Path:
        """Write a picture for a paper (.png, .svg or .pdf): all heads, or one, as (layer, head)."""
        from headway.look.picture import draw_picture  # matplotlib is slow to import

        return draw_picture(self.look, writable(Path(path)), head=head)

    def weights(self, layer: int, head: int, rows: slice = ALL) -> Float[Tensor, "l M"]:
        """The weights of one head, computed now and not rounded; `layer` counts those in sight, rows as in the text.

        Without `rows`, all that were asked for.
        """
        if not 0 <= layer < len(self.look.layers):
            raise ValueError(f"there is no layer {layer}: there are {len(self.look.layers)}, counted from 0")
        held = self.look.layers[layer]
        if head not in held.heads:
            raise ValueError(f"there is no head {head} in layer {layer}: it holds {', '.join(map(str, held.heads))}")
        first, count = held.rows
        rows = slice(first, first + count) if rows == ALL else rows
        return self.attentions[layer].weights(rows, [head])[0, 0]

    def heads(self) -> list[HeadRole]:
        """Every head with its role, entropy and reach."""
        return roles_table(self.look)

    def __str__(self) -> str:
        from headway.look.terminal import draw

        return draw(self.look, width=WIDTH)

    def __repr__(self) -> str:
        return f"View({self.look.title!r}, {self.look.subtitle})"

    def _repr_html_(self) -> str:
        """For a notebook: the page in a frame of its own, which can run the page's script and nothing else."""
        return (
            f'<iframe sandbox="allow-scripts" title="{escape(self.look.title)}" srcdoc="{escape(document(self.look))}" '
            f'style="width:100%;height:{HEIGHT}px;border:0"></iframe>'
        )


# Logits of a whole text that may be held for the lens: 1 GB in float32.
LOGITS = 2**28
EVERYTHING = Selection()
Say = Callable[[str], None]


def look_at(sample: ModelSample, *, selection: Selection = EVERYTHING, lens: bool = True) -> Look:
    """Everything there is to see of a model on one input."""
    return view_sample(sample, selection=selection, lens=lens).look


def view_sample(
    sample: ModelSample, *, selection: Selection = EVERYTHING, lens: bool = True, say: Say = lambda line: None
) -> View:
    """The same, with the attentions: their weights can be computed again, exactly. `say` hears how far it is."""
    with at_rest(sample.model):  # also where the lens reads a block's vectors, after the pass
        found, said, more = _run(sample, selection, lens)
    _check(sample, found, selection)
    kept, notes = _within_selection(found, selection)
    sides = Sides(sample)
    places = [sides.place(one) for one in kept]
    layers = _layers(sample, kept, places, sides.all, selection, say)
    notes = (*sample.notes, *notes, *more, *_measured_in_part(layers))
    look = Look(sample.title, tuple(sides.all), layers, said, notes, _subtitle(sample, layers, sides.all))
    return View(look, tuple(kept))


def _measured_in_part(layers: Sequence[Layer]) -> tuple[str, ...]:
    """What is to be said where a text was too long for all of its rows to be measured."""
    counts = [layer.rows[1] for layer in layers if isinstance(layer.data, Factors)]
    step = row_step(slice(0, max(counts, default=0)))
    return (f"Roles, measures and small maps are of every {step}th row; every row can be looked at.",) * (step > 1)


def _check(sample: ModelSample, found: Sequence[CapturedAttention], selection: Selection) -> None:
    if selection.layers is not None and len(found) < len(set(selection.layers)) and (count := _ran(sample)):
        asked = ", ".join(str(one) for one in selection.layers if one >= count)
        raise ValueError(
            f"{sample.title} has layers 0 to {count - 1}, in the order in which they run: {asked} cannot be shown"
        )
    if not found:
        raise ValueError(
            f"{sample.title} has no attention to look at: neither scaled_dot_product_attention nor a softmax over "
            "scores ran in it"
        )


def _ran(sample: ModelSample) -> int:
    """How many attentions there are in all: those that are not selected were not counted."""
    with captured(sample.model, selection=Selection(heads=(0,), rows=(0, 1))) as found:
        sample.run()
    return len(found)


def _within_selection(
    found: Sequence[CapturedAttention], selection: Selection
) -> tuple[list[CapturedAttention], tuple[str, ...]]:
    """Those that have some of the rows and heads; a text may be longer than the other."""
    first = 0 if selection.rows is None else selection.rows[0]
    heads = (0,) if selection.heads is None else selection.heads
    kept = [one for one in found if first < one.shape[2] and min(heads) < one.shape[1]]
    if not kept:
        rows, most = max(one.shape[2] for one in found), max(one.shape[1] for one in found)
        raise ValueError(
            f"there are heads 0 to {most - 1} and rows 0 to {rows - 1}, and none of those that were asked for"
        )
    left = len(found) - len(kept)
    none = (f"{left} of {len(found)} layers have none of these heads and rows.",) if left else ()
    return kept, (*none, *selection.lacking(max(one.shape[1] for one in kept), max(one.shape[2] for one in kept)))


def _layers(
    sample: ModelSample,
    found: Sequence[CapturedAttention],
    places: Sequence[AttentionPlace],
    sides: Sequence[Side],
    selection: Selection,
    say: Say,
) -> tuple[Layer, ...]:
    names = labels(sample.model, found, [one.kind for one in places], all_of_them=selection.layers is None)
    layers = []
    for attention, place, label in zip(found, places, names, strict=True):
        say(f"{place.kind} {label}: {len(layers) + 1} of {len(found)}")
        made = layer_of(
            attention, label=label, kind=place.kind, queries=place.queries, keys=place.keys, sides=sides,
            selection=selection, budget=BUDGET // len(found),
        )  # fmt: skip
        layers.append(made)
    return tuple(layers)


def _run(
    sample: ModelSample, selection: Selection, lens: bool
) -> tuple[list[CapturedAttention], Lens | None, tuple[str, ...]]:
    """The one pass: attentions, and the vectors that the lens reads, are seen in the same."""
    length = len(sample.sides[sample.spoken].tokens) if sample.sides else 0
    spoken = lens and sample.logits is not None
    if not spoken or length * sample.outputs > LOGITS:
        with captured(sample.model, selection=selection) as found:
            sample.run()
        notes = (f"No words by layer: {length:,} x {sample.outputs:,} logits are too many.",) if spoken else ()
        return found, None, notes
    seen_there: list[CapturedAttention] = []

    def run() -> Tensor:
        with captured(sample.model, selection=selection) as found:
            out = sample.answer()
        seen_there.extend(found)
        return out

    said = logit_lens(sample.model, run, side=sample.spoken, word=sample.word, places=_places(selection, length))
    return (seen_there, said, ()) if isinstance(said, Lens) else (seen_there, None, (said,))


def _places(selection: Selection, length: int) -> list[int] | None:
    """Where the words by layer are computed: at the rows that were asked for, if there are such."""
    if selection.rows is None or selection.rows[0] >= length:
        return None
    return list(range(selection.rows[0], min(sum(selection.rows), length)))


def _subtitle(sample: ModelSample, layers: Sequence[Layer], sides: Sequence[Side]) -> str:
    heads = sum(len(layer.heads) for layer in layers)
    counts = [_size_of(side) for at, side in enumerate(sides) if at < len(sample.sides) or side.name == "positions"]
    return f"{_some(len(layers), 'layer')}, {_some(heads, 'head')}; {', '.join(counts)}"


def _size_of(side: Side) -> str:
    if side.grid is not None:
        return f"{side.name} of {side.grid[0]} x {side.grid[1]} patches"
    return f"{side.name} of {_some(len(side.tokens), 'token' if side.name != 'positions' else 'place')}"


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
