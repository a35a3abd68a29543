"""Which kernel may serve a mask: the fused ones know causality by index and padding of keys, nothing else."""

from dataclasses import dataclass
from functools import reduce
from operator import and_

from jaxtyping import Bool
from torch import Tensor

from headway.ops.mask.base import Mask
from headway.ops.mask.by_index import Keep, Packed
from headway.ops.mask.pairs import Pairs
from headway.ops.mask.positions import Causal, Full, Global, Selected, Tiles, Window


@dataclass(frozen=True)
class Kernel:
    """Causality and padding for a fused kernel, or `tiles`: blocks of queries, each with the keys it can reach."""

    causal: bool = False
    keep: Bool[Tensor, "b M"] | None = None
    tiles: bool = False

    @property
    def name(self) -> str:
        if self.tiles:
            return "tiles"
        names = [name for name, on in (("causal", self.causal), ("padding", self.keep is not None)) if on]
        return "+".join(names) or "plain"


def choose(mask: Mask | None, pairs: Pairs) -> Kernel:
    """The narrowest kernel that honours the mask exactly."""
    if mask is None:
        return Kernel()
    rest = [part for part in mask.parts() if not isinstance(part, (Keep, Full))]
    others = [part for part in rest if not isinstance(part, Causal)]
    if others or (rest and not _by_index(pairs)):
        return Kernel(tiles=True)
    return Kernel(causal=bool(rest) and pairs.shape[0] > 1, keep=kept_keys(mask))


def _by_index(pairs: Pairs) -> bool:
    """Whether causality by index is causality by position: rows aligned, or one query after all keys."""
    pairs.require()
    if pairs.shape[0] == 1 and not pairs.counted:
        return bool((pairs.query >= pairs.key.amax(-1, keepdim=True)).all())
    return pairs.aligned


def is_causal(mask: Mask | None) -> bool:
    """Whether causality is one of the things that the mask demands."""
    return mask is not None and any(isinstance(part, Causal) for part in mask.parts())


def kept_keys(mask: Mask) -> Bool[Tensor, "b M"] | None:
    """The keys that no declared padding of the mask takes away; None where there is no padding."""
    keeps = [part.keep for part in mask.parts() if isinstance(part, Keep)]
    return reduce(and_, keeps) if keeps else None


def without_padding(mask: Mask) -> Mask | None:
    """The same mask less its declared padding; None where nothing else is left."""
    rest = [part for part in mask.parts() if not isinstance(part, Keep)]
    return reduce(and_, rest) if rest else None


def unpacked(mask: Mask) -> tuple[tuple[int, ...], tuple[Mask, ...]] | None:
    """The lengths of packed texts and what else the mask demands; None where it cannot be asked text by text."""
    packs = [part for part in mask.parts() if isinstance(part, Packed)]
    rest = tuple(part for part in mask.parts() if not isinstance(part, Packed | Full))
    known = Keep | Causal | Window | Tiles | Global | Selected
    return (packs[0].lengths, rest) if len(packs) == 1 and all(isinstance(part, known) for part in rest) else None
