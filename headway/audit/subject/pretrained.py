"""Models in the manner of transformers: a `config`, `main_input_name`, and keywords that have the same names in all."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from headway.audit.subject.adapter import Adapter
from headway.audit.subject.call import keywords_of
from headway.audit.subject.reading import Reading, counted
from headway.audit.subject.sessions import apart_by_mask, apart_by_positions, decoding, translating
from headway.audit.subject.signature import Signature, reads_one_way, size
from headway.audit.subject.trial import keeps_apart

# Of positions they know differences alone; others say so by a setting of their rotations.
RELATIVE = {"t5", "mt5", "umt5", "longt5", "bloom", "mpt", "falcon", "deberta", "deberta-v2", "xlnet"}
ROTARY = ("rope_theta", "rope_parameters", "rope_scaling", "rotary_dim", "rotary_pct", "rotary_emb_base")
PLACES = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx")

NOT_BY_POSITIONS = "Positions that start again do not keep texts in one row apart here; a mask of all pairs does."


def pretrained(model: nn.Module) -> Adapter | None:
    """The adapter of a model in the manner of transformers; None of anything else."""
    config, main = getattr(model, "config", None), getattr(model, "main_input_name", None)
    if config is None or not isinstance(main, str) or getattr(config, "model_type", None) is None:
        return None
    takes = Signature(model)
    if main == "pixel_values" and takes.has(main):
        return _picture(model, config)
    if takes.has("decoder_input_ids", "input_ids"):
        return _translator(model, config)
    if takes.has("input_ids"):
        return _reader(model, config)
    raise ValueError(f"{type(model).__name__} reads {main}, which nobody can guess: say how it is called by an Adapter")


def _common(model: nn.Module, config: Any) -> dict[str, Any]:
    return {
        "vocabulary": size(_words(config), "vocab_size"),
        "longest": size(_words(config), *PLACES),
        "shifts": _relative(config),
        "counts_columns": bool(getattr(_words(config), "sliding_window", None)),
        "rebuild": rebuilt(model, config),
    }


def _words(config: Any) -> Any:
    """Of a model that reads more than text, the part that is about text."""
    inner = getattr(config, "text_config", None)
    return config if inner is None or size(config, "vocab_size") else inner


def _relative(config: Any) -> bool:
    alibi = getattr(config, "alibi", False) is True
    rotary = any(getattr(config, name, None) for name in ROTARY)
    return config.model_type in RELATIVE or rotary or alibi


def rebuilt(model: nn.Module, config: Any) -> Callable[[], nn.Module]:
    """Makes the same class from the same configuration, with weights of its own."""
    return lambda: type(model)(config).eval()


def _reader(model: nn.Module, config: Any) -> Adapter:
    takes, causal = Signature(model), reads_one_way(model)
    offset = first_position(model)
    found = Adapter(
        **_common(model, config), **_session(takes, causal, offset), causal=causal, argument="input_ids",
        **takes.given(mask="attention_mask", positions="position_ids", vectors="inputs_embeds"),
        notes=_notes(model, causal),
    )  # fmt: skip
    found = _segments(model, found, config)
    return _counted_from(found, offset) if offset else found


def _session(takes: Signature, causal: bool | None, offset: int) -> dict[str, Any]:
    return {"session": decoding(offset)} if causal and takes.has("past_key_values", "use_cache") else {}


def _segments(model: nn.Module, found: Adapter, config: Any) -> Adapter:
    """Decoders take positions that start again (and keep their windows), where they heed them; others a mask."""
    takes = Signature(model)
    if not takes.has("position_ids", "attention_mask"):
        return found
    additive = getattr(config, "_attn_implementation", "eager") == "eager"
    by_mask = replace(found, segments=partial(apart_by_mask, additive=additive, causal=bool(found.causal)))
    if not found.causal or not takes.has("use_cache"):
        return by_mask
    by_positions = replace(found, segments=apart_by_positions)
    return (
        by_positions if keeps_apart(model, by_positions) else replace(by_mask, notes=(*found.notes, NOT_BY_POSITIONS))
    )


def _notes(model: nn.Module, causal: bool | None) -> tuple[str, ...]:
    if causal is not None:
        return ()
    return (f"Nothing in {type(model).__name__} says whether it reads one way; causal=True has that tried.",)


def first_position(model: nn.Module) -> int:
    """Where a model counts positions from: RoBERTa's begin behind that of padding."""
    for one in model.modules():
        if hasattr(one, "create_position_ids_from_input_ids") and isinstance(getattr(one, "padding_idx", None), int):
            return int(one.padding_idx) + 1  # type: ignore[arg-type]
    return 0


def _counted_from(found: Adapter, offset: int) -> Adapter:
    """The same with positions that begin at `offset`, which names of keywords cannot say."""

    def call(model: nn.Module, reading: Reading) -> Any:
        keywords = keywords_of(found, reading)
        places = keywords.pop("position_ids", None)
        if places is None:
            places = counted(reading.labels.new_ones(reading.inputs.shape).bool().to(reading.inputs.device))
        return model(input_ids=reading.inputs, position_ids=places + offset, **keywords)

    said = f"Positions are counted from {offset}, behind that of its padding."
    longest = None if found.longest is None else found.longest - offset
    heeds = frozenset({"keep", "positions", *(["segments"] if found.segments else [])})
    return replace(found, call=call, takes=heeds, longest=longest, notes=(*found.notes, said))


def _translator(model: nn.Module, config: Any) -> Adapter:
    takes = Signature(model)
    inner = takes.given(
        mask="decoder_attention_mask", source_mask="attention_mask", vectors="decoder_inputs_embeds",
        positions="decoder_position_ids",
    )  # fmt: skip
    cached = takes.has("past_key_values", "encoder_outputs", "use_cache") and hasattr(model, "get_encoder")
    return Adapter(
        **_common(model, config), **inner, argument="decoder_input_ids", source="input_ids", causal=True,
        session=translating if cached else None,
        notes=("The decoder is examined; what the encoder reads comes with it.",),
    )  # fmt: skip


def _picture(model: nn.Module, config: Any) -> Adapter:
    vision = getattr(config, "vision_config", None) or config
    sides = getattr(vision, "image_size", None) or getattr(vision, "input_size", None)
    if sides is None:
        return Adapter(inputs="images", argument="pixel_values", rebuild=rebuilt(model, config))
    rows, columns = (sides, sides) if isinstance(sides, int) else tuple(sides)[-2:]
    image = (size(vision, "num_channels", "in_channels") or 3, rows, columns)
    return Adapter(inputs="images", argument="pixel_values", image=image, rebuild=rebuilt(model, config))
