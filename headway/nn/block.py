"""A Transformer block: attention, optional cross-attention, feed-forward, each as a branch of the residual stream.

pre:        x + f(norm(x))        sandwich:   x + norm'(f(norm(x)))        none:               x + f(x)
post:       norm(x + f(x))        res_post:   x + norm(f(x))               without residual:   f(x)
parallel:   x + attention(norm(x)) + feedforward(norm'(x))

A stack is a loop over blocks. An encoder is a stack whose attention is not causal, a decoder one whose attention is; a
decoder that reads a source has blocks with cross-attention.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Frozen, StackConfig
from headway.nn.attention import Attention, without_options
from headway.nn.cache import BlockCache, CrossCache, check_cache, new_cache
from headway.nn.context import NOTHING, Context, begin, run_guarded
from headway.nn.layers import LayerScale, Linear, make_norm
from headway.nn.positions import make_bias
from headway.ops.activation import find_activation
from headway.ops.attention import record_of
from headway.ops.mask.pairs import Pairs
from headway.ops.nonfinite_rows import CARE, by_rows, careful

NO_CACHE = BlockCache()


class FeedForward(nn.Module):
    """Two linear maps and a curve (arXiv:1706.03762), or three with a gate (Shazeer 2020, arXiv:2002.05202).

        y = down(act(up(x)))               plain
        y = down(act(gate(x)) * up(x))     gated: with silu SwiGLU, with gelu GEGLU, with sigmoid GLU

    >>> sum(p.numel() for p in FeedForward(5, hidden=7).parameters())  # 5·7 + 7 + 7·5 + 5
    82
    """

    def __init__(
        self,
        width: int,
        *,
        hidden: int,
        activation: str = "gelu",
        gated: bool = False,
        bias: bool = True,
        output_width: int | None = None,
    ) -> None:
        super().__init__()
        self.width, self.activation = width, activation
        self._act = find_activation(activation)
        self.gate = Linear(width, hidden, bias=bias) if gated else None
        self.up = Linear(width, hidden, bias=bias)
        self.down = Linear(hidden, width if output_width is None else output_width, bias=bias)

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b O"]:
        if x.shape[-1] != self.width:
            raise ValueError(f"a feed-forward of width {self.width} got rows of width {x.shape[-1]}")
        hidden = self.up(x) if self.gate is None else self.gate(x)
        hidden = by_rows(self._act, hidden) if CARE.passes else self._act(hidden)
        if self.gate is not None:
            hidden = hidden * self.up(x)
        return self.down(hidden)

    def extra_repr(self) -> str:
        return f"activation={self.activation}"


class Block(nn.Module):
    """Two or three residual branches. A bare block without norms is `order="none", residual=False`.

    >>> import torch
    >>> Block(width=12, heads=3, hidden=20)(torch.zeros(2, 5, 12)).shape
    torch.Size([2, 5, 12])
    """

    def __init__(self, config: BlockConfig | None = None, **options: Any) -> None:
        super().__init__()
        c = self.config = block_config(**options) if config is None else without_options(config, options)
        self.pre, self.post, self.residual = c.order in ("pre", "sandwich"), c.order == "post", c.residual
        self.parallel, self.residual_scale = c.parallel, None if c.residual_scale == 1.0 else c.residual_scale
        self.attention = Attention(c.attention, cross=False)
        self.attention_norm = self._norm(c.attention.width, c.attention.output_width) if c.first_norm else nn.Identity()
        self.attention_out_norm = self._out_norm(c.attention.output_width)
        self.attention_scale = self._scale(c.attention.output_width)
        self.cross = None if c.cross is None else Attention(c.cross, cross=True)
        if c.cross is not None:
            self.cross_norm = self._norm(c.cross.width, c.cross.output_width)
            self.cross_out_norm = self._out_norm(c.cross.output_width)
            self.cross_scale = self._scale(c.cross.output_width)
        self.feedforward = None
        if c.feedforward is not None:
            f = c.feedforward
            self.feedforward = FeedForward(
                c.output_width, hidden=f.hidden, activation=f.activation, gated=f.gated, bias=f.bias
            )
            self.feedforward_norm = self._norm(c.output_width, c.output_width)
            self.feedforward_out_norm = self._out_norm(c.output_width)
            self.feedforward_scale = self._scale(c.output_width)
        self.dropout = nn.Dropout(c.dropout)

    def forward(
        self, x: Float[Tensor, "B L D"], context: Context = NOTHING, cache: BlockCache = NO_CACHE
    ) -> Float[Tensor, "B L O"]:
        if context.guard is None:
            return self._begin(x, context, cache)
        if context.guard.careful and not CARE.passes:  # computed again in the backward pass of a careful one
            with careful():
                return self.forward(x, context, cache)
        given = self.attention_norm(x) if self.pre else x
        found = self.attention(given, cache=cache.own, context=context)
        entered, x = x, self._add(x, found, self.attention_norm, self.attention_out_norm, self.attention_scale)
        if self.cross is not None:
            given = self.cross_norm(x) if self.pre else x
            found = self.cross(given, context.source, cache=cache.cross, context=context.of_source())
            x = self._add(x, found, self.cross_norm, self.cross_out_norm, self.cross_scale)
        if self.feedforward is not None:
            given = entered if self.parallel else x
            given = self.feedforward_norm(given) if self.pre else given
            found = self.feedforward(given)
            x = self._add(x, found, self.feedforward_norm, self.feedforward_out_norm, self.feedforward_scale)
        return x

    def _add(
        self, x: Tensor, found: Tensor, norm: nn.Module, out_norm: nn.Module | None, scale: nn.Module | None
    ) -> Tensor:
        """A branch joins the stream."""
        if out_norm is not None:
            found = out_norm(found)
        if scale is not None:
            found = scale(found)
        if self.residual_scale is not None:
            found = found * self.residual_scale
        if self.training:
            found = self.dropout(found)
        total = x + found if self.residual else found
        return norm(total) if self.post else total

    def _begin(self, x: Tensor, context: Context, cache: BlockCache) -> Tensor:
        """A pass that begins and ends here: a block that is used by itself."""
        if cache.own is not None:
            check_cache(cache.own, self.config.attention, None)
        x, context = begin(x, context, cache.own, width=self.config.attention.width)
        return run_guarded(lambda guard: self.forward(x, context.under(guard), cache), cache.parts)

    def _norm(self, before: int, after: int) -> nn.Module:
        c = self.config
        stands = c.order not in ("none", "res_post")
        return make_norm(c.norm if stands else "none", before if self.pre else after, eps=c.eps)

    def _out_norm(self, width: int) -> nn.Module | None:
        c = self.config
        return make_norm(c.norm, width, eps=c.eps) if c.order in ("res_post", "sandwich") else None

    def _scale(self, width: int) -> nn.Module | None:
        start = self.config.layer_scale
        return None if start is None else LayerScale(width, start=start)


class Stack(nn.Module):
    """x through every block in turn, and a last norm if there is one.

    >>> import torch
    >>> Stack(layers=2, width=12, heads=3, hidden=20, causal=True)(torch.zeros(2, 5, 12)).shape
    torch.Size([2, 5, 12])
    """

    def __init__(self, config: StackConfig | None = None, **options: Any) -> None:
        super().__init__()
        c = self.config = stack_config(**options) if config is None else without_options(config, options)
        self.blocks = nn.ModuleList(Block(block) for block in (c.blocks[:1] if c.shared else c.blocks))
        self.norm = make_norm(c.block.norm if c.final_norm else "none", c.block.output_width, eps=c.block.eps)
        self.bias = None if c.bias is None else make_bias(c.bias, c.block.attention)
        for block in c.pattern if c.bias is not None else ():
            record = record_of(block.attention.mechanism)
            if "bias" not in record.modifiers:
                raise ValueError(f"{record.name} attention has no score that a bias could be added to")

    def forward(
        self, x: Float[Tensor, "B L D"], context: Context | None = None, caches: Sequence[BlockCache] | None = None
    ) -> Float[Tensor, "B L O"]:
        if context is None or context.guard is None:
            return self._begin(x, context or NOTHING, caches)
        if self.bias is not None and context.bias is None:
            context = replace(context, bias=self.bias())
            if caches is None:
                pairs = (
                    context.positions if isinstance(context.positions, Pairs) else Pairs.of(x.shape[1], device=x.device)
                )
                context = replace(context, bias=context.tabled(pairs))
        for index, block in enumerate(self._layers()):
            x = block(x, context, NO_CACHE if caches is None else caches[index])
        return self.norm(x)

    def _layers(self) -> Iterable[nn.Module]:
        """The block of every layer; the same one for all where they share it."""
        return repeat(self.blocks[0], self.config.layers) if self.config.shared else self.blocks

    def _begin(self, x: Tensor, context: Context, caches: Sequence[BlockCache] | None) -> Tensor:
        """A pass that begins and ends here: a stack that is used by itself."""
        if caches is not None and len(caches) != (layers := self.config.layers):
            raise ValueError(f"{layers} blocks have {layers} caches, not {len(caches)}")
        for block, cache in zip(self.config.blocks, caches or (), strict=False):
            if cache.own is not None:
                check_cache(cache.own, block.attention, None)
        x, context = begin(
            x, context, None if caches is None else caches[0].own, width=self.config.block.attention.width
        )
        parts = [part for cache in caches or () for part in cache.parts]
        return run_guarded(lambda guard: self.forward(x, context.under(guard), caches), parts)

    def new_caches(self, *, capacity: int | None = None) -> list[BlockCache]:
        """An empty cache for every block, of the smallest kind that serves its attention.

        What grows has room for `capacity` tokens at once: up to there nothing that it holds is ever copied.
        """
        return [
            BlockCache(new_cache(block.attention, capacity=capacity), None if block.cross is None else CrossCache())
            for block in self.config.blocks
        ]


def block_config(**options: Any) -> BlockConfig:
    """A block by the fields of BlockConfig, of FeedForwardConfig and (all others, and `bias`) of AttentionConfig.

    F = 4 D where nobody says.
    """
    block = _taken(options, BlockConfig)
    hidden = _taken(options, FeedForwardConfig, but="bias")
    if "attention" not in block:
        block["attention"] = AttentionConfig(**options)
    elif options:
        raise ValueError(f"give attention= or the fields of it, not both: {', '.join(options)}")
    if "feedforward" not in block:
        block["feedforward"] = FeedForwardConfig(**{"hidden": 4 * block["attention"].width, **hidden})
    elif hidden:
        raise ValueError(f"give feedforward= or the fields of it, not both: {', '.join(hidden)}")
    return BlockConfig(**block)


def stack_config(**options: Any) -> StackConfig:
    """So many such blocks, and a norm at the end; `bias` is of positions (Alibi(), …), True or False of linear maps."""
    own = _taken(options, StackConfig, but="bias" if isinstance(options.get("bias"), bool) else "")
    if "block" not in own:
        own["block"] = block_config(**options)
    elif options:
        raise ValueError(f"give block= or the fields of it, not both: {', '.join(options)}")
    return StackConfig(**{"final_norm": True, **own})


def _taken(options: dict[str, Any], config: type[Frozen], *, but: str = "") -> dict[str, Any]:
    """The options that are fields of this configuration, which no other part gets then."""
    return {name: options.pop(name) for name in list(options) if name in config.model_fields and name != but}
