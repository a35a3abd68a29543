"""Names for both ends of an attention: a side of the sample where it has that many places, else numbers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from headway.look.reading.images import EXTRA
from headway.look.reading.sample import Known, Place, Sample
from headway.look.reading.vectors import positions
from headway.look.record import Side

SPARE = 16  # tokens beside the patches, at most: class tokens, registers


class Sides:
    """The sides of a sample, and those that its attentions need beside them."""

    def __init__(self, sample: Sample) -> None:
        self.sample, self.all = sample, list(sample.sides)
        self.met = frozenset[int]()  # sides that an attention has asked for

    def place(self, attention: Known) -> Place:
        """Where an attention belongs, with sides of its own sizes."""
        if attention.mechanism == "channel":
            channels = self._added(replace(positions(attention.shape[2]), name="channels"))
            return Place("channels", channels, channels)
        said = self.sample.place(attention)
        queries = self._fitting(said.queries, attention.shape[2])
        return Place(said.kind, queries, self._fitting(said.keys, attention.shape[3]))

    def _fitting(self, wanted: int, length: int) -> int:
        """The side that is wanted, or another that has as many places, or a new one of numbers."""
        if wanted < len(self.sample.sides):
            self.all[wanted] = self._counted(wanted, length)
        order = [wanted, *range(len(self.sample.sides))]
        found = next((at for at in order if at < len(self.all) and len(self.all[at].tokens) == length), None)
        return self._added(positions(length)) if found is None else found

    def _counted(self, wanted: int, length: int) -> Side:
        """The first attention says how many places vectors have: a sequence may stand before or behind the batch."""
        side = self.all[wanted]
        first, self.met = wanted not in self.met, self.met | {wanted}
        if first and side == positions(len(side.tokens)):
            return positions(length)
        return _with_extra(side, length)

    def _added(self, side: Side) -> int:
        if side not in self.all:
            self.all.append(side)
        return self.all.index(side)


def _with_extra(side: Side, length: int) -> Side:
    """Patches of a model that does not say how many tokens stand before them."""
    more = length - len(side.tokens)
    if side.grid is None or side.extra or not 0 < more <= SPARE:
        return side
    names = (EXTRA[0], *(f"[extra {number}]" for number in range(1, more)))
    return replace(side, tokens=(*names, *side.tokens), extra=more, special=tuple(range(more)))


def labels(model: nn.Module, attentions: Sequence[Known], kinds: Sequence[str], *, all_of_them: bool) -> list[str]:
    """ "0", "1", … within each kind; where only some were kept, as if all had been.

    Those that were left out are known by the names of their modules, which differ in numbers alone.
    """
    if not all_of_them:
        found = [_among(model, one.name) for one in attentions]
        if len(set(zip(kinds, found, strict=True))) == len(found):
            return found
    seen: Counter[str] = Counter()
    return [str(seen[kind] - 1) for kind in kinds if not seen.update([kind])]


def _among(model: nn.Module, name: str) -> str:
    alike = [other for other, _ in model.named_modules() if _alike(name.split("."), other.split("."))]
    return str(alike.index(name)) if name in alike else name


def _alike(one: list[str], other: list[str]) -> bool:
    """
    >>> _alike(["h", "0", "attn"], ["h", "7", "attn"]), _alike(["h", "0", "attn"], ["h", "0", "mlp"])
    (True, False)
    """
    if len(one) != len(other):
        return False
    return all(a == b or (a.isdigit() and b.isdigit()) for a, b in zip(one, other, strict=True))
