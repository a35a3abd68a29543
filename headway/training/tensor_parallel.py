"""Tensor parallelism: each process has some of the heads and some of the hidden columns of every layer.

Of the maps into heads and hidden columns (queries, keys, values, gate, up) a process keeps rows, of the maps back (out,
down) the columns that belong to them. A map that makes queries, keys and values at once is cut into these first, as
each process has some rows of each. Its part of the result is a summand: one sum over the processes in the forward
pass and one in the backward pass of each layer (Shoeybi et al. 2019, arXiv:1909.08053).

    forward    f: x -> x             g: y -> Σ y
    backward   f: dx -> Σ dx         g: dy -> dy            out = g(down_p(act(up_p(f(x)))))
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from headway.hub.parts import part_names, split
from headway.nn.attention import Attention
from headway.nn.block import FeedForward, Stack
from headway.ops.bias import Bias
from headway.ops.linear import linear
from headway.ops.mask.pairs import Pairs


def tensor_parallel(model: nn.Module, mesh: DeviceMesh) -> None:
    """Leave each process of the mesh its part of every attention and feed-forward layer, in place."""
    layers = [one for one in model.modules() if _can_be_split(one)]
    if not layers:
        raise ValueError("parallel.tensor is for models with layers of attention or feed-forward, and here is none")
    for layer in layers:
        if isinstance(layer, Attention):
            _split_attention(layer, mesh)
        elif isinstance(layer, FeedForward):
            _split_feedforward(layer, mesh)
    for stack in [one for one in model.modules() if isinstance(one, Stack) and one.bias is not None]:
        _split_bias(stack, mesh)


def _can_be_split(layer: nn.Module) -> bool:
    if isinstance(layer, Attention):
        # A norm of queries and keys has weights that all heads share: such a layer stays whole in every process.
        return layer.out is not None and not layer.parameter_names and layer.query_norm is None
    return isinstance(layer, FeedForward)


def _split_attention(layer: Attention, mesh: DeviceMesh) -> None:
    c, parts = layer.config, mesh.size()
    for heads, kind in ((c.heads, "heads"), (c.kv_heads, "key/value heads")):
        _divides(heads, parts, kind)
    assert layer.out is not None
    if layer.is_cross:
        layer.query = _Rows(layer.query.weight, layer.query.bias, mesh)  # type: ignore[assignment]
    joined = "key_value" if layer.is_cross else "qkv"
    setattr(layer, joined, _Joined(_parts(layer, joined, mesh)))
    layer.out = _Columns(layer.out, mesh)  # type: ignore[assignment]
    layer.heads, layer.kv_heads = c.heads // parts, c.kv_heads // parts
    layer.columns = [count // parts for count in layer.columns]
    layer.register_forward_pre_hook(_Enter(mesh), with_kwargs=True)


def _parts(layer: Attention, joined: str, mesh: DeviceMesh) -> list["_Rows"]:
    """The maps that one of a layer is made of, each shared between the processes, under the names of files."""
    tensors = {
        part: rows
        for name, parameter in layer.named_parameters()
        if name.startswith(f"{joined}.")
        for part, rows in split(parameter, part_names(layer)[name]).items()
    }
    made = []
    for name in ("query", "key", "value"):
        if f"{name}.weight" in tensors:
            made.append(_Rows(tensors[f"{name}.weight"], tensors.get(f"{name}.bias"), mesh))
            setattr(layer, name, made[-1])
    return made


def _split_feedforward(layer: FeedForward, mesh: DeviceMesh) -> None:
    _divides(layer.up.out_features, mesh.size(), "hidden columns")
    layer.gate = None if layer.gate is None else _Rows(layer.gate.weight, layer.gate.bias, mesh)  # type: ignore[assignment]
    layer.up = _Rows(layer.up.weight, layer.up.bias, mesh)  # type: ignore[assignment]
    layer.down = _Columns(layer.down, mesh)  # type: ignore[assignment]
    layer.register_forward_pre_hook(_Enter(mesh), with_kwargs=True)


def _split_bias(stack: Stack, mesh: DeviceMesh) -> None:
    """The bias of a stack's scores, for this process's heads of every layer."""
    whole = stack.config.block.attention.heads
    heads = {part.heads for part in stack.modules() if isinstance(part, Attention) and not part.is_cross}
    if heads != {whole // mesh.size()}:
        raise ValueError("parallel.tensor cannot share a bias between layers that are cut and layers that are not")
    count, group = whole // mesh.size(), mesh.get_group()

    def some(bias: nn.Module, args: Any, rule: Bias) -> Bias:
        parameters = tuple(_Copy.apply(one, group) for one in rule.parameters)
        return _SomeHeads(rule, count * mesh.get_local_rank(), count, parameters)

    assert stack.bias is not None
    stack.bias.register_forward_hook(some)


def _divides(count: int, parts: int, what: str) -> None:
    if count % parts:
        raise ValueError(f"parallel.tensor {parts} cannot share {count} {what} evenly: take a divisor of {count}")


class _Rows(nn.Module):
    """A linear map of which this process has some of the outputs; names are those of the whole one."""

    def __init__(self, weight: Tensor, bias: Tensor | None, mesh: DeviceMesh) -> None:
        super().__init__()
        self.weight = _spread(weight, mesh, Shard(0))
        self.bias = None if bias is None else _spread(bias, mesh, Shard(0))

    def forward(self, x: Float[Tensor, "*b I"]) -> Float[Tensor, "*b o"]:
        return linear(x, _own(self.weight), None if self.bias is None else _own(self.bias))


class _Joined(nn.Module):
    """Several maps of one input as one; their weights are the layer's, under names of their own."""

    def __init__(self, maps: list[_Rows]) -> None:
        super().__init__()
        self._maps = tuple(maps)  # not a list of modules: each weight has one name

    def forward(self, x: Float[Tensor, "*b I"]) -> Float[Tensor, "*b o"]:
        return torch.cat([one(x) for one in self._maps], -1)


class _Columns(nn.Module):
    """A linear map of which this process has some of the inputs: its result is summed over the processes."""

    def __init__(self, whole: nn.Linear, mesh: DeviceMesh) -> None:
        super().__init__()
        self.weight = _spread(whole.weight, mesh, Shard(1))
        self.bias = None if whole.bias is None else _spread(whole.bias, mesh, Replicate())
        self._group = mesh.get_group()

    def forward(self, x: Float[Tensor, "*b i"]) -> Float[Tensor, "*b O"]:
        total = _Sum.apply(linear(x, _own(self.weight)), self._group)
        return total if self.bias is None else total + _own(self.bias)


def _spread(weight: Tensor, mesh: DeviceMesh, placement: Shard | Replicate) -> nn.Parameter:
    spread = distribute_tensor(weight.detach(), mesh, [placement])
    return nn.Parameter(spread, requires_grad=weight.requires_grad)


def _own(weight: Tensor) -> Tensor:
    assert isinstance(weight, DTensor)
    return weight.to_local()


@dataclass(frozen=True)
class _Enter:
    """What comes into a cut layer: gradients of it are summed."""

    mesh: DeviceMesh

    def __call__(self, layer: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        group, made = self.mesh.get_group(), {}

        def enter(x: Any) -> Any:
            if not isinstance(x, Tensor) or not x.is_floating_point():
                return x
            return made.setdefault(id(x), _Copy.apply(x, group))

        options = dict(options)
        if isinstance(options.get("source"), Tensor):
            options["source"] = enter(options["source"])
        return tuple(enter(one) for one in args), options


@dataclass(frozen=True, eq=False)
class _SomeHeads:
    """A rule over positions, for some of its heads."""

    rule: Bias
    first: int
    heads: int
    parameters: tuple[Tensor, ...]

    def table(self, parameters: tuple[Tensor, ...], pairs: Pairs) -> Float[Tensor, "#b h L M"]:
        whole = self.rule.table(parameters, pairs)
        return whole if whole.shape[1] == 1 else whole.narrow(1, self.first, self.heads)


class _Copy(torch.autograd.Function):
    """f: the same x for every part; what the parts say of it is summed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class _Sum(torch.autograd.Function):
    """g: the sum of all parts; its gradient is that of each."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None
