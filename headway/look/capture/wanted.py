"""What is asked of every attention of a model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Wanted:
    """Layers in order of running, heads, and the first row with how many; None: all. What a layer lacks is left out."""

    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    rows: tuple[int, int] | None = None

    def has_layer(self, number: int) -> bool:
        return self.layers is None or number in self.layers

    def heads_of(self, count: int) -> tuple[int, ...]:
        """
        >>> Wanted(heads=(1, 7)).heads_of(4)
        (1,)
        """
        return tuple(range(count)) if self.heads is None else tuple(one for one in self.heads if 0 <= one < count)

    def rows_of(self, count: int) -> slice:
        """
        >>> Wanted(rows=(3, 5)).rows_of(6)
        slice(3, 6, None)
        """
        first, rows = (0, count) if self.rows is None else self.rows
        return slice(min(first, count), min(first + rows, count))
