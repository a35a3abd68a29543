"""The attention layer: projections around a mechanism. One class, every configuration.

    q = x W_q + b_q      k = s W_k + b_k      v = s W_v + b_v      out = concat(heads) W_o + b_o

s is x itself (self-attention) or another sequence (cross-attention). Widths of source, target, keys, values and output
are free; scale, biases, norms of q and k, and output projection are each a choice. W_q, W_k and W_v of self-attention
are one parameter, `qkv`; in a layer made for a source W_q is `query`, and the other two are `key_value`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config import AttentionConfig
from headway.nn.cache import Cache, CachedKV, CrossCache, TotalCache, check_cache
from headway.nn.context import NOTHING, Context, begin, check_width, run_guarded
from headway.nn.layers import Linear, make_norm
from headway.ops.attention import Call, Mechanism, attend_call, record_of
from headway.ops.attention.mechanism import all_pairs
from headway.ops.bias import Bias
from headway.ops.mask import CAUSAL, Mask, padding
from headway.ops.mask.kernel import without_padding
from headway.ops.mask.pairs import Pairs
from headway.ops.rotary import RotaryTable, apply_rotary, rotary_grid_table, rotary_table

T = TypeVar("T")
_NO_PARAMETERS: Mapping[str, Tensor] = {}


class Core(nn.Module):
    """The parameter-free middle of a layer: a place to hook, where the whole call passes, with a cache and without."""

    def __init__(self, record: Mechanism) -> None:
        super().__init__()
        self.record = record

    def forward(self, call: Call) -> Float[Tensor, "B H L W"]:
        if 0 in call.q.shape or 0 in call.k.shape:  # as `attend_call` says, without a call more in every layer
            return attend_call(call, self.record)
        return self.record.attend(call)


def check_mechanism(record: Mechanism, config: AttentionConfig) -> None:
    """Refuse what the mechanism cannot mean before anything is computed."""
    c = config
    if c.causal and record.masks == "padding":
        raise ValueError(f"{record.name} attention honours no mask but padding, and this layer is to be causal")
    for name, value in (("scale", c.scale), ("softcap", c.softcap)):
        if value is not None and name not in record.modifiers:
            raise ValueError(f"{record.name} attention has no score to change: {name}={value} has no meaning for it")


def without_options(config: T, options: Mapping[str, Any]) -> T:
    """A configuration that says everything; options beside it would be lost."""
    if options:
        raise ValueError(f"give a configuration or options, not both: config.replace({min(options)}=...) changes one")
    return config


class Attention(nn.Module):
    """Multi-head attention over x, or of x over a source (`cross`: a layer that always has one).

    >>> layer = Attention(width=12, heads=3, causal=True)
    >>> layer(torch.zeros(2, 5, 12)).shape
    torch.Size([2, 5, 12])
    """

    def __init__(self, config: AttentionConfig | None = None, *, cross: bool | None = None, **options: Any) -> None:
        super().__init__()
        c = self.config = AttentionConfig(**options) if config is None else without_options(config, options)
        self.heads, self.kv_heads, self.head_width, self.value_width = c.heads, c.kv_heads, c.head_width, c.value_width
        self.is_cross = c.source_width != c.width if cross is None else cross
        q, k, v = self.columns = [c.heads * c.head_width, c.kv_heads * c.head_width, c.kv_heads * c.value_width]
        if self.is_cross:
            self.query = Linear(c.width, q, bias=c.bias)
            self.key_value = Linear(c.source_width, k + v, bias=c.bias)
        else:
            self.qkv = Linear(c.width, q + k + v, bias=c.bias)
        self.out = Linear(c.heads * c.value_width, c.output_width, bias=c.output_bias) if c.project else None
        self.query_norm, self.key_norm = (None, None) if c.qk_norm is None else _qk_norms(c)
        # Layers that turn alike share a table, whichever of them made it.
        self._table_name = "" if c.rotary is None else f"{c.rotary.model_dump_json()} {c.head_width}"
        self._asks_length = c.rotary is not None and c.rotary.rotation_changes_after is not None
        record = record_of(c.mechanism)
        needed = record.parameters(c.heads, c.head_width)
        for name, shape in needed.items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape) * shape[-1] ** -0.5))
        self.parameter_names = tuple(needed)
        self.needs_positions = record.pattern is not all_pairs
        check_mechanism(record, c)
        self.core = Core(record)

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        source: Float[Tensor, "B M E"] | None = None,
        *,
        mask: Mask | Tensor | None = None,
        positions: Int[Tensor, "*b L"] | None = None,
        source_positions: Int[Tensor, "*b M"] | None = None,
        bias: Tensor | Bias | None = None,
        cache: Cache | None = None,
        context: Context = NOTHING,
    ) -> Float[Tensor, "B L O"]:
        """What each row of x gathers from x, or from the source; `mask` is over this call's keys, a cache adds its own.

        A block gives the `context` of its pass instead of masks, positions and a bias.
        """
        if context.guard is None:
            context = Context(mask, positions, bias) if context is NOTHING else context
            return self._begin(x, source, context, source_positions, cache)
        batch, length, _ = x.shape
        own = source is None and not self.is_cross
        q, k, v = self._project_self(x, context, cache) if own else self._project_cross(x, source, context, cache)
        if cache is None:
            call = self._call(q, k, v, context, self_attention=own)
        else:
            call = self._cached_call(q, k, v, context, cache, self_attention=own)
        heads = self.core(call)
        joined = heads.transpose(1, 2).reshape(batch, length, self.heads * self.value_width)
        return joined if self.out is None else self.out(joined)

    def _project_self(self, x: Tensor, context: Context, cache: Cache | None) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v of x by one product; rotary positions turn q and k together."""
        batch, length, _ = x.shape
        qkv = self.qkv(x)
        assert context.guard is not None
        context.guard.watch(qkv)
        both, v = qkv.split([self.columns[0] + self.columns[1], self.columns[2]], -1)
        if self.query_norm is not None:
            q, k = both.split(self.columns[:2], -1)
            both = torch.cat([self._normalise(q, self.query_norm), self._normalise(k, self.key_norm)], -1)
            context.guard.watch(both)
        both = both.view(batch, length, self.heads + self.kv_heads, self.head_width).transpose(1, 2)
        if self.config.rotary is not None:
            both = self._rotate(both, context, cache)
        q, k = both.split([self.heads, self.kv_heads], 1)
        return q, k, v.view(batch, length, self.kv_heads, self.value_width).transpose(1, 2)

    def _project_cross(
        self, x: Tensor, source: Tensor | None, context: Context, cache: Cache | None
    ) -> tuple[Any, Any, Any]:
        """q of x; k and v of the source, or None where a cache has them."""
        batch, columns = len(x), self.columns
        q = self.query(x) if self.is_cross else self.qkv(x)[..., : columns[0]]
        assert context.guard is not None
        context.guard.watch(q)
        if self.query_norm is not None:
            q = self._normalise(q, self.query_norm)
        q = q.view(batch, -1, self.heads, self.head_width).transpose(1, 2)
        rotary, pairs = self.config.rotary, context.positions
        if rotary is not None and isinstance(pairs, Pairs):
            q = apply_rotary(q, self.rotary_of(pairs.query, q), interleaved=rotary.interleaved)
        if isinstance(cache, CrossCache) and cache.filled:
            return q, None, None
        if source is None:
            raise ValueError("this layer attends to a source: pass it as source=")
        both = self.key_value(source) if self.is_cross else self.qkv(source)[..., columns[0] :]
        context.guard.watch(both)
        k, v = both.split(columns[1:], -1)
        if self.key_norm is not None:
            k = self._normalise(k, self.key_norm)
        k = k.view(batch, -1, self.kv_heads, self.head_width).transpose(1, 2)
        if rotary is not None and isinstance(pairs, Pairs):  # keys in a cache were turned before they were stored
            k = apply_rotary(k, self.rotary_of(pairs.key, k), interleaved=rotary.interleaved)
        return q, k, v.view(batch, -1, self.kv_heads, self.value_width).transpose(1, 2)

    def _normalise(self, x: Float[Tensor, "B L C"], norm: nn.Module | None) -> Float[Tensor, "B L C"]:
        """Queries or keys by their norm: each head's channels by themselves, or those of all heads as one row."""
        assert norm is not None and self.config.qk_norm is not None
        if self.config.qk_norm.over == "all":
            return norm(x)
        return norm(x.unflatten(-1, (-1, self.head_width))).flatten(-2)

    def _call(self, q: Tensor, k: Tensor, v: Tensor, context: Context, *, self_attention: bool) -> Call:
        """The call of a pass that has no cache."""
        c, shared = self.config, context.shared.get(id(self.config)) or self._shared(context, self_attention)
        positions: Any = context.positions  # pairs, once a pass has begun
        return Call(
            q, k, v, c.mechanism, shared["mask"], positions, c.scale, context.bias, c.softcap,
            self._own_parameters() if self.parameter_names else _NO_PARAMETERS, None, context.guard, shared,
        )  # fmt: skip

    def _cached_call(self, q: Tensor, k: Any, v: Any, context: Context, cache: Cache, *, self_attention: bool) -> Call:
        """The call with all keys and values of a cache, these included; k and v are None where it has a source's."""
        c, shared = self.config, context.shared.get(id(self.config)) or self._shared(context, self_attention)
        mask, bias, given = shared["mask"], context.bias, isinstance(context.positions, Pairs)
        positions: Any = context.positions if given else None
        rest = mask if mask is None or mask is CAUSAL else without_padding(mask)
        if rest is CAUSAL and q.shape[2] == 1 and not given:
            rest = None  # one token after all others sees every one of them, wherever these stand
        compares = rest is not None or bias is not None or self.needs_positions
        query = context.query_positions(q.shape[2], cache, q.device) if self_attention and compares else None
        if k is None:
            assert isinstance(cache, CrossCache)
            cached = cache.contents()  # of a source that was stored before
        else:
            cached = cache.append(k, v, context.keep, positions.query if self_attention and given else None)
        if not isinstance(cache, TotalCache):  # that has a sum instead of keys, and no part of it is hidden
            mask = rest if cached.keep is None else _both(rest, padding(keep=cached.keep))
            if self_attention and (query is None or cached.k.shape[2] > q.shape[2]):
                positions = None if query is None else _among_all(query, cached)
            if bias is not None:
                pairs = Pairs.of(cached.k.shape[2], device=q.device) if positions is None else positions
                bias = context.tabled(pairs, (type(cache), cached.k.shape[2]))
        return Call(
            q, cached.k, cached.v, c.mechanism, mask, positions, c.scale, bias, c.softcap,
            self._own_parameters() if self.parameter_names else _NO_PARAMETERS, cached.total, context.guard, None,
        )  # fmt: skip

    def _shared(self, context: Context, self_attention: bool) -> dict[str, Any]:
        """What layers of this configuration have in common in this pass: their mask, then plans and tables."""
        causality = CAUSAL if self.config.causal and self_attention else None
        return context.shared.setdefault(id(self.config), {"mask": _both(context.mask, causality)})

    def _own_parameters(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in self.parameter_names}

    def _rotate(self, x: Tensor, context: Context, cache: Cache | None) -> Tensor:
        """Queries and keys turned by their positions, by a table that all layers of one configuration share."""
        rotary = self.config.rotary
        assert rotary is not None
        name = self._table_name
        if name not in context.shared:
            places = context.query_positions(x.shape[2], cache, x.device)
            context.shared[name] = self.rotary_of(places, x, context.keep)
        return apply_rotary(x, context.shared[name], interleaved=rotary.interleaved)

    def rotary_of(
        self, positions: Int[Tensor, "*b L"], x: Tensor, keep: Bool[Tensor, "B L"] | None = None
    ) -> RotaryTable:
        """The rotation of these positions, in at least float32; a text ends at its last real token."""
        rotary, dtype = self.config.rotary, torch.promote_types(x.dtype, torch.float32)
        assert rotary is not None
        width, lengths = rotary.width or self.head_width, None
        if self._asks_length:
            real = positions if keep is None else positions.masked_fill(~keep, 0)
            lengths = real.reshape(-1, positions.shape[-1]).amax(-1) + 1
        if rotary.grid is None:
            return rotary_table(
                positions, width=width, base=rotary.base, scaling=rotary.scaling, lengths=lengths, dtype=dtype
            )
        # Tokens beside the grid, at positions below 0, stand at row 0 and column 0: they are not turned.
        on_grid = positions.clamp(min=0)
        cells = on_grid // rotary.grid[1], on_grid % rotary.grid[1]
        return rotary_grid_table(*cells, width=width, base=rotary.base, dtype=dtype)

    def _begin(
        self,
        x: Tensor,
        source: Tensor | None,
        context: Context,
        source_positions: Tensor | None,
        cache: Cache | None,
    ) -> Float[Tensor, "B L O"]:
        """A pass that begins and ends here: a layer that is used by itself."""
        c, stored = self.config, isinstance(cache, CrossCache) and cache.filled
        self._check(x, source, stored)
        if cache is not None:
            check_cache(cache, c, source)
        self_attention = source is None and not stored
        if self_attention:
            x, context = begin(x, context, cache, width=c.width)
        else:
            if c.rotary is not None and (context.positions is None or source_positions is None):
                raise ValueError(
                    "rotary cross-attention compares positions of two texts: pass positions and source_positions"
                )
            positions: Any = context.positions
            pairs = None if positions is None or source_positions is None else Pairs.of(positions, source_positions)
            given = x if source is None else source
            source, context = begin(given, replace(context, positions=pairs), width=given.shape[-1])
            context = replace(context, positions=pairs)  # none of its own where the source is padded on the left
        return run_guarded(
            lambda guard: self.forward(
                x, None if self_attention else source, cache=cache, context=context.under(guard)
            ),
            () if cache is None else (cache,),
        )

    def _check(self, x: Tensor, source: Tensor | None, stored: bool) -> None:
        """Refuse shapes that the layer was not made for."""
        c = self.config
        check_width(x, c.width)
        if source is not None:
            check_width(source, c.source_width, "source")
        if source is None and not stored and (self.is_cross or c.source_width != c.width):
            raise ValueError(f"this layer attends to a source of width {c.source_width}; pass it as source=")

    def extra_repr(self) -> str:
        c = self.config
        groups = "" if c.kv_heads == c.heads else f", kv_heads={c.kv_heads}"
        return f"width={c.width}, heads={c.heads}{groups}, mechanism={c.mechanism.kind}, causal={c.causal}"


def _qk_norms(c: AttentionConfig) -> tuple[nn.Module, nn.Module]:
    """Of queries and of keys: one vector of weights that all heads share, or one for all of them together."""
    assert c.qk_norm is not None
    heads = (1, 1) if c.qk_norm.over == "head" else (c.heads, c.kv_heads)
    query, key = (make_norm(c.qk_norm.norm, count * c.head_width, eps=c.qk_norm.eps) for count in heads)
    return query, key


def _both(one: Any, other: Mask | None) -> Mask | None:
    """What both masks allow; None allows all."""
    return other if one is None else one if other is None else one & other


def _among_all(query: Int[Tensor, "b L"], cached: CachedKV) -> Pairs:
    """Where new queries stand, and all keys of a cache."""
    places = cached.positions
    return Pairs.of(query, torch.arange(cached.k.shape[2], device=cached.k.device)[None] if places is None else places)
