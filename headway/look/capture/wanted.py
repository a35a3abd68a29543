"""What is asked of every attention of a model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Wanted:
    """Layers in order of running, heads, and the first row with how many; None: all. What a layer lacks is left out.

    Layers of one model may differ in heads, and its texts in length: what no layer has, a look says in a note.
    """

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

    def lacking(self, heads: int, rows: int) -> tuple[str, ...]:
        """What is to be said where no layer has more than so many heads, or rows.

        >>> Wanted(heads=(0, 7), rows=(2, 99)).lacking(3, 5)
        ('Layers have heads 0 to 2: 7 is not there.', 'Layers have rows 0 to 4: 5 to 100 are not there.')
        """
        missing = [one for one in self.heads or () if one >= heads]
        first, last = (0, -1) if self.rows is None else (max(self.rows[0], rows), sum(self.rows) - 1)
        return (
            *_said("heads", heads, ", ".join(map(str, missing)), len(missing)),
            *_said("rows", rows, f"{first} to {last}" if first < last else str(first), last - first + 1),
        )


def _said(what: str, have: int, named: str, missing: int) -> tuple[str, ...]:
    verb = "is" if missing == 1 else "are"
    return (f"Layers have {what} 0 to {have - 1}: {named} {verb} not there.",) if missing > 0 else ()
