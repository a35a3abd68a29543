"""Stacks: the same block several times, each with its own parameters; encoder, decoder, and the two together.

An encoder is a stack whose attention is not causal, a decoder one whose attention is; a decoder that reads a source
has blocks with cross-attention.
"""

from collections.abc import Sequence
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor, nn

from headway.config import AttentionConfig, Linear, Spatial, StackConfig
from headway.nn.block import Block, BlockState, Context
from headway.nn.norm import make_norm
from headway.nn.state import Cross, Growing, Recurrent, Rolling, State, reach_of
from headway.ops.mask import Mask


class Stack(nn.Module):
    """x through every block in turn, and a last norm if there is one."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(Block(config.block) for _ in range(config.layers))
        b = config.block
        self.norm = make_norm(b.norm if config.final_norm else "none", b.output_width, eps=b.eps)

    def forward(
        self, x: Float[Tensor, "B L D"], context: Context | None = None, states: Sequence[BlockState] | None = None
    ) -> Float[Tensor, "B L O"]:
        context = context or Context()
        states = [BlockState()] * len(self.blocks) if states is None else states
        if len(states) != len(self.blocks):
            raise ValueError(f"{len(self.blocks)} blocks have {len(self.blocks)} states, not {len(states)}")
        context = self._with_turn(context, x)
        for block, state in zip(self.blocks, states, strict=True):
            x = block(x, context, state)
        return self.norm(x)

    def _with_turn(self, context: Context, x: Tensor) -> Context:
        """The rotation of the positions, made once; without positions each layer counts after what its state holds."""
        first = self.blocks[0]
        assert isinstance(first, Block)
        turn = None if context.positions is None else first.attention.turn(context.positions, x)
        return context if turn is None else replace(context, turn=turn)

    def new_states(self, *, capacity: int | None = None) -> list[BlockState]:
        """An empty cache for every block, of the smallest kind that serves its attention.

        What grows has room for `capacity` tokens at once: up to there nothing that it holds is ever copied.
        """
        b = self.config.block
        cross = b.cross is not None
        return [BlockState(new_state(b.attention, capacity=capacity), Cross() if cross else None) for _ in self.blocks]


def new_state(config: AttentionConfig, *, capacity: int | None = None) -> State:
    """A running total for linear attention, the window for a plain causal window, everything for the rest."""
    spec = config.mechanism
    if not config.causal:
        raise ValueError("only causal attention can be read token by token: earlier outputs would change otherwise")
    if isinstance(spec, Linear):
        return Recurrent()
    if isinstance(spec, Spatial):
        raise ValueError("a grid is attended to as a whole: spatial attention cannot be read token by token")
    reach = reach_of(config)
    if reach:
        return Rolling(reach)
    return Growing() if capacity is None else Growing(capacity=capacity)


class EncoderDecoder(nn.Module):
    """An encoder reads the source once; a decoder attends to itself (causally) and to what the encoder made.

    Padding of the source is hidden in the encoder's self-attention and in the cross-attention; padding of the target
    in the decoder's self-attention.
    """

    def __init__(self, encoder: StackConfig, decoder: StackConfig) -> None:
        super().__init__()
        cross = decoder.block.cross
        if cross is None or not decoder.block.attention.causal or encoder.block.attention.causal:
            raise ValueError("an encoder-decoder has a decoder with cross and causal attention, and an encoder without")
        if cross.source_width != encoder.block.output_width:
            raise ValueError(
                f"the decoder attends to a source of width {cross.source_width}, and the encoder gives "
                f"{encoder.block.output_width}"
            )
        self.encoder, self.decoder = Stack(encoder), Stack(decoder)

    def forward(
        self,
        source: Float[Tensor, "B M E"],
        target: Float[Tensor, "B L D"],
        *,
        source_mask: Mask | None = None,
        target_mask: Mask | None = None,
    ) -> Float[Tensor, "B L O"]:
        return self.decode(target, self.encode(source, source_mask), Context(target_mask, source_mask=source_mask))

    def encode(self, source: Float[Tensor, "B M E"], mask: Mask | None = None) -> Float[Tensor, "B M O"]:
        return self.encoder(source, Context(mask))

    def decode(
        self,
        target: Float[Tensor, "B L D"],
        memory: Float[Tensor, "B M E"],
        context: Context,
        states: Sequence[BlockState] | None = None,
    ) -> Float[Tensor, "B L O"]:
        return self.decoder(target, replace(context, source=memory), states)
