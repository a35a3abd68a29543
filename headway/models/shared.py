"""A bias that all layers of a stack share, as in T5."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.ops.attention.call import learning
from headway.ops.bias import Bias

_NUMBERS = 2**20  # in the largest table that is kept: longer texts are cut into tiles so as not to hold a whole one


@dataclass(frozen=True, eq=False)
class Shared:
    """A rule over positions whose tables are kept: the layers after the first find theirs made.

    It lives for one pass through a stack. With gradients every table is made anew, for the tensors it is asked for.
    """

    rule: Bias
    _made: dict[tuple[torch.Size, torch.Size], tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        return self.rule.parameters

    def table(
        self, parameters: tuple[Tensor, ...], query_positions: Int[Tensor, "#b L"], key_positions: Int[Tensor, "#b M"]
    ) -> Float[Tensor, "#b H L M"]:
        shapes = query_positions.shape, key_positions.shape
        if shapes in self._made and not learning(*parameters):
            queries, keys, made = self._made[shapes]
            if torch.equal(queries, query_positions) and torch.equal(keys, key_positions):
                return made
        made = self.rule.table(parameters, query_positions, key_positions)
        if made.numel() <= _NUMBERS and not learning(*parameters):
            self._made[shapes] = (query_positions, key_positions, made)
        return made
