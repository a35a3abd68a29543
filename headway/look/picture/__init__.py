"""Pictures for papers: PNG, SVG or PDF, made by matplotlib, which is an extra."""

from pathlib import Path
from typing import Any

from headway.look.picture.heads import Labels, one, overview, with_tokens
from headway.look.picture.patches import images, over_patches
from headway.look.picture.patterns import patterns
from headway.look.picture.style import require, save_figure, with_fonts
from headway.look.record import Layer, Look, head_at, only_head

__all__ = ["draw_picture", "require"]


def draw_picture(look: Look, path: Path, *, head: tuple[int, int] | None = None) -> Path:
    """Everything of a record, or one head of it: (the layer's place in the record, the head's number), large."""
    require(path)
    alone = only_head(look) if head is None else head_at(look, head)
    with with_fonts():
        return save_figure(_figure(look, alone), path)


def _figure(look: Look, alone: tuple[Layer, int] | None) -> Any:
    if all(layer.kind == "pattern" for layer in look.layers):
        return patterns(look)
    if alone is not None:
        layer, place = alone
        return images(look, [layer], place) if over_patches(look, layer) else one(look, layer, place)
    if any(over_patches(look, layer) for layer in look.layers):
        return images(look, list(look.layers), None)
    labels = Labels.fitting(look)
    return overview(look) if labels is None else with_tokens(look, labels)
