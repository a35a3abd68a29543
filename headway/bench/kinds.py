"""The ways to call torch's SDPA that keep its flash kernel, each beside the same call of headway."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from headway.bench.qkv import Problem
from headway.ops.mask import causal


@dataclass(frozen=True)
class Kind:
    """Options for SDPA and for headway that ask for the same, and how many pairs they allow in a head."""

    problem: Problem
    theirs: dict[str, Any] = field(default_factory=dict)
    ours: dict[str, Any] = field(default_factory=dict)
    pairs: int = 0
    extra: Tensor | None = None  # read besides q, k and v


def full(problem: Problem) -> Kind:
    return Kind(problem, pairs=problem.length**2)


def causal_only(problem: Problem) -> Kind:
    return Kind(problem, {"is_causal": True}, {"mask": causal()}, causal().count(problem.length))


def boolean(problem: Problem) -> Kind:
    draw = torch.Generator().manual_seed(5)
    table = torch.rand(1, 1, problem.length, problem.length, generator=draw) < 0.75
    return Kind(problem, {"attn_mask": table}, {"mask": table}, int(table.sum()), table)


def biased(problem: Problem) -> Kind:
    bias = replace(problem, backward=False).random(problem.heads, problem.length, problem.length, seed=7)
    return Kind(problem, {"attn_mask": bias}, {"bias": bias}, problem.length**2, bias)


def grouped(problem: Problem) -> Kind:
    return Kind(replace(problem, kv_heads=2), {"enable_gqa": True}, pairs=problem.length**2)


def cross(problem: Problem) -> Kind:
    keys = problem.length * 3 // 4
    return Kind(replace(problem, keys=keys), pairs=problem.length * keys)


KINDS: dict[str, Callable[[Problem], Kind]] = {
    "full": full,
    "causal": causal_only,
    "boolean mask": boolean,
    "bias": biased,
    "grouped heads": grouped,
    "cross": cross,
}
