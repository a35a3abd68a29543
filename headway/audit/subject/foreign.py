"""Models of x-transformers and sentence-transformers, by their manners: neither is imported."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.audit.subject.adapter import Adapter, Step
from headway.audit.subject.pretrained import first_position
from headway.audit.subject.reading import Reading, counted
from headway.audit.subject.sessions import within
from headway.audit.subject.signature import Signature, size
from headway.audit.subject.trial import works


def foreign(model: nn.Module) -> Adapter | None:
    """The adapter of a model of one of these libraries; None of anything else."""
    library = type(model).__module__.split(".")[0]
    makers = X_TRANSFORMERS if library == "x_transformers" else SENTENCES if library == "sentence_transformers" else {}
    make = next((makers[one.__name__] for one in type(model).__mro__ if one.__name__ in makers), None)
    return None if make is None else make(model)


def _tokens(model: Any) -> Adapter:
    """TransformerWrapper: tokens in, logits out."""
    found = Adapter(vocabulary=model.num_tokens, longest=_longest(model), **_layers(model.attn_layers, wrapped=True))
    return _placed(model, found)


def _vectors(model: Any) -> Adapter:
    """ContinuousTransformerWrapper: vectors in, vectors out."""
    width = size(getattr(model, "project_in", None), "in_features") or size(model.attn_layers, "dim")
    layers = _layers(model.attn_layers, wrapped=False)
    return _placed(model, Adapter(inputs="vectors", width=width, longest=_longest(model), **layers))


def _bare(model: Any) -> Adapter:
    """Encoder and Decoder without a wrapper."""
    return _placed(model, Adapter(inputs="vectors", width=size(model, "dim"), **_layers(model, wrapped=False)))


def _layers(layers: Any, *, wrapped: bool) -> dict[str, Any]:
    causal = bool(layers.causal)
    cached = wrapped and causal and getattr(layers, "can_cache_kv", False)
    return {
        "causal": causal, "mask": "mask", "mask_type": "bool", "segments": _apart,
        "session": _session if cached else None, "shifts": True if getattr(layers, "rotary_pos_emb", None) else None,
    }  # fmt: skip


def _placed(model: nn.Module, found: Adapter) -> Adapter:
    """The same with positions, which some of its biases refuse."""
    tried = replace(found, positions="pos", segments=_apart_placed)
    return tried if works(model, tried, positions=torch.arange(5).repeat(2, 1)) else found


def _longest(model: Any) -> int | None:
    return size(model, "max_seq_len")


def _apart(reading: Reading) -> dict[str, Any]:
    """Texts in one row: a mask of all pairs, True = may attend."""
    assert reading.segments is not None
    return {"attn_mask": (reading.segments[:, :, None] == reading.segments[:, None, :])[:, None]}


def _apart_placed(reading: Reading) -> dict[str, Any]:
    return {**_apart(reading), "pos": within(reading)}


def _session(model: nn.Module, reading: Reading) -> Step:
    """Pieces with the cache of the piece before; padding on the left is told by where each row begins."""
    memory: dict[str, Any] = {"cache": None, "starts": None}

    def step(piece: Reading) -> Tensor:
        if memory["cache"] is None and piece.keep is not None:
            memory["starts"] = piece.keep.long().argmax(1)
        out, memory["cache"] = model(
            piece.inputs, cache=memory["cache"], return_intermediates=True, input_not_include_cache=True,
            # Without it only the last token of a piece is read.
            cache_age=piece.inputs.shape[1], seq_start_pos=memory["starts"],
        )  # fmt: skip
        return out

    return step


def _pictures(model: Any) -> Adapter:
    patch, table = size(model, "patch_size"), model.pos_embedding
    side = round(table.shape[1] ** 0.5) * (patch or 1)
    first = next(one for one in model.modules() if isinstance(one, nn.LayerNorm | nn.Linear))
    wide = first.normalized_shape[0] if isinstance(first, nn.LayerNorm) else first.in_features
    return Adapter(inputs="images", image=(wide // (patch or 1) ** 2, side, side))


def _translator(model: Any) -> Adapter:
    """XTransformer: its forward gives a loss, so its encoder and its decoder are called one after the other."""

    def call(module: Any, reading: Reading) -> Tensor:
        encoded = module.encoder(reading.source, **_kept(reading.source_keep), return_embeddings=True)
        kept = _kept(reading.keep)
        return module.decoder.net(reading.inputs, context=encoded, context_mask=reading.source_keep, **kept)

    return Adapter(
        vocabulary=model.decoder.net.num_tokens, source_vocabulary=model.encoder.num_tokens, causal=True, call=call,
        longest=min(_longest(model.decoder.net) or 0, _longest(model.encoder) or 0) or None,
        takes=frozenset({"keep", "source"}),
    )  # fmt: skip


def _kept(keep: Tensor | None) -> dict[str, Tensor]:
    return {} if keep is None else {"mask": keep, "pos": counted(keep)}


def _trained(model: Any) -> Adapter:
    """A wrapper whose forward gives a loss: what it wraps is called."""
    kind = type(model).__name__
    raise ValueError(f"{kind} gives a loss, not results: examine what it wraps ({kind.lower()}.net)")


def _sentence(model: Any) -> Adapter:
    """SentenceTransformer: a dict of tensors in, and one vector a text out."""
    known = [one for one in model.modules() if size(getattr(one, "config", None), "vocab_size")]
    inner: Any = next((one for one in known if Signature(one).has("input_ids")), known[0] if known else None)
    if inner is None:
        raise ValueError("nothing in this SentenceTransformer says how many tokens it knows: give an Adapter")
    placed, first = Signature(inner).has("position_ids"), first_position(inner)

    def call(module: nn.Module, reading: Reading) -> Any:
        keep = torch.ones_like(reading.inputs, dtype=torch.bool) if reading.keep is None else reading.keep
        places = {"position_ids": counted(keep) + first} if placed else {}
        return module({"input_ids": reading.inputs, "attention_mask": keep.long(), **places})

    longest = size(inner.config, "max_position_embeddings")
    return Adapter(
        vocabulary=size(inner.config, "vocab_size"), longest=None if longest is None else longest - first, causal=False,
        call=call, takes=frozenset({"keep"}), output="sentence_embedding",
    )  # fmt: skip


Maker = Callable[[Any], Adapter]
SENTENCES: dict[str, Maker] = {"SentenceTransformer": _sentence}
X_TRANSFORMERS: dict[str, Maker] = {
    "TransformerWrapper": _tokens, "ContinuousTransformerWrapper": _vectors, "AttentionLayers": _bare,
    "ViTransformerWrapper": _pictures, "XTransformer": _translator, "AutoregressiveWrapper": _trained,
}  # fmt: skip
