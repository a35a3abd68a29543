"""What one process holds of tensors that many share.

A tensor that is spread over processes (a DTensor) works as its local part: optimisers act entry by entry, and torch
takes no mixture of spread and plain tensors in one call.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor


def local(tensor: Tensor) -> Tensor:
    """The memory of a tensor in this process, without gradients of its own."""
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()


def spread_like(part: Tensor, other: Tensor) -> Tensor:
    """A local part as a tensor that is spread as the other one is; their memory is the same."""
    if not isinstance(other, DTensor):
        return part
    return DTensor.from_local(
        part, other.device_mesh, other.placements, run_check=False, shape=other.shape, stride=other.stride()
    )


@torch.no_grad()
def total_norm(tensors: Iterable[Tensor]) -> float:
    """√Σ x² over all entries of all tensors, each entry once, wherever it is.

    >>> total_norm([torch.tensor([3.0]), torch.tensor([[4.0]])])
    5.0
    """
    kinds: dict[tuple[str, ...], tuple[list[dist.ProcessGroup], list[Tensor]]] = {}
    for tensor in tensors:
        groups = _groups(tensor)
        kinds.setdefault(tuple(group.group_name for group in groups), (groups, []))[1].append(local(tensor))
    total = 0.0
    for groups, parts in kinds.values():
        square = torch.stack(torch._foreach_norm(parts)).square().sum()  # pyright: ignore[reportPrivateImportUsage]
        for group in groups:
            dist.all_reduce(square, group=group)
        total += float(square)
    return total**0.5


def _groups(tensor: Tensor) -> list[dist.ProcessGroup]:
    """The processes over which a tensor is cut, axis by axis of their mesh."""
    if not isinstance(tensor, DTensor):
        return []
    cut = [axis for axis, placement in enumerate(tensor.placements) if not placement.is_replicate()]
    return [tensor.device_mesh.get_group(axis) for axis in cut]
