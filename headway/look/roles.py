"""The role of a head: the named view that it looks at far more than chance would have it."""

from collections.abc import Mapping
from dataclasses import dataclass

from headway.look.record import Kind, Look

SHARE = 0.3  # of its weight a head gives to the view that it is named after, at least
ABOVE = 0.1  # so much more than chance, at least: in a short text, every key holds a large share
RARE = 0.2  # of the rows: a view that fewer rows have (a word that comes twice) names no head
BROAD = 0.9  # entropy from which on a head looks everywhere, 1 being uniform


def role_of(views: Mapping[str, float], chance: Mapping[str, float], entropy: float) -> str:
    """The view that stands out the most above chance; where none does, "broad" or "mixed".

    >>> role_of({"first": 0.5, "next": 0.4}, {"first": 0.3, "next": 0.1}, 0.7)
    'next'
    >>> role_of({"first": 0.35}, {"first": 0.34}, 0.98)
    'broad'
    """
    above = {name: share - chance[name] for name, share in views.items() if share >= SHARE}
    best = max(above, key=above.__getitem__, default=None)
    if best is not None and above[best] >= ABOVE:
        return best
    return "broad" if entropy >= BROAD else "mixed"


@dataclass(frozen=True)
class HeadRole:
    """A row of the table of heads; share and chance are of the view that the head is named after, if it is."""

    layer: int  # its place among the layers of the look
    label: str
    kind: Kind
    head: int
    role: str
    share: float | None
    chance: float | None
    entropy: float
    reach: float | None


def roles_table(look: Look) -> list[HeadRole]:
    """Every head of every layer with its role, in their order."""
    return [
        HeadRole(
            place, layer.label, layer.kind, head, found.role,
            found.views.get(found.role), found.chance.get(found.role), found.entropy, found.reach,
        )
        for place, layer in enumerate(look.layers)
        for head, found in zip(layer.heads, layer.measures, strict=True)
    ]  # fmt: skip
