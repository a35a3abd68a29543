"""One more token of every row by a step program (`headway.native.program`) in place of Python between the layers.

The program is written from the model's own modules, once, and shared by all sessions of the model: the layers stay the
only description of it. A model with a part that is not known here, with hooks, in training or in another precision is
computed by its layers. So is a step whose result is not finite.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from headway.config import Frozen
from headway.config.layers import Rotary
from headway.native.activation import KINDS
from headway.native.build import library
from headway.native.linear import LinearWeights
from headway.native.program import MOST_ROWS, Caches, Heads, Program, RowNorm
from headway.nn.attention import Attention, Core
from headway.nn.block import Block, FeedForward, Stack
from headway.nn.cache import BlockCache, KVCache
from headway.nn.context import check_tokens, observed
from headway.nn.layers import LayerNorm, LearnedPositions, Linear, RMSNorm
from headway.nn.quantized import QuantizedLinear
from headway.ops.attention.mechanism import all_pairs
from headway.ops.rotary import rotary_table
from headway.ops.values import tracing

_version = attrgetter("_version")
_CHUNK = 1024  # positions whose rotation is computed together
_ROTATED = 2**20  # positions that have room for one; whatever its length, a model of more decodes by its layers there


class Unknown(Exception):
    """A part of a model that no operation computes."""


class CompiledSteps:
    """The steps of one session: looks up the model's program and writes it again when the model has changed."""

    def __init__(self, model: Any) -> None:
        self._model: Any = model
        self._program: ModelProgram | None = None

    def read(self, tokens: Int[Tensor, "B 1"], caches: Sequence[BlockCache]) -> Float[Tensor, "B V"] | None:
        """The logits after one more token of every row, which the caches then hold; None: the layers are to do it."""
        if library() is None or observed() or tracing() or _watched():
            return None
        own = _filled(caches)
        if own is None or len(tokens) != own[0].rows or len(tokens) > MOST_ROWS or not tokens.is_cpu:
            return None
        if self._program is None or not self._program.fresh():
            self._program = program_of(self._model)
        if self._program.program is None or not self._program.plain():
            return None
        return self._program.step(tokens, own)


def _filled(caches: Sequence[BlockCache]) -> list[KVCache] | None:
    """The caches of self-attention, where each has read something and holds every key."""
    own = [
        cache.own
        for cache in caches
        if isinstance(cache.own, KVCache) and type(cache.own) is KVCache and cache.cross is None
        if cache.own.k is not None
    ]
    return own if own and len(own) == len(caches) else None


def _watched() -> bool:
    """Whether something of torch's looks at each operation: a counter, fake tensors, hooks of all modules."""
    return bool(
        torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or torch_module._global_forward_hooks
        or torch_module._global_forward_pre_hooks
    )


class ModelProgram:
    """The program of a model, and what it was written from."""

    def __init__(self, model: nn.Module) -> None:
        self._sources = [*model.parameters(), *model.buffers()]
        self._counted = [x for x in self._sources if not x.is_inference()]  # torch counts their changes
        self._written_from = self._state()
        self._modules = list(model.modules())
        self._hooks = [hooks for one in self._modules for hooks in (one._forward_hooks, one._forward_pre_hooks)]
        self._modes = [model, *(one for one in self._modules if type(one) is Block)]  # where dropout would act
        self._rotations: list[Rotation] = []
        self.program: Program | None = None
        try:
            self._write(model)
        except Unknown:
            self.program = None

    def _state(self) -> list[int]:
        """Where the numbers stand, and how often they were changed; asked before every step, hence without a loop."""
        return [*map(Tensor.data_ptr, self._sources), *map(_version, self._counted)]

    def fresh(self) -> bool:
        """Whether the numbers are still those that were packed."""
        return self._state() == self._written_from

    def made_from(self, model: nn.Module) -> bool:
        """Whether it was written from these very modules and tensors."""
        sources = [*model.parameters(), *model.buffers()]
        same = len(sources) == len(self._sources) and all(map(_is, sources, self._sources))
        modules = list(model.modules())
        return same and self.fresh() and len(modules) == len(self._modules) and all(map(_is, modules, self._modules))

    def plain(self) -> bool:
        """Whether its layers would compute just this: no hooks, and nothing in training."""
        return not any(self._hooks) and not any(one.training for one in self._modes)

    def __deepcopy__(self, memo: Any) -> None:
        """A copy of a model writes a program of its own."""

    def __reduce__(self) -> Any:
        return _nothing, ()

    def step(self, tokens: Int[Tensor, "B 1"], caches: list[KVCache]) -> Float[Tensor, "B V"] | None:
        check_tokens(tokens, self._vocabulary)
        first, rows = caches[0], len(tokens)
        positions = first.following(1)[:, 0].expand(rows)
        if any(cache.k is None or cache.k.dtype != self._dtype or cache.columns != first.columns for cache in caches):
            return None
        if first.longest >= self._positions:
            return None
        for cache in caches:
            cache.reserve(1)
        for rotation in self._rotations:
            rotation.fill(first.longest)
        if any(cache.capacity != first.capacity for cache in caches):
            return None
        keys, values = [cache.k for cache in caches], [cache.v for cache in caches]
        assert self.program is not None
        found = self.program.run(tokens[:, 0], positions, Caches(keys, values, first.columns, first.real))  # pyright: ignore[reportArgumentType]
        if found is None:
            return None
        for cache in caches:
            cache.advance()
        return found if self._dtype == torch.float32 else found.to(self._dtype)

    def _write(self, model: Any) -> None:
        """Embed, blocks, head, as `Language` has them."""
        kernels = library()
        assert kernels is not None
        tokens, positions, stack = model.tokens, model.positions, model.stack
        _expect(tokens, nn.Embedding)
        _expect(stack, Stack)
        _only(model.config, "kind", "weights", "family", "vocabulary", "length", "stack", "positions", "offset", "tied",
              "special")  # fmt: skip
        _only(stack.config, "block", "alternates", "layers", "final_norm", "scaled_init")
        _require(stack.bias is None and tokens.weight.dtype in (torch.float32, torch.bfloat16))
        _require(positions is None or type(positions) is LearnedPositions)
        _require(all(x.is_cpu and x.layout == torch.strided for x in self._sources))
        _require(not any("forward" in vars(one) for one in model.modules()))
        self._dtype, self._vocabulary = tokens.weight.dtype, model.config.vocabulary
        self._positions = model.config.length
        program = Program(kernels)
        width = tokens.weight.shape[1]
        x = program.buffer(width)
        table = None if positions is None else positions.weight[positions.offset :]
        _require(
            tokens.weight.is_contiguous() and (table is None or (table.is_contiguous() and table.dtype == self._dtype))
        )
        program.embed(tokens.weight, table, x)
        for block in stack.blocks:
            self._block(program, block, x)
        head = LinearWeights(tokens.weight) if model.head is None else _weights(model.head)
        _require(head.served)
        program.linear(head, x, None, norm=_norm(stack.norm), check=True)
        program.seal()
        self.program = program

    def _block(self, program: Program, block: Any, x: Tensor) -> None:
        """x += out(attend(qkv(norm(x)))), x += down(act(up(norm(x)))), each in place."""
        _expect(block, Block)
        _only(block.config, "attention", "feedforward", "norm", "eps", "dropout")
        attention = block.attention
        qkv, heads = self._attention(program, attention)
        program.linear(_weights(attention.qkv), x, qkv, norm=_norm(block.attention_norm))
        program.attend(self._heads(attention), qkv, heads, stored=self._dtype)
        program.linear(_weights(attention.out), heads, x, residual=x)
        feedforward = block.feedforward
        if feedforward is None:
            return
        _expect(feedforward, FeedForward)
        _only(block.config.feedforward, "hidden", "activation", "gated", "bias")
        _require(feedforward.activation in KINDS)
        norm, up = _norm(block.feedforward_norm), _weights(feedforward.up)
        hidden = program.buffer(feedforward.up.out_features)
        if feedforward.gate is None:
            program.linear(up, x, hidden, norm=norm, activation=feedforward.activation)
        else:
            gate = _weights(feedforward.gate)
            program.linear(gate, x, hidden, norm=norm, activation=feedforward.activation)
            same = (gate.kind, gate.group) == (up.kind, up.group) and (gate.minimum is None) == (up.minimum is None)
            program.linear(up, x, hidden, norm=norm, factor=hidden, reuse=same)
        program.linear(_weights(feedforward.down), hidden, x, residual=x)

    def _attention(self, program: Program, layer: Any) -> tuple[Tensor, Tensor]:
        """Buffers for q, k and v and for the heads' results, if it is plain causal softmax attention."""
        _expect(layer, Attention)
        _expect(layer.core, Core)
        c, record = layer.config, layer.core.record
        _only(c, "width", "heads", "own_kv_heads", "own_head_width", "own_value_width", "bias", "output_bias", "scale",
              "causal", "rotary", "mechanism")  # fmt: skip
        _require(c.causal and not layer.is_cross and layer.out is not None)
        _require(record.scores == "dot" and record.pattern is all_pairs and not layer.parameter_names)
        return program.buffer(sum(layer.columns)), program.buffer(layer.heads * layer.value_width)

    def _heads(self, layer: Any) -> Heads:
        c, rotation = layer.config, None
        if c.rotary is not None:
            _only(c.rotary, "base", "width", "interleaved", "scaling")
            width, alike = c.rotary.width or layer.head_width, c.rotary.longest_alike
            # A longer text is turned otherwise from its first token on, and is read anew by the layers.
            self._positions = min(self._positions, _ROTATED, alike or _ROTATED)
            rotation = next((one for one in self._rotations if (one.rotary, one.width) == (c.rotary, width)), None)
            if rotation is None:
                rotation = Rotation(c.rotary, width, self._positions)
                self._rotations.append(rotation)
        usual = layer.head_width**-0.5 if layer.core.record.scales else 1.0
        return Heads(
            layer.heads, layer.kv_heads, layer.head_width, layer.value_width, usual if c.scale is None else c.scale,
            None if rotation is None else rotation.cosine, None if rotation is None else rotation.sine,
            interleaved=c.rotary is not None and c.rotary.interleaved,
        )  # fmt: skip


class Rotation:
    """Cosines and sines of every position that a model can have; computed as far as they are asked for."""

    def __init__(self, rotary: Rotary, width: int, length: int) -> None:
        self.rotary, self.width, self._filled = rotary, width, 0
        # Memory that nothing is written to is not given by the system.
        self.cosine, self.sine = torch.empty(length, width // 2), torch.empty(length, width // 2)

    def fill(self, position: int) -> None:
        """At least up to this position."""
        while position >= self._filled:
            end = min(self._filled + _CHUNK, len(self.cosine))
            places = torch.arange(self._filled, end)
            table = rotary_table(places, width=self.width, base=self.rotary.base, scaling=self.rotary.scaling)
            self.cosine[self._filled : end], self.sine[self._filled : end] = table.cos, table.sin
            self._filled = end


def _weights(layer: Any) -> LinearWeights:
    if type(layer) is QuantizedLinear:
        found = LinearWeights(layer.weight, layer.bias, layer.scale, layer.minimum, layer.packed())
    else:
        _require(type(layer) in (Linear, nn.Linear))
        found = LinearWeights(layer.weight, layer.bias)
    _require(found.served)
    return found


def _norm(layer: nn.Module) -> RowNorm:
    if type(layer) is nn.Identity:
        return RowNorm()
    if type(layer) is LayerNorm:
        return RowNorm("layer", layer.weight, layer.bias, layer.eps)
    _require(type(layer) is RMSNorm)
    return RowNorm("rms", layer.weight, None, layer.eps)  # pyright: ignore[reportArgumentType]


def _only(config: Frozen, *known: str) -> None:
    """Refuse every option but these that is not as it always is: one that is new belongs to the layers at first."""
    for name, field in type(config).model_fields.items():
        _require(name in known or getattr(config, name) == field.default)


def _expect(part: object, kind: type) -> None:
    _require(type(part) is kind)


def _require(condition: bool) -> None:
    if not condition:
        raise Unknown


def _is(one: object, other: object) -> bool:
    return one is other


def _nothing() -> None:
    """What a program is in a file."""


def program_of(model: Any) -> ModelProgram:
    """The model's program, shared by its sessions; written again when its modules or numbers have changed."""
    found = vars(model).get("_compiled_steps")
    if found is None or not found.made_from(model):
        found = model._compiled_steps = ModelProgram(model)
    return found
