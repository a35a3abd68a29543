"""One attention layer in every configuration: what it is made of, what is passed to it, and its weights by NumPy."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.config import Additive, AttentionConfig, Channel, Linear, Local, Rotary, Spatial
from headway.nn.attention import Attention
from headway.ops.attention import Call
from headway.ops.bias import Alibi, Clipped, Relative, alibi_slopes
from headway.ops.mask import allowed, causal, padding, window

BATCH, HEADS, LENGTH, WIDTH = 2, 6, 35, 42  # heads of width 7; a grid of 5 x 7


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Case:
    own: dict[str, Any] = field(default_factory=dict)
    passed: dict[str, Any] = field(default_factory=dict)


_KEEP = padding(lengths=[35, 29])
_LEFT = padding(lengths=[31, 35], side="left")
_TABLE = allowed(drawn(BATCH, HEADS, LENGTH, LENGTH) > -0.5)
SOFTMAX = {
    "plain": Case(),
    "causal": Case({"causal": True}),
    "padded": Case(passed={"mask": _KEEP}),
    "left": Case({"causal": True, "rotary": Rotary(width=4)}, {"mask": _LEFT}),
    "grouped": Case({"kv_heads": 2, "rotary": Rotary(width=4), "causal": True}),
    "capped": Case({"softcap": 3.0, "causal": True}),
    "table": Case(passed={"mask": _TABLE & causal()}),
    "window": Case(passed={"mask": window(5) & causal()}),
    "dense": Case(passed={"bias": drawn(1, HEADS, LENGTH, LENGTH)}),
    "alibi": Case({"causal": True}, {"bias": Alibi(alibi_slopes(HEADS))}),
    "t5": Case({"scale": 1.0}, {"bias": Relative(drawn(32, HEADS))}),
    "shaw": Case({"softcap": 5.0}, {"bias": Clipped(drawn(7, HEADS)), "mask": _LEFT}),
    "shifted": Case({"causal": True}, {"positions": torch.arange(11, 11 + LENGTH), "bias": Relative(drawn(32, HEADS))}),
    "empty": Case(passed={"mask": allowed(torch.arange(LENGTH)[:, None] > 3) & causal()}),
    "local": Case({"mechanism": Local(window=4), "causal": True}),
    "dilated": Case({"mechanism": Local(window=3, dilation=2, selected=(0, 5))}),
    "neighbours": Case({"mechanism": Local(window=2, grid=(5, 7))}),
    "grid": Case({"mechanism": Spatial(grid=(5, 7))}),
    "windows": Case({"mechanism": Spatial(grid=(5, 7), window=3)}),
}
OTHERS = {
    "linear": Case({"mechanism": Linear(), "causal": True}),
    "linear-padded": Case({"mechanism": Linear(feature="relu")}, {"mask": _KEEP}),
    "channel": Case({"mechanism": Channel()}, {"mask": _KEEP}),
    "additive": Case({"mechanism": Additive(), "kv_heads": 3, "causal": True}),
}
CASES = SOFTMAX | OTHERS


def layer_of(case: Case) -> Attention:
    torch.manual_seed(0)
    layer = Attention(AttentionConfig(width=WIDTH, heads=HEADS, **case.own)).eval()
    for part in layer.parameters():
        part.data *= 2  # so that some weights are large
    return layer


def call_in(layer: Attention, case: Case, x: Tensor) -> Call:
    held: list[Call] = []
    handle = layer.core.register_forward_pre_hook(lambda _, args: held.append(args[0]))
    with torch.no_grad():
        layer(x, **case.passed)
    handle.remove()
    return held[0]


def written_out(call: Call, hidden: np.ndarray | None = None) -> np.ndarray:
    """softmax of a call by NumPy in float64; its mask and bias are tabulated by their own rules."""
    q, k = call.q.double().numpy(), call.k.double().numpy()
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    scores = np.einsum("bhik,bhjk->bhij", q, k) * (q.shape[3] ** -0.5 if call.scale is None else call.scale)
    if call.softcap is not None:
        scores = call.softcap * np.tanh(scores / call.softcap)
    if call.bias is not None:
        rule, pairs = call.bias, call.pairs
        dense = rule if isinstance(rule, Tensor) else rule.table(rule.parameters, pairs)
        scores = scores + dense.double().numpy()
    table = np.ones(scores.shape, bool) if call.mask is None else call.mask.at(call.pairs).numpy()
    scores = np.where(table, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0))
    return powers / np.maximum(powers.sum(-1, keepdims=True), 1e-300)
