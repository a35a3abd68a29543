"""How headway's own models are called, and what they claim."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from headway.adapt.adapter import Adapter, Reading, Step
from headway.config import StackConfig
from headway.config.base import sides
from headway.config.model import ModelConfig
from headway.models import make
from headway.ops.attention import record_of
from headway.ops.mask import Mask, segments
from headway.ops.mask.base import And, Not, Or
from headway.ops.mask.positions import Selected


def own_adapter(module: nn.Module) -> Adapter | None:
    """The adapter of one of our models; None of anything else."""
    config = getattr(module, "config", None)
    if not isinstance(config, ModelConfig) or not type(module).__module__.startswith("headway."):
        return None
    kind = config.kind_or_name()
    if kind not in MAKERS:
        known = ", ".join(MAKERS)
        raise ValueError(f"nothing says how a model of the kind {kind!r} is called (known: {known}): give an Adapter")
    return MAKERS[kind](config)


def _rebuild(config: Any) -> Callable[[], nn.Module]:
    return lambda: make(config).eval()


def _language(config: Any) -> Adapter:
    absolute = config.positions is not None and config.positions != "none"
    # Past this length each token changes how all others are turned, and no law of parts holds.
    alike = config.stack.rotation_changes_after or config.length
    return Adapter(
        vocabulary=config.vocabulary, longest=min(config.length, alike), causal=config.stack.block.attention.causal,
        shifts=not absolute and _shifts(config.stack), call=_read, takes=_takes(config.stack),
        session=_cached if _has_caches(config.stack) else None, rebuild=_rebuild(config),
    )  # fmt: skip


def _shifts(stack: StackConfig) -> bool:
    """Whether every layer knows differences of positions alone: selected places are absolute."""
    specs = [block.attention.mechanism for block in stack.pattern]
    return not any(_absolute(record_of(spec).pattern_of(spec)) for spec in specs if record_of(spec).pattern is not None)


def _absolute(mask: Mask | None) -> bool:
    match mask:
        case And(left, right) | Or(left, right):
            return _absolute(left) or _absolute(right)
        case Not(inner):
            return _absolute(inner)
        case _:
            return isinstance(mask, Selected)


def _takes(stack: StackConfig) -> frozenset[str]:
    """What a stack's call heeds; masks of pairs need an attention that looks at pairs of positions."""
    if stack.grid is not None:
        return frozenset({"keep"})
    any_mask = all(record_of(block.attention.mechanism).masks == "any" for block in stack.pattern)
    return frozenset({"keep", "positions", *(["segments"] if any_mask else [])})


def _has_caches(stack: StackConfig) -> bool:
    needs = (record_of(b.attention.mechanism).cache_of(b.attention.mechanism) for b in stack.pattern)
    return all(need.kind != "none" for need in needs)


def _mask(reading: Reading) -> Mask | None:
    return None if reading.segments is None else segments(reading.segments)


def _read(model: Any, reading: Reading) -> Tensor:
    return model(reading.inputs, keep=reading.keep, positions=reading.positions, mask=_mask(reading))


def _cached(model: Any, reading: Reading) -> Step:
    caches = model.stack.new_caches()
    return lambda piece: model.logits(model.hidden_states(piece.inputs, keep=_some(piece.keep), caches=caches))


def _some(keep: Tensor | None) -> Tensor | None:
    """A session is told of padding only where there is some, as in decoding."""
    return None if keep is None or bool(keep.all()) else keep


def _classifier(config: Any) -> Adapter:
    alike = config.stack.rotation_changes_after or config.length
    return Adapter(
        vocabulary=config.vocabulary, longest=min(config.length, alike), causal=False, call=_read,
        takes=frozenset({"keep", "positions"}), rebuild=_rebuild(config),
    )  # fmt: skip


def _masked(config: Any) -> Adapter:
    return Adapter(
        vocabulary=config.vocabulary, longest=config.length, causal=False, call=_read,
        takes=frozenset({"keep", "positions", "segments"}), rebuild=_rebuild(config),
    )  # fmt: skip


def _vectors(config: Any) -> Adapter:
    # A grid has a shape: nothing is cut off and nothing goes on.
    grid = config.stack.grid
    length = None if grid is None else grid[0] * grid[1]
    return Adapter(
        inputs="vectors", width=config.width, causal=config.stack.block.attention.causal,
        equivariant=_equivariant(config.stack), call=_read, shortest=length or 1, longest=length, multiple=length or 1,
        shifts=_shifts(config.stack), takes=_takes(config.stack), rebuild=_rebuild(config),
    )  # fmt: skip


def _equivariant(stack: StackConfig) -> bool:
    """Whether no layer asks where a token stands."""
    layers = [block.attention for block in stack.pattern]
    plain = all("equivariant" in record_of(one.mechanism).laws for one in layers)
    positions = any(one.causal or one.rotary is not None for one in layers) or stack.bias is not None
    return plain and not positions


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
        caches = model.session(reading.source, keep=_some(reading.source_keep)).caches
        return lambda piece: model.logits(model.hidden_states(piece.inputs, keep=_some(piece.keep), caches=caches))

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


def _clip(config: Any) -> Adapter:
    """Its texts: of images a model without classes is audited by itself."""

    def call(model: Any, reading: Reading) -> Tensor:
        return model.text_vectors(reading.inputs, keep=reading.keep)

    return Adapter(
        vocabulary=config.vocabulary, longest=config.length, causal=False, call=call, takes=frozenset({"keep"}),
        rebuild=_rebuild(config),
    )  # fmt: skip


def _module(config: Any) -> Adapter:
    """A module of the user's own inside a language model, which reads rows without their padding."""
    return Adapter(
        vocabulary=config.vocabulary, longest=config.length, causal=True, call=_read, takes=frozenset({"keep"}),
        rebuild=_rebuild(config),
    )  # fmt: skip


MAKERS: dict[str, Callable[[Any], Adapter]] = {
    "language": _language, "classifier": _classifier, "masked": _masked, "sentence": _sentence, "seq2seq": _seq2seq,
    "recurrent": _recurrent, "vision": _vision, "clip": _clip, "davit": _vision, "vectors": _vectors, "module": _module,
}  # fmt: skip
