"""Muon: a matrix moves by its momentum made orthogonal, so that all of its directions move alike (Jordan et al. 2024).

    M <- β M + (1 - β) G        U = (1 - β) G + β M
    W <- (1 - rate · decay) W - rate · √max(1, O/I) · orthogonal(U)

torch has it too, in bfloat16 and matrix by matrix: where the processor has no unit for that precision, a step of a
small GPT takes twenty times as long as this one.
"""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate

A, B, C = 3.4445, -4.775, 2.0315  # of the quintic: singular values go to about 1 from anywhere in (0, 1]
TURNS = 5


class Muon:
    """Matrices with their momenta; those of one shape are taken together.

    `rows`: of which maps each is made, one below the other, and none for a single one. Queries, keys and values are
    three maps: made orthogonal as one, the largest would leave the others no share.
    """

    def __init__(
        self,
        matrices: Iterable[Tensor],
        *,
        decay: float,
        momentum: float = 0.95,
        rows: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.matrices = list(matrices)
        self.rows = [list(one) if len(one) > 1 else [] for one in rows] if rows else [[] for _ in self.matrices]
        self.decay, self.momentum = decay, momentum
        self.momenta = [torch.zeros_like(matrix, requires_grad=False) for matrix in self.matrices]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        shapes: dict[torch.Size, list[Tensor]] = {}
        wholes: list[tuple[Tensor, Tensor]] = []
        for matrix, momentum, rows in zip(self.matrices, self.momenta, self.rows, strict=True):
            if matrix.grad is not None:
                momentum.lerp_(matrix.grad, 1 - self.momentum)
                ahead = _whole(matrix.grad.lerp(momentum, self.momentum))
                wholes.append((matrix, ahead))
                for part in ahead.split(rows or len(ahead)):
                    shapes.setdefault(part.shape, []).append(part)
        for (rows, columns), parts in shapes.items():
            moves = orthogonal(torch.stack(parts)).mul_(max(1.0, rows / columns) ** 0.5)
            for part, move in zip(parts, moves, strict=True):
                part.copy_(move)
        for matrix, move in wholes:
            matrix.mul_(1 - rate * self.decay)
            matrix.add_(_like(move, matrix), alpha=-rate)


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
