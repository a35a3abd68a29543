"""How far attention sees if each head looks at one position alone, and a model that really sees as far.

    reach <= min((k + 1)ⁿ, N)   with residuals          min(kⁿ, N)   without          k heads, n layers, N positions

A position of layer n depends on itself (by the residual) and on one position for each head, each of which depends on as
many of the layer below: a tree of n levels. The bound is attained where no two ways down the tree end at one position:
if head h of layer l looks back by h · bˡ, the ways are the numbers of n digits in base b, b = k + 1 or k.
"""

from math import pi
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.config import (
    AttentionConfig,
    BlockConfig,
    DaViTConfig,
    Frozen,
    RecurrentConfig,
    SentenceConfig,
    Seq2SeqConfig,
    StackConfig,
)
from headway.config.layers import stacks_of
from headway.nn.attention import Attention
from headway.nn.block import Block, Stack
from headway.ops.attention import Call, hard, record_of
from headway.steps import Number

_CODE = 2  # channels that say where a position stands: a point on the circle


def argmax_bound(heads: Number, layers: Number, length: Number, residual: bool = True) -> Number:
    """At most so many input positions can matter to one output position under argmax attention.

    >>> argmax_bound(2, 3, 100), argmax_bound(2, 3, 100, residual=False), argmax_bound(2, 3, 20)
    (27, 8, 20)
    >>> import sympy
    >>> argmax_bound(sympy.Symbol("H"), 2, sympy.Symbol("L"))
    Min(L, (H + 1)**2)
    """
    for name, value in (("heads", heads), ("layers", layers), ("length", length)):
        if isinstance(value, int) and value < 1:
            raise ValueError(f"a reach is of at least one head, one layer and one position, not {name}={value}")
    return smaller((heads + 1 if residual else heads) ** layers, length)


def smaller(one: Number, other: Number) -> Number:
    """The lesser of two sizes; of symbols, as a formula."""
    if isinstance(one, int) and isinstance(other, int):
        return min(one, other)
    import sympy  # only symbols need it, and it takes half a second

    least: Any = sympy.Min
    return least(one, other)


class HardCore(nn.Module):
    """In place of an attention layer's core: the same call, answered by hard attention."""

    def forward(self, call: Call) -> Float[Tensor, "B H L W"]:
        return hard.attend(call)


def attaining(heads: int, layers: int, length: int, *, residual: bool = True, values: int = 1) -> Stack:
    """A stack of hard attention that attains the bound on `length` positions, in float64.

    Its inputs have two channels for the position (`circle`) and `values` for what is seen.
    """
    width = _CODE + values
    # The mechanism of the layer is put in its core below.
    attention = AttentionConfig(width=width, heads=heads, head_width=_CODE, value_width=width, scale=1.0)
    block = BlockConfig(attention=attention, order="none", residual=residual)
    with torch.device("meta"):  # every weight is written below, and nobody's random numbers are drawn
        stack = Stack(StackConfig(block=block, layers=layers))
    stack = stack.double().to_empty(device="cpu")
    base = heads + 1 if residual else heads
    for number, layer in enumerate(stack.blocks):
        assert isinstance(layer, Block)
        layer.attention.add_module("core", HardCore())
        _look_back(layer.attention, [(head + residual) * base**number for head in range(heads)], length, residual)
    return stack


def circle(length: int) -> Float[Tensor, "L 2"]:
    """Positions as points on a circle: the nearest to a point is the point itself.

    >>> circle(4).round(decimals=3).tolist()[1]
    [0.0, 1.0]
    """
    angle = torch.arange(length, dtype=torch.float64) * (2 * pi / length)
    return torch.stack([angle.cos(), angle.sin()], -1)


@torch.no_grad()
def _look_back(layer: Attention, offsets: list[int], length: int, residual: bool) -> None:
    """Weights with which head h looks at position i - offsets[h], counted around the circle."""
    values = layer.config.width - _CODE
    turns = [_turn(-2 * pi * (offset % length) / length) for offset in offsets]
    query, key, value = layer.qkv.weight.zero_().split(layer.columns)
    for head, turn in enumerate(turns):
        query[head * _CODE : (head + 1) * _CODE, :_CODE] = turn
        key[head * _CODE : (head + 1) * _CODE, :_CODE] = torch.eye(_CODE)
    assert layer.out is not None
    value.copy_(torch.eye(layer.config.width).repeat(len(offsets), 1))
    # Positive numbers cannot cancel: whatever is looked at leaves a trace.
    draw = torch.Generator().manual_seed(0)
    mixed = [0.5 + torch.rand(values, values, generator=draw) for _ in offsets]
    blocks = [torch.block_diag(torch.zeros(_CODE, _CODE), mix) for mix in mixed]
    if not residual:  # the code of i comes from what its first head looked at, turned forth again
        blocks[0][:_CODE, :_CODE] = turns[0].mT
    layer.out.weight.copy_(torch.cat(blocks, 1))


def _turn(angle: float) -> Float[Tensor, "2 2"]:
    turned = torch.tensor(angle, dtype=torch.float64)
    return torch.stack([torch.stack([turned.cos(), -turned.sin()]), torch.stack([turned.sin(), turned.cos()])])


def attained(heads: int, layers: int, length: int, *, residual: bool = True) -> int:
    """How many inputs really matter to the last position of `attaining`, by gradients.

    >>> attained(2, 3, 100), attained(2, 3, 100, residual=False), attained(2, 3, 20)
    (27, 8, 20)
    """
    seen = torch.ones(1, length, 1, dtype=torch.float64, requires_grad=True)
    x = torch.cat([circle(length)[None], seen], -1)
    (gradient,) = torch.autograd.grad(attaining(heads, layers, length, residual=residual)(x)[0, -1, -1], seen)
    return int((gradient != 0).sum())


def bound_of(config: Frozen, length: int, source: int) -> int | None:
    """The bound of a configured model; None where heads do not choose positions (channels, recurrent networks)."""
    if isinstance(config, SentenceConfig):
        return bound_of(config.encoder, length, source)
    if len(stacks := list(stacks_of(config).values())) == 1:
        return _stack_bound(stacks[0], length)
    if isinstance(config, Seq2SeqConfig):
        return _joint_bound(config, length, source)
    if isinstance(config, DaViTConfig | RecurrentConfig):
        return None
    raise ValueError(f"the argmax bound of a {config.kind_or_name()} model is not known")


def _stack_bound(config: StackConfig, length: int) -> int | None:
    if any(record_of(b.attention.mechanism).between == "channels" for b in config.pattern):
        return None
    if not config.alternates:
        return argmax_bound(config.block.attention.heads, config.layers, length, config.block.residual)
    ways = 1
    for block in config.blocks:
        ways *= block.attention.heads + block.residual
    return min(ways, length)


def _joint_bound(config: Seq2SeqConfig, length: int, source: int) -> int | None:
    """Of target and source together: each layer of the decoder looks at so many more places of the source.

    own' = (k + 1) own,   other' = (k + 1) other + cross heads      without residual: own' = 0, other' = cross heads
    """
    block, encoder = config.decoder.block, _stack_bound(config.encoder, source)
    assert block.cross is not None
    if encoder is None:
        return None
    own, other = 1, 0
    for _ in range(config.decoder.layers):
        branches = block.attention.heads + 1 if block.residual else 0
        own, other = branches * own, branches * other + block.cross.heads
    return min(own, length) + min(other * encoder, source)
