"""Reading with a cache in the usual way of transformers: what came back goes in again as past_key_values."""

from typing import Any

import torch
from torch import Tensor, nn

from headway.audit.subject.adapter import Step
from headway.audit.subject.reading import Reading, counted
from headway.audit.subject.signature import Signature


class Memory:
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


def decoding(offset: int = 0, cache: str = "past_key_values") -> Any:
    """A session of a decoder: a mask over past and present, and positions that count real tokens."""

    def session(model: nn.Module, reading: Reading) -> Step:
        memory, takes = Memory(), Signature(model).has

        def step(piece: Reading) -> Any:
            keep, length = memory.reads(piece), piece.inputs.shape[1]
            keywords: dict[str, Any] = {cache: memory.cache, "use_cache": True}
            if takes("attention_mask"):
                keywords["attention_mask"] = keep.long()
            if takes("position_ids"):
                keywords["position_ids"] = counted(keep)[:, -length:] + offset
            return memory.returned(model(input_ids=piece.inputs, **keywords), cache)

        return step

    return session


def translating(model: Any, reading: Reading) -> Step:
    """A session of an encoder-decoder: the source is encoded once."""
    memory, mask = Memory(), {}
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


def apart_by_positions(reading: Reading) -> dict[str, Any]:
    """Texts in one row by positions that start again, which counts only without a mask and without a cache.

    Padding has position 0 each, and so every one of it is a text of its own.
    """
    return {"position_ids": within(reading), "attention_mask": None, "use_cache": False}


def apart_by_mask(reading: Reading, *, additive: bool, causal: bool = False) -> dict[str, Any]:
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
