"""Our own layers by themselves: they read vectors, which only Python can give."""

from typing import Any

from torch import Tensor

from headway.look.reading.given import Given, renamed
from headway.look.reading.images import patches
from headway.look.reading.sample import Place, Sample
from headway.look.reading.texts import ONE_OF_SEVERAL
from headway.look.record import Side


def read_vectors(model: Any, given: Given, title: str) -> Sample:
    """Positions in a row, or on the grid of the attention."""
    x = given.inputs
    if not isinstance(x, Tensor):
        raise ValueError(f"{title} reads vectors and no text: give them in Python, headway.show(model, inputs=x)")
    if not x.is_floating_point() or x.ndim not in (2, 3):
        raise ValueError(f"{title} reads vectors of shape L D or B L D, not {x.dtype} of shape {tuple(x.shape)}")
    x = x if x.ndim == 3 else x[None]
    notes = (ONE_OF_SEVERAL.format(len(x)),) if len(x) > 1 else ()
    attention = model.config.stack.block.attention
    place = Place("decoder" if attention.causal else "encoder")
    grid = getattr(attention.mechanism, "grid", None)
    side = positions(x.shape[1]) if grid is None else patches("image", grid, (), None)
    side = renamed(side, given.tokens)
    return Sample(title, model, (side,), lambda: model(x[:1]), lambda attention: place, notes=notes)


def positions(count: int) -> Side:
    """Places of which nothing is known but their number.

    >>> positions(3).tokens
    ('0', '1', '2')
    """
    return Side("positions", tuple(map(str, range(count))))
