"""What a model reads in one call, and which result belongs to which.

Every law says the same thing in its own way: results that bear the same label are equal, however they were computed.
A token that is read in two calls has one label in both; what may come out as it likes, padding for one, has NOBODY's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

NOBODY = -1
SPAN = 4096  # labels of one item: its number times this, plus the place in its text


@dataclass(frozen=True, eq=False)
class Overwrite:
    """Vectors that take the place of what the model's own embedding gives: NaN in padding, say."""

    where: Bool[Tensor, "B L"]
    value: float

    def applied(self, vectors: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return vectors.masked_fill(self.where[..., None].to(vectors.device), self.value)


@dataclass(frozen=True, eq=False)
class Reading:
    """One call: inputs are tokens (B L), vectors (B L D) or images (B C Y X); `labels` has a row for each of them.

    `keep` True = real. Positions that are not given are the model's own business; where `keep` is given and the model
    takes positions, it is told the place of each real token among the real ones. `segments` numbers texts that share
    a row. `source` is what an encoder-decoder reads besides; of images and of a model with one result an item,
    `labels` has one column.
    """

    inputs: Tensor
    labels: Int[Tensor, "B L"]
    keep: Bool[Tensor, "B L"] | None = None
    positions: Int[Tensor, "B L"] | None = None
    segments: Int[Tensor, "B L"] | None = None
    overwrite: Overwrite | None = None
    source: Tensor | None = None
    source_labels: Int[Tensor, "B M"] | None = None
    source_keep: Bool[Tensor, "B M"] | None = None
    source_overwrite: Overwrite | None = None

    @property
    def items(self) -> Int[Tensor, " B"]:
        """The number of each row's item, as its labels tell; NOBODY where it has none."""
        highest = self.labels.amax(-1)
        return torch.where(highest >= 0, highest // SPAN, NOBODY)

    def part(self, start: int, stop: int) -> "Reading":
        """The same rows, from one column to another: what a cache is fed with."""

        def cut(x: Tensor | None) -> Tensor | None:
            return None if x is None else x[:, start:stop]

        written = self.overwrite
        return replace(
            self,
            inputs=self.inputs[:, start:stop],
            labels=self.labels[:, start:stop],
            keep=cut(self.keep),
            positions=cut(self.positions),
            segments=cut(self.segments),
            overwrite=None if written is None else Overwrite(written.where[:, start:stop], written.value),
        )


def real_positions(keep: Bool[Tensor, "B L"]) -> Int[Tensor, "B L"]:
    """The place of each real token among the real ones of its row; padding before the first has 0.

    >>> real_positions(torch.tensor([[False, True, True, False, True]])).tolist()
    [[0, 0, 1, 1, 2]]
    """
    return (keep.long().cumsum(-1) - 1).clamp(min=0)


INPUTS = ("tokens", "vectors", "images")

# Reads the next piece of a text that it remembers, and returns what the model returns for that piece.
Step = Callable[[Reading], Any]


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """What an audit has to know of a model. Every name is that of a keyword of `forward`; None: it has no such thing.

    The names stand for: `argument` the inputs (None: the first argument), `mask` which inputs are real (`hides` where
    its True means "ignore", as in torch's key_padding_mask), `positions`, `vectors` in place of tokens
    (inputs_embeds), `source` and `source_mask` what an encoder reads, while the inputs are the decoder's.
    """

    inputs: str = "tokens"
    vocabulary: int | None = None
    source_vocabulary: int | None = None
    width: int | None = None
    image: tuple[int, int, int] | None = None  # C Y X
    shortest: int = 1
    longest: int | None = None
    multiple: int = 1  # lengths are multiples of this

    causal: bool | None = None  # None: nobody says
    equivariant: bool | None = None  # results move with the inputs, whatever their order
    shifts: bool | None = None  # only differences of positions matter
    counts_columns: bool = False  # a window or a bias counts columns, hidden ones too: hidden is then not deleted
    encodes_both_ways: bool = True  # an encoder's vectors depend on later inputs of the source

    argument: str | None = None
    mask: str | None = None
    hides: bool = False
    mask_type: str = "long"  # long, bool or float
    positions: str | None = None
    vectors: str | None = None
    source: str | None = None
    source_mask: str | None = None
    always: Mapping[str, Any] = field(default_factory=dict)  # further keywords of every call
    output: str | int | Callable[[Any], Any] | None = None  # which part of what comes back; None: logits, vectors, …

    # Texts that share a row: the keywords that keep them apart.
    segments: Callable[[Reading], Mapping[str, Any]] | None = None
    # Opens a cache. For an encoder-decoder the reading holds the source; the piece that is read comes with each step.
    session: Callable[[nn.Module, Reading], Step] | None = None
    # In place of all names above: the whole call.
    call: Callable[[nn.Module, Reading], Any] | None = None
    takes: frozenset[str] = frozenset()  # of a whole call: which of keep, positions, segments, source it heeds
    # The function that makes the model anew, without its weights.
    rebuild: Callable[[], nn.Module] | None = None
    words: Callable[[int], str] | None = None  # a token as text, for showing
    notes: tuple[str, ...] = ()  # what was assumed, for the reader of the report

    @property
    def reads_source(self) -> bool:
        """Whether it is an encoder-decoder."""
        return self.source is not None if self.call is None else "source" in self.takes

    def __post_init__(self) -> None:
        if self.inputs not in INPUTS:
            raise ValueError(f"a model reads {', '.join(INPUTS)}, not {self.inputs!r}")
