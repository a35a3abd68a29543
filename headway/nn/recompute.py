"""Activations that are computed again in the backward pass instead of being kept."""

from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from headway.nn.block import Block


def forget_activations(model: nn.Module) -> None:
    """Let every block compute its activations again in the backward pass instead of keeping them (arXiv:1604.06174)."""
    for block in model.modules():
        if isinstance(block, Block):
            # On the instance: names of parameters stay as they are, and so do files that hold them.
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]
