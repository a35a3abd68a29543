"""How headway's own models are called, and what they claim."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from headway.audit.subject.adapter import Adapter, Step
from headway.audit.subject.reading import Reading
from headway.config import Local, Softmax
from headway.config.base import sides
from headway.config.spec import Additive
from headway.models import KINDS, make
from headway.ops.mask import Mask, segments


def own(module: nn.Module) -> Adapter | None:
    """The adapter of one of our models; None of anything else."""
    config = getattr(module, "config", None)
    kind = config.kind_or_name() if hasattr(config, "kind_or_name") else None  # type: ignore[union-attr]
    if config is None or kind not in KINDS or not type(module).__module__.startswith("headway."):
        return None
    return MAKERS[kind](config)


def _rebuild(config: Any) -> Callable[[], nn.Module]:
    return lambda: make(config).eval()


def _language(config: Any) -> Adapter:
    attention = config.stack.block.attention
    absolute = config.positions is not None and config.positions != "none"
    return Adapter(
        vocabulary=config.vocabulary, longest=config.length, causal=attention.causal,
        shifts=not absolute and _shifts(attention.mechanism), call=_read, takes=_takes(attention.mechanism),
        session=_states, rebuild=_rebuild(config),
    )  # fmt: skip


def _shifts(mechanism: Any) -> bool:
    """Whether a mechanism knows differences of positions alone: selected places are absolute."""
    return not (isinstance(mechanism, Local) and mechanism.selected)


def _takes(mechanism: Any) -> frozenset[str]:
    """What a stack's call heeds; masks of pairs need an attention that looks at pairs of positions."""
    if getattr(mechanism, "grid", None) is not None:
        return frozenset({"keep"})
    pairs = ["segments"] if isinstance(mechanism, Softmax | Additive | Local) else []
    return frozenset({"keep", "positions", *pairs})


def _mask(reading: Reading) -> Mask | None:
    return None if reading.segments is None else segments(reading.segments)


def _read(model: Any, reading: Reading) -> Tensor:
    return model(reading.inputs, keep=reading.keep, positions=reading.positions, mask=_mask(reading))


def _states(model: Any, reading: Reading) -> Step:
    states = model.stack.new_states()
    return lambda piece: model.logits(model.read(piece.inputs, keep=_some(piece.keep), states=states))


def _some(keep: Tensor | None) -> Tensor | None:
    """A session is told of padding only where there is some, as in decoding."""
    return None if keep is None or bool(keep.all()) else keep


def _masked(config: Any) -> Adapter:
    return Adapter(
        vocabulary=config.vocabulary, longest=config.length, causal=False, call=_read,
        takes=frozenset({"keep", "positions", "segments"}), rebuild=_rebuild(config),
    )  # fmt: skip


def _vectors(config: Any) -> Adapter:
    attention = config.stack.block.attention
    alone = not attention.causal and attention.rotary is None and isinstance(attention.mechanism, Softmax)
    # A grid has a shape: nothing is cut off and nothing goes on.
    grid = getattr(attention.mechanism, "grid", None)
    length = None if grid is None else grid[0] * grid[1]
    return Adapter(
        inputs="vectors", width=config.width, causal=attention.causal, equivariant=alone, call=_read,
        shortest=length or 1, longest=length, multiple=length or 1,
        shifts=_shifts(attention.mechanism), takes=_takes(attention.mechanism), rebuild=_rebuild(config),
    )  # fmt: skip


def _sentence(config: Any) -> Adapter:
    def call(model: Any, reading: Reading) -> Tensor:
        return model(reading.inputs, keep=reading.keep)

    return Adapter(
        vocabulary=config.encoder.vocabulary,
        longest=config.limit,
        causal=False,
        call=call,
        takes=frozenset({"keep"}),
        rebuild=_rebuild(config),
    )


def _pairs(model: Any, reading: Reading) -> Tensor:
    return model(reading.source, reading.inputs, source_keep=reading.source_keep, target_keep=reading.keep)


def _seq2seq(config: Any) -> Adapter:
    def session(model: Any, reading: Reading) -> Step:
        opened = model.session(reading.source, keep=_some(reading.source_keep))
        states = opened._states
        return lambda piece: model.logits(model.read(piece.inputs, keep=_some(piece.keep), states=states))

    return Adapter(
        vocabulary=config.outputs,
        source_vocabulary=config.vocabulary,
        longest=config.length,
        causal=True,
        call=_pairs,
        takes=frozenset({"keep", "source"}),
        session=session,
        rebuild=_rebuild(config),
    )


def _recurrent(config: Any) -> Adapter:
    def session(model: Any, reading: Reading) -> Step:
        memory = [model.encode(reading.source, keep=reading.source_keep)]

        def step(piece: Reading) -> Tensor:
            hidden, memory[0] = model.advance(piece.inputs, memory[0], keep=piece.keep)
            return model.logits(hidden)

        return step

    return Adapter(
        vocabulary=config.vocabulary,
        source_vocabulary=config.source_vocabulary,
        causal=True,
        call=_pairs,
        takes=frozenset({"keep", "source"}),
        encodes_both_ways=config.bidirectional,
        session=session,
        rebuild=_rebuild(config),
    )


def _vision(config: Any) -> Adapter:
    return Adapter(inputs="images", image=(config.channels, *sides(config.image)), rebuild=_rebuild(config))


MAKERS: dict[str, Callable[[Any], Adapter]] = {
    "language": _language, "masked": _masked, "sentence": _sentence, "seq2seq": _seq2seq, "recurrent": _recurrent,
    "vision": _vision, "davit": _vision, "vectors": _vectors,
}  # fmt: skip
