"""What `headway.show` gives: a page in a notebook, a drawing in a terminal, files, and exact numbers."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from headway.data.files import writable, write_whole
from headway.look.make import Seen
from headway.look.page import document
from headway.look.record import Look
from headway.look.roles import HeadRole, roles_table
from headway.observe.weights import CapturedAttention
from headway.ops.mask.pairs import ALL

HEIGHT = 860  # of the page within a notebook, in pixels
WIDTH = 100  # of the drawing, in characters


@dataclass(frozen=True, eq=False)
class View:
    """A look at a model. The attentions keep queries and keys, so that any weight can be computed again."""

    look: Look
    attentions: tuple[CapturedAttention, ...]

    @classmethod
    def of(cls, seen: Seen) -> "View":
        return cls(seen.look, seen.attentions)

    def save(self, path: str | Path) -> Path:
        """Write the page: one file that asks for nothing else."""
        return write_whole(writable(Path(path)), document(self.look))

    def png(self, path: str | Path, *, head: tuple[int, int] | None = None) -> Path:
        """Write a picture for a paper (.png, .svg or .pdf): all heads, or one, as (layer, head)."""
        from headway.look.picture import picture  # matplotlib is slow to import

        picture(self.look, writable(Path(path)), head=head)
        return Path(path)

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
