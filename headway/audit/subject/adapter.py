"""How a model wants to be called: what it reads, by which names, and what it claims.

    Adapter(vocabulary=100, mask="attention_mask", causal=True)
    Adapter(inputs="vectors", width=32, mask="src_key_padding_mask", hides=True)

`guess` (see guess.py) fills one from a model's signature and configuration; what is given by hand comes first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from headway.audit.subject.reading import Reading

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

    def __post_init__(self) -> None:
        if self.inputs not in INPUTS:
            raise ValueError(f"a model reads {', '.join(INPUTS)}, not {self.inputs!r}")
