"""A model over many processes, from outside: it never learns that it was spread.

    ddp     every process has the whole model and a part of the batch; gradients are averaged (arXiv:2006.15704)
    fsdp    every process keeps its share of each weight; blocks are put together when needed (arXiv:2304.11277)
    tensor  processes share the heads and the feed-forward of each layer (arXiv:1909.08053); see `tensor_parallel.py`

Gradients are means over the parts of the batch in each case. With `tensor` above 1 the parts of the batch are always
taken as by fsdp; with the kind ddp a weight is then put together once a step instead of twice.
"""

import logging
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from headway.config.train import ParallelConfig
from headway.hub.parts import part_names, split
from headway.nn.attention import Attention
from headway.training.distributed import World as World
from headway.training.distributed import join as join
from headway.training.objectives import Learner
from headway.training.tensor_parallel import tensor_parallel


def parallelize(learner: Learner, world: World, config: ParallelConfig) -> nn.Module:
    """The learner as all processes run it together; with one process, as it is."""
    if world.mesh is None:
        return learner
    _same_weights(learner)
    if config.tensor > 1 or config.kind == "fsdp":
        learner.agree = world.agree  # a pass that one of them computes again, all of them do
    if config.tensor > 1:
        tensor_parallel(learner, world.mesh["tensor"])
    if world.data_size == 1:
        return learner
    if config.kind == "ddp" and config.tensor == 1:
        return _ddp(learner, world)
    return _fsdp(learner, world, again=config.kind == "fsdp")


def _ddp(learner: nn.Module, world: World) -> nn.Module:
    devices = [world.device.index] if world.device.type == "cuda" else None
    # A head that nothing is asked of in a batch has no gradient there.
    return DistributedDataParallel(
        learner, device_ids=devices, find_unused_parameters=True, gradient_as_bucket_view=True
    )


def _fsdp(learner: nn.Module, world: World, *, again: bool) -> nn.Module:
    assert world.mesh is not None
    # Putting a weight together along both axes of the grid takes two steps, and torch warns of it for each weight.
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)
    half = any(one.is_floating_point() and one.itemsize < 4 for one in learner.parameters())
    # Sums of gradients in half precision would lose what small ones say.
    policy = MixedPrecisionPolicy(reduce_dtype=torch.float32 if half else None)
    options: dict[str, Any] = {"mesh": world.mesh["data"], "mp_policy": policy}
    for block in [module for module in learner.modules() if _is_block(module)]:
        fully_shard(block, reshard_after_forward=again, **options)
    fully_shard(learner, reshard_after_forward=False, **options)
    assert isinstance(learner, FSDPModule)
    learner.set_reduce_scatter_unused_params(True)
    return learner


def _is_block(module: nn.Module) -> bool:
    return any(isinstance(child, Attention) for child in module.children())


def rest(module: nn.Module) -> None:
    """After a forward pass without a backward one: weights that were put together for it go back to their shards."""
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()


@torch.no_grad()
def _same_weights(module: nn.Module) -> None:
    """The first process's weights and buffers, in all of them."""
    for tensor in [*module.parameters(), *module.buffers()]:
        dist.broadcast(tensor.data, src=0)


@torch.no_grad()
def whole(model: nn.Module) -> dict[str, Tensor]:
    """All weights and buffers of a model, put together, by the names of files; nothing but in the first process.

    Every process has to call it.
    """
    first = not dist.is_initialized() or dist.get_rank() == 0
    found: dict[str, Tensor] = {}
    names = part_names(model)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if first:
            found |= split(full.detach().clone(), names.get(name, {name: 0}))
    return found
