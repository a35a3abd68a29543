"""The attention layer: projections around a mechanism. One class, every configuration.

    q = x W_q + b_q      k = s W_k + b_k      v = s W_v + b_v      out = concat(heads) W_o + b_o

s is x itself (self-attention) or another sequence (cross-attention). Widths of source, target, keys, values and output
are free; scale, biases and output projection are each a choice.
"""

from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config import Additive, AttentionConfig, Softmax
from headway.nn.places import shifted
from headway.nn.quarantine import Projection, zero_padding
from headway.nn.refuse import check_inputs, check_state
from headway.nn.state import Cross, Growing, State
from headway.nn.together import Whole, joined, lay_together, places_of, plain, whole_of
from headway.ops.attention import Call, attend_call, build
from headway.ops.attention.guard import finite
from headway.ops.bias import Bias
from headway.ops.mask import Mask, allowed, causal
from headway.ops.mask.kernel import kept_keys
from headway.ops.mask.places import Keep
from headway.ops.position import RotaryTable, apply_rotary, rotary_table


class Core(nn.Module):
    """The parameter-free middle of a layer: a place to hook, where the whole call passes."""

    def forward(self, call: Call) -> Float[Tensor, "B H L W"]:
        return attend_call(call)


class Attention(nn.Module):
    """Multi-head attention over x, or of x over a source.

    >>> layer = Attention(AttentionConfig(width=12, heads=3, causal=True))
    >>> layer(torch.zeros(2, 5, 12)).shape
    torch.Size([2, 5, 12])
    """

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        c = self.config = config
        self.query = Projection(c.width, c.heads * c.head_width, bias=c.bias)
        self.key = Projection(c.source_width, c.kv_heads * c.head_width, bias=c.bias)
        self.value = Projection(c.source_width, c.kv_heads * c.value_width, bias=c.bias)
        self.out = Projection(c.heads * c.value_width, c.output_width, bias=c.output_bias) if c.project else None
        additive = isinstance(c.mechanism, Additive)
        self.vector = nn.Parameter(torch.randn(c.heads, c.head_width) * c.head_width**-0.5) if additive else None
        self.core = Core()
        self._whole: Whole | None = None

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        source: Float[Tensor, "B M E"] | None = None,
        *,
        mask: Mask | Tensor | None = None,
        positions: Int[Tensor, "*b L"] | None = None,
        source_positions: Int[Tensor, "*b M"] | None = None,
        bias: Tensor | Bias | None = None,
        state: State | None = None,
        turn: RotaryTable | None = None,
    ) -> Float[Tensor, "B L O"]:
        """What each row of x gathers; `mask` is over this call's keys, a state adds those it holds.

        `turn` is the rotation of `positions` where a stack has made it once for all its layers.
        """
        mask = allowed(mask) if isinstance(mask, Tensor) else mask
        check_inputs(self.config, x, source, state)
        check_state(self.config, state, source)
        if source is not None and self.config.rotary is not None and (positions is None or source_positions is None):
            raise ValueError(
                "rotary cross-attention compares positions of two texts: pass positions and source_positions"
            )
        call = self._call(x, source, mask, positions, source_positions, bias, state, turn)
        found = self.core(call) if state is None else state.attend(call, self.core)
        joined = rearrange(found, "B H L W -> B L (H W)")
        return joined if self.out is None else self.out(joined)

    def _call(
        self,
        x: Tensor,
        source: Tensor | None,
        mask: Mask | None,
        positions: Tensor | None,
        source_positions: Tensor | None,
        bias: Tensor | Bias | None,
        state: State | None,
        turn: RotaryTable | None,
    ) -> Call:
        c, held = self.config, None if state is None else state.source
        own = source is None and held is None
        keep = None if mask is None else kept_keys(mask)
        if positions is None and own:
            following = None if state is None else state.following(x.shape[1])
            if following is not None and following.shape[0] not in (1, x.shape[0]):
                raise ValueError(f"this state holds {following.shape[0]} rows, and x has {x.shape[0]}")
            positions = (
                following if keep is None or bool(keep[:, 0].all()) else shifted(_counted(following, keep), keep)
            )
        key_positions = positions if own and source_positions is None else source_positions
        x = zero_padding(x, keep) if own else x
        turn = self.turn(positions, x) if turn is None else turn
        key_turn = turn if own and key_positions is positions else self.turn(key_positions, x if own else source)
        q, k, v = self._project(x, x if source is None else zero_padding(source, keep), held)
        q, k = self._turned(_split(q, c.heads), turn), k if held else self._turned(_split(k, c.kv_heads), key_turn)
        v = v if held else _split(v, c.kv_heads)
        if c.causal:
            mask = causal() if mask is None else mask & causal()
        return build(
            q, k, v, mask=mask, mechanism=c.mechanism, query_positions=positions, key_positions=key_positions,
            scale=c.scale, bias=bias, softcap=c.softcap, vector=self.vector, options={},
        )  # fmt: skip

    def step(
        self,
        x: Float[Tensor, "B 1 D"],
        state: State,
        *,
        positions: Int[Tensor, "*b 1"] | None = None,
        bias: Bias | None = None,
        turn: RotaryTable | None = None,
    ) -> Float[Tensor, "B 1 O"]:
        """One more token in each row, right after all that the state holds: nothing to hide, little to check."""
        c = self.config
        if not (isinstance(state, Growing | Cross) and isinstance(c.mechanism, Softmax)):
            return self(x, positions=positions, bias=bias, state=state, turn=turn)
        held = state.source if isinstance(state, Cross) else None
        q, k, v = self._project(x, x, held)
        q = self._turned(q.reshape(-1, c.heads, 1, c.head_width), turn)
        if isinstance(state, Cross):
            now = state.held
        else:
            k = self._turned(k.reshape(-1, c.kv_heads, 1, c.head_width), turn)
            now = state.advance(k, v.reshape(-1, c.kv_heads, 1, c.value_width))
        places = (None, None) if bias is None else (positions, now.positions)
        call = Call(
            q, now.k, now.v, c.mechanism, Keep(now.keep) if state.ragged else None, *places, c.scale, bias, c.softcap,
            keys_finite=state.finite_keys,
        )  # fmt: skip
        joined = self.core(call).reshape(len(x), 1, -1)
        return joined if self.out is None else self.out(joined)

    def lay_together(self) -> None:
        """Put the three maps of self-attention behind one another in memory: one product then serves all."""
        if self.config.source_width == self.config.width:
            lay_together((self.query, self.key, self.value))
        self._whole = None

    def __getstate__(self) -> dict[str, Any]:
        # Addresses are of this object's memory; a copy has to look for its own.
        return {**self.__dict__, "_whole": None}

    def _project(
        self, x: Tensor, source: Tensor, held: tuple[Tensor, Tensor] | None
    ) -> tuple[Float[Tensor, "B L q"], Tensor, Tensor]:
        """q of x; k and v of the source, or as a state holds them."""
        if held is not None:
            return self.query(x), *held
        whole = None if source is not x else self._laid()
        # The maps apart know what to do with NaN in the backward pass.
        if whole is None or (torch.is_grad_enabled() and not finite(x)):
            return self.query(x), self.key(source), self.value(source)
        q, k, v = joined(x, whole, (self.query, self.key, self.value))
        return q, k, v

    def _laid(self) -> Whole | None:
        """The three maps as one, looked for again only when one of them has moved."""
        maps = (self.query, self.key, self.value)
        if not plain(maps):
            return None
        if self._whole is None or self._whole.places != places_of(maps):
            self._whole = whole_of(maps)
        return self._whole

    def turn(self, positions: Tensor | None, x: Tensor | None) -> RotaryTable | None:
        """The rotation of these positions (None: 0, 1, 2 …); None where the layer has no rotary positions."""
        rotary = self.config.rotary
        if rotary is None or x is None:
            return None
        return rotary_table(
            torch.arange(x.shape[1], device=x.device) if positions is None else positions,
            width=rotary.width or self.config.head_width,
            base=rotary.base,
            scaling=rotary.scaling,
            dtype=torch.promote_types(x.dtype, torch.float32),
        )

    def _turned(self, x: Tensor, turn: RotaryTable | None) -> Tensor:
        rotary = self.config.rotary
        return x if turn is None or rotary is None else apply_rotary(x, turn, interleaved=rotary.interleaved)


def _split(x: Float[Tensor, "B L D"], heads: int) -> Float[Tensor, "B H L K"]:
    return rearrange(x, "B L (H K) -> B H L K", H=heads)


def _counted(following: Tensor | None, keep: Tensor) -> Int[Tensor, "b L"]:
    return torch.arange(keep.shape[1], device=keep.device)[None] if following is None else following
