"""One more token of every row by a step program (`headway.native.program`) in place of Python between the layers.

It serves language models, and the decoders of models that read a source.

The program is written from the model's own modules, once, and shared by all sessions of the model. It has no weights or
sizes of its own, and what it does not know goes to the layers: a model with a part that is not known here, with hooks,
in training or in another precision, and a step whose result is not finite.
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from headway.config import Frozen
from headway.config.layers import Rotary
from headway.config.text import Seq2SeqConfig
from headway.native.activation import KINDS
from headway.native.build import library
from headway.native.linear import LinearWeights
from headway.native.program import MOST_ROWS, Caches, Heads, Program, RowNorm
from headway.nn.attention import Attention, Core
from headway.nn.block import Block, FeedForward, Stack
from headway.nn.cache import BlockCache, CrossCache, KVCache
from headway.nn.context import check_tokens, passes_are_watched
from headway.nn.layers import LayerNorm, LearnedPositions, Linear, RMSNorm
from headway.nn.quantized import QuantizedLinear
from headway.ops.attention.mechanism import all_pairs
from headway.ops.rotary import rotary_table
from headway.ops.values import tracing

_version = attrgetter("_version")
_CHUNK = 1024  # positions whose rotation is computed together
_ROTATED = 2**20  # positions that have room for one; whatever its length, a model of more decodes by its layers there
_TABLED = 2**20  # numbers in a table of computed positions; what stands later is decoded by the layers


# Options of a model that its program knows.
_LANGUAGE = (
    "kind", "weights", "family", "vocabulary", "length", "stack", "positions", "offset", "tied", "special",
)  # fmt: skip
_PAIR = (
    "kind", "weights", "family", "vocabulary", "target_vocabulary", "length", "encoder", "decoder", "positions",
    "offset", "embedding_scale", "embedding_norm", "tied", "head_bias", "special", "forced",
)  # fmt: skip


class Unknown(Exception):
    """A part of a model that no operation computes."""


class CompiledSteps:
    """The steps of one session: looks up the model's program and writes it again when the model has changed."""

    def __init__(self, model: Any) -> None:
        self._model: Any = model
        self._program: ModelProgram | None = None

    def read(self, tokens: Int[Tensor, "B 1"], caches: Sequence[BlockCache]) -> Float[Tensor, "B V"] | None:
        """The logits after one more token of every row, which the caches then hold; None: the layers are to do it."""
        if library() is None or passes_are_watched() or tracing() or _watched():
            return None
        own = _filled(caches)
        if own is None or len(tokens) != own[0].rows or len(tokens) > MOST_ROWS or not tokens.is_cpu:
            return None
        source = _sources(caches)
        if source is None:
            return None
        if self._program is None or not self._program.fresh():
            self._program = program_of(self._model)
        if self._program.program is None or not self._program.plain():
            return None
        return self._program.step(tokens, own, source)


def _filled(caches: Sequence[BlockCache]) -> list[KVCache] | None:
    """The caches of self-attention, where each has read something and holds every key."""
    own = [
        cache.own
        for cache in caches
        if isinstance(cache.own, KVCache) and type(cache.own) is KVCache and cache.own.k is not None
    ]
    return own if own and len(own) == len(caches) else None


def _sources(caches: Sequence[BlockCache]) -> list[CrossCache] | None:
    """What every layer keeps of a source: of none of them, or of each."""
    found = [cache.cross for cache in caches if isinstance(cache.cross, CrossCache) and cache.cross.filled]
    none = all(cache.cross is None for cache in caches)
    return found if none or len(found) == len(caches) else None


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

    def step(
        self, tokens: Int[Tensor, "B 1"], caches: list[KVCache], sources: list[CrossCache]
    ) -> Float[Tensor, "B V"] | None:
        check_tokens(tokens, self._vocabulary)
        first, rows = caches[0], len(tokens)
        positions = first.following(1)[:, 0].expand(rows)
        if any(cache.k is None or cache.k.dtype != self._dtype or cache.columns != first.columns for cache in caches):
            return None
        if first.longest >= self._positions or any(_unlike(one, sources[0], self._dtype) for one in sources):
            return None
        for cache in caches:
            cache.reserve(1)
        for rotation in self._rotations:
            rotation.fill(first.longest)
        if any(cache.capacity != first.capacity for cache in caches):
            return None
        assert self.program is not None
        source = _held(sources) if sources else None
        found = self.program.run(tokens[:, 0], positions, _held(caches), source)
        if found is None:
            return None
        for cache in caches:
            cache.advance()
        return found if self._dtype == torch.float32 else found.to(self._dtype)

    def _write(self, model: Any) -> None:
        """Embed, blocks, head, as `Language` and the decoder of `Seq2Seq` have them."""
        kernels = library()
        assert kernels is not None
        pair = isinstance(model.config, Seq2SeqConfig)
        tokens, stack = model.tokens, model.decoder if pair else model.stack
        if pair and model.target_tokens is not None:
            tokens = model.target_tokens
        _expect(tokens, nn.Embedding)
        _expect(stack, Stack)
        _only(model.config, *(_PAIR if pair else _LANGUAGE))
        _only(stack.config, "block", "alternates", "layers", "final_norm", "scaled_init")
        _require(stack.bias is None and tokens.weight.dtype in (torch.float32, torch.bfloat16))
        _require(all(x.is_cpu and x.layout == torch.strided for x in self._sources))
        _require(not any("forward" in vars(one) for one in model.modules()))
        self._dtype, self._vocabulary = tokens.weight.dtype, tokens.num_embeddings
        program = Program(kernels)
        width = tokens.weight.shape[1]
        x = program.buffer(width)
        table = self._position_table(model, width)
        _require(tokens.weight.is_contiguous())
        program.embed(tokens.weight, table, x, scale=model.config.embedding_scale if pair else 1.0)
        if pair:
            _after(program, model.target_entrance.norm, x)
        for block in stack.blocks:
            self._block(program, block, x)
        head = LinearWeights(tokens.weight) if model.head is None else _weights(model.head)
        if pair and model.head_bias is not None:
            _require(head.bias is None)
            head = replace(head, bias=model.head_bias[0])
        _require(head.served)
        program.linear(head, x, None, norm=_norm(stack.norm), check=True)
        program.seal()
        self.program = program

    def _position_table(self, model: Any, width: int) -> Tensor | None:
        """What is added to the tokens' vectors at each position; how many there are becomes `_positions`."""
        layer, length = model.positions, model.config.length
        if layer is None:
            self._positions = _ROTATED if length is None else length
            return None
        if type(layer) is LearnedPositions:
            self._positions = length
            table = layer.weight[layer.offset :]
            _require(table.is_contiguous() and table.dtype == self._dtype)
            return table
        # Whatever is computed of the position alone is what the layer adds to zeros.
        _require(not list(layer.parameters()) and self._dtype == torch.float32)
        self._positions = min(_ROTATED if length is None else length, max(1, _TABLED // width))
        return layer(torch.zeros(1, self._positions, width), torch.arange(self._positions)[None])[0].contiguous()

    def _block(self, program: Program, block: Any, x: Tensor) -> None:
        """x += out(attend(qkv(norm(x)))), x += down(act(up(norm(x)))), each in place; or x = norm(x + ...)."""
        _expect(block, Block)
        _only(block.config, "attention", "cross", "feedforward", "norm", "order", "eps", "dropout")
        _require(block.config.order in ("pre", "post"))
        attention = block.attention
        qkv, heads = self._attention(program, attention)
        self._branch(program, block, _weights(attention.qkv), x, qkv, block.attention_norm)
        program.attend(self._heads(attention), qkv, heads, stored=self._dtype)
        program.linear(_weights(attention.out), heads, x, residual=x)
        self._close(program, block, block.attention_norm, x)
        if block.cross is not None:
            cross = block.cross
            query, heads = self._attention(program, cross)
            self._branch(program, block, _weights(cross.query), x, query, block.cross_norm)
            program.attend(self._heads(cross), query, heads, stored=self._dtype, source=True)
            program.linear(_weights(cross.out), heads, x, residual=x)
            self._close(program, block, block.cross_norm, x)
        if block.feedforward is not None:
            self._feedforward(program, block, x)
            self._close(program, block, block.feedforward_norm, x)

    def _branch(
        self, program: Program, block: Any, weights: LinearWeights, x: Tensor, out: Tensor, norm: nn.Module
    ) -> None:
        """The first map of a branch, after the norm where that comes before."""
        program.linear(weights, x, out, norm=_norm(norm) if block.pre else None)

    def _close(self, program: Program, block: Any, norm: nn.Module, x: Tensor) -> None:
        """The norm of the sum where that comes after."""
        if block.post:
            _after(program, norm, x)

    def _feedforward(self, program: Program, block: Any, x: Tensor) -> None:
        feedforward = block.feedforward
        _expect(feedforward, FeedForward)
        _only(block.config.feedforward, "hidden", "activation", "gated", "bias")
        _require(feedforward.activation in KINDS)
        norm, up = _norm(block.feedforward_norm) if block.pre else None, _weights(feedforward.up)
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
        """Buffers for q, k and v (of a source: q) and for the heads' results, if it is plain softmax attention."""
        _expect(layer, Attention)
        _expect(layer.core, Core)
        c, record = layer.config, layer.core.record
        _only(c, "width", "heads", "own_kv_heads", "own_head_width", "own_value_width", "own_source_width", "bias",
              "output_bias", "scale", "causal", "rotary", "mechanism")  # fmt: skip
        _require(c.causal != layer.is_cross and layer.out is not None and (c.rotary is None or not layer.is_cross))
        _require(record.scores == "dot" and record.pattern is all_pairs and not layer.parameter_names)
        columns = layer.columns[:1] if layer.is_cross else layer.columns
        return program.buffer(sum(columns)), program.buffer(layer.heads * layer.value_width)

    def _heads(self, layer: Any) -> Heads:
        c, rotation = layer.config, None
        if c.rotary is not None:
            _only(c.rotary, "base", "width", "interleaved", "scaling")
            width, alike = c.rotary.width or layer.head_width, c.rotary.rotation_changes_after
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


def _after(program: Program, norm: nn.Module, x: Tensor) -> None:
    """x = norm(x)."""
    if type(norm) is not nn.Identity:
        program.normalise(_norm(norm), x)


def _held(caches: Sequence[KVCache]) -> Caches:
    """Keys and values of all layers."""
    keys = [cache.k for cache in caches if cache.k is not None]
    values = [cache.v for cache in caches if cache.v is not None]
    return Caches(keys, values, caches[0].columns, caches[0].real)


def _unlike(one: CrossCache, first: CrossCache, dtype: torch.dtype) -> bool:
    """Whether a layer holds a source in another form than the first."""
    assert one.k is not None and first.k is not None
    return one.k.dtype != dtype or one.columns != first.columns or one.k.shape[2] != first.k.shape[2]


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
