"""What measuring reads of an attention, whoever saw it: weights of the rows and heads asked for, and their parts."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float
from torch import Tensor

from headway.ops.mask.pairs import ALL


@runtime_checkable
class Parts(Protocol):
    """softmax over the allowed keys of cap(q·k) + bias, of item 0 of the batch."""

    @property
    def q(self) -> Float[Tensor, "H L K"]: ...  # already times the scale
    @property
    def k(self) -> Float[Tensor, "H M K"]: ...
    @property
    def softcap(self) -> float | None: ...
    @property
    def bias(self) -> Float[Tensor, "H d"] | None: ...  # at j − i + L − 1
    @property
    def causal(self) -> bool: ...
    def allowed(self, rows: slice) -> Bool[Tensor, "a l M"] | None: ...


@runtime_checkable
class Attention(Protocol):
    """One attention of a running model; its weights are computed when they are asked for."""

    @property
    def name(self) -> str: ...
    @property
    def mechanism(self) -> str: ...
    @property
    def shape(self) -> tuple[int, int, int, int]: ...  # B H L M
    def weights(self, rows: slice = ALL, heads: Sequence[int] | slice = ALL) -> Float[Tensor, "B h l M"]: ...
    def parts(self) -> Parts | None: ...
