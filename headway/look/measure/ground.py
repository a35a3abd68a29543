"""Where queries and keys stand: what named views and distances are made of. Everything broadcasts to l M."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headway.look.record import Side


@dataclass(frozen=True, eq=False)
class Ground:
    """Rows i that ask and all keys j."""

    i: Int[Tensor, "l 1"]
    j: Int[Tensor, "1 M"]
    asking: int  # rows there are in all, L
    words: tuple[Int[Tensor, "l 1"], Int[Tensor, "1 M"]]  # equal numbers are equal words, -1 is none
    separators: Bool[Tensor, "1 M"]
    columns: int = 0  # of the grid of patches; 0 where there is none
    extra: int = 0  # tokens before the first patch

    @classmethod
    def of(cls, queries: Side, keys: Side) -> "Ground":
        i, j = torch.arange(len(queries.tokens))[:, None], torch.arange(len(keys.tokens))[None]
        numbers: dict[str, int] = {"": -1}
        asking, answering = (_numbered(words_of(side), numbers) for side in (queries, keys))
        special = torch.tensor([place for place in keys.special if place], dtype=torch.long)
        columns, extra = (keys.grid[1], keys.extra) if keys.grid and queries is keys else (0, 0)
        return cls(i, j, len(i), (asking[:, None], answering[None]), torch.isin(j, special), columns, extra)

    def at(self, rows: slice) -> "Ground":
        """The same for some of the rows."""
        return replace(self, i=self.i[rows], words=(self.words[0][rows], self.words[1]))

    @property
    def patches(self) -> Bool[Tensor, "l M"]:
        """Where both are patches."""
        return (self.i >= self.extra) & (self.j >= self.extra)

    @property
    def down(self) -> Int[Tensor, "l M"]:
        """Rows of the grid between two patches."""
        i, j = ((one - self.extra).div(self.columns, rounding_mode="floor") for one in (self.i, self.j))
        return (i - j).abs()

    @property
    def across(self) -> Int[Tensor, "l M"]:
        """Columns of the grid between two patches."""
        return ((self.i - self.extra) % self.columns - (self.j - self.extra) % self.columns).abs()

    @property
    def apart(self) -> Int[Tensor, "l M"]:
        """Steps between two patches, where a step may go aslant (Chebyshev)."""
        return torch.maximum(self.down, self.across)


def words_of(side: Side) -> list[str]:
    """The word that each token is of or is a piece of, blanks and case aside; "" for what stands for no text.

    >>> words_of(Side("text", ("[CLS]", " The", " run", "ning"), special=(0,), words=(-1, 0, 1, 1)))
    ['', 'the', 'running', 'running']
    """
    numbers, whole = side.words or (-1,) * len(side.tokens), defaultdict[int, str](str)
    for number, token in zip(numbers, side.tokens, strict=True):
        whole[number] += token
    texts = [token if number < 0 else whole[number] for number, token in zip(numbers, side.tokens, strict=True)]
    special = set(side.special)
    return ["" if place in special else text.strip().casefold() for place, text in enumerate(texts)]


def _numbered(words: Sequence[str], numbers: dict[str, int]) -> Int[Tensor, " n"]:
    return torch.tensor([numbers.setdefault(word, len(numbers)) for word in words], dtype=torch.long)
