"""How broad a head is, how far it reaches, and which named view it attends to.

A named view is, for each query, a set of keys that heads are known to attend to (Clark et al. 2019, arXiv:1906.04341;
Voita et al. 2019, arXiv:1905.09418). Separators are the tokens that stand for no text ([SEP], </s>), but for the first
token of all, which is a view of its own: in BERT it is [CLS]. Punctuation is text, and none of them. A word is the same
where its text is, blanks and case aside; other pieces of the query's own word count too, the query itself does not.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.look.record import RARE, Kind, Measures, Side, role_of


@dataclass(frozen=True, eq=False)
class Positions:
    """Rows i that ask and all keys j."""

    i: Int[Tensor, "l 1"]
    j: Int[Tensor, "1 M"]
    asking: int  # rows there are in all, L
    words: tuple[Int[Tensor, "l 1"], Int[Tensor, "1 M"]]  # equal numbers are equal words, -1 is none
    separators: Bool[Tensor, "1 M"]
    columns: int = 0  # of the grid of patches; 0 where there is none
    extra: int = 0  # tokens before the first patch

    @classmethod
    def of(cls, queries: Side, keys: Side) -> "Positions":
        i, j = torch.arange(len(queries.tokens))[:, None], torch.arange(len(keys.tokens))[None]
        numbers: dict[str, int] = {"": -1}
        asking, answering = (_numbered(words_of(side), numbers) for side in (queries, keys))
        special = torch.tensor([place for place in keys.special if place], dtype=torch.long)
        columns, extra = (keys.grid[1], keys.extra) if keys.grid and queries is keys else (0, 0)
        return cls(i, j, len(i), (asking[:, None], answering[None]), torch.isin(j, special), columns, extra)

    def at(self, rows: slice) -> "Positions":
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


# A rule that broadcasts to l M: True where key j belongs to the view of row i.
View = Callable[[Positions], Bool[Tensor, "#l #M"]]


def _same_word(at: Positions) -> Tensor:
    asking, answering = at.words
    return (asking == answering) & (asking >= 0)


def _diagonal(at: Positions) -> Tensor:
    """Keys within one of the place that is as far into their text as the query is into its own."""
    keys = at.j.shape[1]
    return (at.i * (keys - 1) / max(at.asking - 1, 1) - at.j).abs() <= 1


# Where two views stand out alike, the one that is named first gives its name to the head.
TEXT: dict[str, View] = {
    "previous": lambda at: at.j == at.i - 1,
    "next": lambda at: at.j == at.i + 1,
    "itself": lambda at: at.j == at.i,
    "first": lambda at: at.j == 0,
    "separators": lambda at: at.separators,
    "same word": lambda at: _same_word(at) & (at.j != at.i),
}
ACROSS: dict[str, View] = {
    "diagonal": _diagonal,
    "first": lambda at: at.j == 0,
    "separators": lambda at: at.separators,
    "last": lambda at: at.j == at.j.shape[1] - 1,
    "same word": _same_word,
}
GRID: dict[str, View] = {
    "itself": lambda at: at.j == at.i,
    "neighbours": lambda at: at.patches & (at.apart == 1),
    "same row": lambda at: at.patches & (at.down == 0) & (at.j != at.i),
    "same column": lambda at: at.patches & (at.across == 0) & (at.j != at.i),
    "class token": lambda at: at.j < at.extra,
}
CHANNELS: dict[str, View] = {"itself": lambda at: at.j == at.i}


def views_of(kind: Kind, queries: Side, keys: Side) -> dict[str, View]:
    """The views that make sense between these two sides."""
    if kind == "channels":
        return CHANNELS
    if queries is not keys:
        return ACROSS
    return TEXT if keys.grid is None else GRID


def distances(kind: Kind, queries: Side, keys: Side) -> Callable[[Positions], Float[Tensor, "l M"]] | None:
    """How far a key is from a query: in tokens, or in patches (a class token is nowhere, and adds nothing).

    None between two sides and between channels.
    """
    if kind == "channels" or queries is not keys:
        return None
    if keys.grid is None:
        return lambda at: (at.i - at.j).abs().float()
    return lambda at: torch.where(at.patches, at.apart, 0).float()


@dataclass
class Mean:
    """A mean over the rows that count, for each head; where none did it is None."""

    total: Tensor | float = 0.0
    rows: Tensor | float = 0.0

    def add(self, values: Float[Tensor, "*v h l"], counts: Bool[Tensor, "*#v #h l"]) -> None:
        counts = counts.expand(values.shape)
        self.total = self.total + values.double().where(counts, 0.0).sum(-1)
        self.rows = self.rows + counts.sum(-1)

    def of(self, *place: int) -> float | None:
        total, rows = (torch.as_tensor(one)[place].item() for one in (self.total, self.rows))
        return total / rows if rows else None


@dataclass
class HeadMeasures:
    """Entropy is of the rows that may see several keys; a view's share is of the rows that may see keys in it and keys
    outside of it, since the others have no choice."""

    kind: Kind
    queries: Side
    keys: Side
    entropy: Mean = field(default_factory=Mean)
    reach: Mean = field(default_factory=Mean)
    largest: Mean = field(default_factory=Mean)
    shares: Mean = field(default_factory=Mean)
    chances: Mean = field(default_factory=Mean)
    rows: int = 0

    def __post_init__(self) -> None:
        self.ground = Positions.of(self.queries, self.keys)
        self.views = views_of(self.kind, self.queries, self.keys)
        self.distance = distances(self.kind, self.queries, self.keys)

    def add(self, weights: Float[Tensor, "h l M"], may: Bool[Tensor, "a l M"], rows: slice) -> None:
        """`may`: the keys that each row may see, for each head or (a = 1) for all alike."""
        at, seen = self.ground.at(rows), may.sum(-1)
        self.rows += weights.shape[1]
        self.entropy.add(_entropy(weights) / seen.clamp(min=2).double().log(), seen > 1)
        self.largest.add(weights.amax(-1), seen > 0)
        self._look(weights, may, seen, at)
        if self.distance is not None:
            found = _over_keys(weights, self.distance(at)[None].to(weights.dtype))[0]
            self.reach.add(found, (seen > 0) & (at.i[:, 0] >= at.extra))

    def _look(self, weights: Tensor, may: Tensor, seen: Tensor, at: Positions) -> None:
        rules = torch.stack([rule(at).expand(weights.shape[1:]) for rule in self.views.values()]).to(weights.dtype)
        inside = _over_keys(may.to(weights.dtype), rules)
        choice = (inside > 0) & (inside < seen)
        self.shares.add(_over_keys(weights, rules), choice)
        chance = inside / seen.clamp(min=1)
        self.chances.add(chance.expand(-1, len(weights), -1), choice)

    def of_head(self, head: int) -> Measures:
        """Of one head, counted among those that were added."""
        shares = {name: self.shares.of(place, head) for place, name in enumerate(self.views)}
        views = {name: share for name, share in shares.items() if share is not None}
        places = {name: place for place, name in enumerate(self.views) if name in views}
        chance = {name: self.chances.of(place, head) or 0.0 for name, place in places.items()}
        common = [name for name, place in places.items() if self._often(place, head)]
        entropy = min(max(self.entropy.of(head) or 0.0, 0.0), 1.0)
        role = role_of({name: views[name] for name in common}, chance, entropy)
        reach = None if self.distance is None else self.reach.of(head) or 0.0
        return Measures(entropy, reach, self.largest.of(head) or 0.0, views, chance, role)

    def _often(self, view: int, head: int) -> bool:
        return torch.as_tensor(self.shares.rows)[view, head].item() >= RARE * self.rows


def _entropy(weights: Float[Tensor, "h l M"]) -> Float[Tensor, "h l"]:
    logs = weights.clamp(min=torch.finfo(weights.dtype).tiny).log_()
    return -logs.mul_(weights).sum(-1)


def _over_keys(weights: Float[Tensor, "h l M"], rules: Float[Tensor, "v l M"]) -> Float[Tensor, "v h l"]:
    """Σ_m weights_hlm rules_vlm: for each row a product of two small matrices."""
    return torch.bmm(rules.transpose(0, 1), weights.permute(1, 2, 0)).permute(1, 2, 0)
