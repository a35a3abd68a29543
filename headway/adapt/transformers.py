"""Models in the manner of transformers: a `config`, `main_input_name`, and keywords that have the same names in all."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headway.adapt.adapter import Adapter, Reading, Step, real_positions
from headway.adapt.call import keywords_of
from headway.adapt.signature import Signature, reads_one_way, size
from headway.adapt.trial import separates_segments

# Of positions they know differences alone; others say so by a setting of their rotations.
RELATIVE = {"t5", "mt5", "umt5", "longt5", "bloom", "mpt", "falcon", "deberta", "deberta-v2", "xlnet"}
ROTARY = ("rope_theta", "rope_parameters", "rope_scaling", "rotary_dim", "rotary_pct", "rotary_emb_base")
PLACES = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx")

NOT_BY_POSITIONS = "Positions that start again do not keep texts in one row apart here; a mask of all pairs does."


def transformers_adapter(model: nn.Module) -> Adapter | None:
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
    return {"session": decoder_session(offset)} if causal and takes.has("past_key_values", "use_cache") else {}


def _segments(model: nn.Module, found: Adapter, config: Any) -> Adapter:
    """Decoders take positions that start again (and keep their windows), where they heed them; others a mask."""
    takes = Signature(model)
    if not takes.has("position_ids", "attention_mask"):
        return found
    additive = getattr(config, "_attn_implementation", "eager") == "eager"
    by_mask = replace(found, segments=partial(segments_by_mask, additive=additive, causal=bool(found.causal)))
    if not found.causal or not takes.has("use_cache"):
        return by_mask
    by_positions = replace(found, segments=segments_by_positions)
    return (
        by_positions
        if separates_segments(model, by_positions)
        else replace(by_mask, notes=(*found.notes, NOT_BY_POSITIONS))
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
            places = real_positions(reading.labels.new_ones(reading.inputs.shape).bool().to(reading.inputs.device))
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
        session=encoder_decoder_session if cached else None,
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


class SessionCache:
    """The cache as the model returns it, and which inputs it holds were real."""

    def __init__(self) -> None:
        self.cache: Any = None
        self.keep: Tensor | None = None

    def reads(self, piece: Reading) -> Tensor:
        """Which inputs are real, of all that were read and of this piece."""
        now = torch.ones_like(piece.inputs, dtype=torch.bool) if piece.keep is None else piece.keep
        self.keep = now if self.keep is None else torch.cat([self.keep, now], 1)
        return self.keep

    def returned(self, output: Any, name: str) -> Any:
        self.cache = output[name]
        return output


def decoder_session(offset: int = 0, cache: str = "past_key_values") -> Any:
    """A session of a decoder: a mask over past and present, and positions that count real tokens."""

    def session(model: nn.Module, reading: Reading) -> Step:
        memory, takes = SessionCache(), Signature(model).has

        def step(piece: Reading) -> Any:
            keep, length = memory.reads(piece), piece.inputs.shape[1]
            keywords: dict[str, Any] = {cache: memory.cache, "use_cache": True}
            if takes("attention_mask"):
                keywords["attention_mask"] = keep.long()
            if takes("position_ids"):
                keywords["position_ids"] = real_positions(keep)[:, -length:] + offset
            return memory.returned(model(input_ids=piece.inputs, **keywords), cache)

        return step

    return session


def encoder_decoder_session(model: Any, reading: Reading) -> Step:
    """A session of an encoder-decoder: the source is encoded once."""
    memory, mask = SessionCache(), {}
    if reading.source_keep is not None:
        mask = {"attention_mask": reading.source_keep.long()}
    encoded = model.get_encoder()(input_ids=reading.source, **mask)

    def step(piece: Reading) -> Any:
        keep = memory.reads(piece)
        out = model(
            encoder_outputs=encoded, decoder_input_ids=piece.inputs, decoder_attention_mask=keep.long(), **mask,
            past_key_values=memory.cache, use_cache=True,
        )  # fmt: skip
        return memory.returned(out, "past_key_values")

    return step


def segments_by_positions(reading: Reading) -> dict[str, Any]:
    """Texts in one row by positions that start again, which counts only without a mask and without a cache.

    Padding has position 0 each, and so every one of it is a text of its own.
    """
    return {"position_ids": within(reading), "attention_mask": None, "use_cache": False}


def segments_by_mask(reading: Reading, *, additive: bool, causal: bool = False) -> dict[str, Any]:
    """Texts in one row by a mask of all pairs; attention written out by hand adds it, the kernel's may be boolean."""
    assert reading.segments is not None
    pairs = reading.segments[:, :, None] == reading.segments[:, None, :]
    pairs = pairs.tril() if causal else pairs
    if reading.keep is not None:
        pairs = pairs & reading.keep[:, None, :]
    said = torch.where(pairs, 0.0, torch.finfo(torch.float32).min) if additive else pairs
    return {"attention_mask": said[:, None], "position_ids": within(reading)}


def within(reading: Reading) -> Tensor:
    """The place of each token in its own text."""
    if reading.positions is not None:
        return reading.positions
    assert reading.segments is not None
    new = torch.ones_like(reading.segments, dtype=torch.bool)
    new[:, 1:] = reading.segments[:, 1:] != reading.segments[:, :-1]
    places = torch.arange(new.shape[1], device=new.device).expand_as(new)
    within = places - torch.where(new, places, 0).cummax(1).values
    return within if reading.keep is None else within.masked_fill(~reading.keep, 0)
