"""Muon: a matrix moves by its momentum made orthogonal, so that all of its directions move alike (Jordan et al. 2024).

    M <- β M + (1 - β) G        U = (1 - β) G + β M
    W <- (1 - rate · decay) W - rate · √max(1, O/I) · orthogonal(U)

torch has it too, in bfloat16 and matrix by matrix: where the processor has no unit for that precision, a step of a
small GPT takes twenty times as long as this one.
"""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate

A, B, C = 3.4445, -4.775, 2.0315  # of the quintic: singular values go to about 1 from anywhere in (0, 1]
TURNS = 5


class Muon:
    """Matrices with their momenta; those of one shape are taken together."""

    def __init__(self, matrices: Iterable[Tensor], *, decay: float, momentum: float = 0.95) -> None:
        self.matrices = list(matrices)
        self.decay, self.momentum = decay, momentum
        self.momenta = [torch.zeros_like(matrix, requires_grad=False) for matrix in self.matrices]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        shapes: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}
        for matrix, momentum in zip(self.matrices, self.momenta, strict=True):
            if matrix.grad is not None:
                momentum.lerp_(matrix.grad, 1 - self.momentum)
                ahead = matrix.grad.lerp(momentum, self.momentum)
                shapes.setdefault(matrix.shape, []).append((matrix, ahead))
        for (rows, columns), pairs in shapes.items():
            moves = orthogonal(torch.stack([_whole(ahead) for _, ahead in pairs]))
            for (matrix, _), move in zip(pairs, moves, strict=True):
                matrix.mul_(1 - rate * self.decay)
                matrix.add_(_like(move, matrix), alpha=-rate * max(1.0, rows / columns) ** 0.5)


def orthogonal(x: Float[Tensor, "N O I"]) -> Float[Tensor, "N O I"]:
    """About U Vᵀ where x = U S Vᵀ, with singular values of 0.7 to 1.2: X <- aX + (bA + cA²)X, A = XXᵀ, five times.

    >>> x = orthogonal(torch.tensor([[[3.0, 0.0], [0.0, 1.0]]]))
    >>> bool(((x[0].diagonal() > 0.6) & (x[0].diagonal() < 1.3)).all())
    True
    """
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    x = x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(TURNS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=B, alpha=C), x, beta=A)
    return x.mT if tall else x


def _whole(x: Tensor) -> Tensor:
    return x.full_tensor() if isinstance(x, DTensor) else x


def _like(x: Tensor, matrix: Tensor) -> Tensor:
    """This process's share of x, which all of them hold."""
    if not isinstance(matrix, DTensor):
        return x
    mesh = matrix.device_mesh
    return DTensor.from_local(x, mesh, [Replicate()] * mesh.ndim, run_check=False).redistribute(mesh, matrix.placements)
