"""Where tokens stand if nobody says: after what a cache holds, and counted from the first real one."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headway.nn.state import State


def places(
    tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None = None, state: State | None = None
) -> Int[Tensor, "b L"]:
    """Positions of the next tokens, so that padding on the left moves nothing.

    >>> keep = torch.tensor([[False, False, True, True], [True, True, True, False]])
    >>> places(torch.zeros(2, 4, dtype=torch.long), keep).tolist()
    [[-2, -1, 0, 1], [0, 1, 2, 3]]
    """
    following = None if state is None else state.following(tokens.shape[1])
    if following is None:
        following = torch.arange(tokens.shape[1], device=tokens.device)[None]
    if following.shape[0] not in (1, tokens.shape[0]):
        raise ValueError(f"this state holds {following.shape[0]} rows, and the call has {tokens.shape[0]}")
    return shifted(following, keep)


def shifted(following: Int[Tensor, "b L"], keep: Bool[Tensor, "B L"] | None) -> Int[Tensor, "c L"]:
    """The same, counted from each row's first real token."""
    if keep is None or bool(keep[:, 0].all()):
        return following
    return following - keep.int().argmax(-1, keepdim=True)
