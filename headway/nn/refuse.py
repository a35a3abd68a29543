"""What an attention layer refuses, in one sentence each."""

from torch import Tensor

from headway.config import AttentionConfig
from headway.nn.state import Cross, Rolling, State, reach_of


def check_state(config: AttentionConfig, state: State | None, source: Tensor | None) -> None:
    """Refuse a cache that cannot hold what this layer needs."""
    c = config
    if state is None or (isinstance(state, Cross) and (source is not None or state.source is not None)):
        return
    if isinstance(state, Cross) or source is not None:
        raise ValueError("a Cross state holds a source; self-attention needs a Growing, Rolling or Recurrent one")
    if not c.causal:
        raise ValueError("only causal attention can be read with a cache: earlier outputs would change otherwise")
    if isinstance(state, Rolling) and not 0 < reach_of(c) <= state.window:
        raise ValueError(f"a Rolling state of {state.window} tokens is too short for this layer: use new_state(...)")


def check_inputs(config: AttentionConfig, x: Tensor, source: Tensor | None, state: State | None) -> None:
    """Refuse shapes that the layer was not made for."""
    c, held = config, state is not None and state.source is not None
    for name, rows in (("x", x), ("source", source)):
        if rows is not None and (not isinstance(rows, Tensor) or rows.ndim != 3):
            raise ValueError(f"{name} has three axes, B L D; this one is {getattr(rows, 'shape', type(rows).__name__)}")
    if x.shape[-1] != c.width:
        raise ValueError(f"this layer takes width {c.width}, and x has width {x.shape[-1]}")
    if source is None and not held and c.source_width != c.width:
        raise ValueError(f"this layer attends to a source of width {c.source_width}; pass it as source=")
    if source is not None and source.shape[-1] != c.source_width:
        raise ValueError(
            f"this layer attends to a source of width {c.source_width}, and source has width {source.shape[-1]}"
        )
