"""Models of x-transformers and sentence-transformers, by their manners: neither is imported."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.adapt.adapter import Adapter, Reading, Step, real_positions
from headway.adapt.signature import Signature, size
from headway.adapt.transformers import first_position, within
from headway.adapt.trial import works


def library_adapter(model: nn.Module) -> Adapter | None:
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
    return {} if keep is None else {"mask": keep, "pos": real_positions(keep)}


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
        places = {"position_ids": real_positions(keep) + first} if placed else {}
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


MEMORY = 3  # vectors that stand for what an encoder gave

ENCODERS = (nn.TransformerEncoder, nn.TransformerEncoderLayer)
DECODERS = (nn.TransformerDecoder, nn.TransformerDecoderLayer)
NOTE = "What it reads besides is one fixed source of 3 vectors; its triangle of a mask is given with every call."


def torch_layer_adapter(model: nn.Module) -> Adapter | None:
    """The adapter of one of torch's layers; None of anything else."""
    if isinstance(model, nn.RNNBase):
        return _recurrent(model)
    attention = next((one for one in model.modules() if isinstance(one, nn.MultiheadAttention)), None)
    if attention is None:
        return None
    common: dict[str, Any] = {
        "inputs": "vectors",
        "width": attention.embed_dim,
        "takes": frozenset({"keep", "segments"}),
    }
    if isinstance(model, nn.MultiheadAttention):
        return Adapter(**common, causal=False, equivariant=True, call=_attended)
    if isinstance(model, ENCODERS):
        return Adapter(**common, causal=False, equivariant=True, call=_encoded)
    if isinstance(model, DECODERS):
        return Adapter(**common, causal=True, call=_decoded, notes=(NOTE,))
    return (
        Adapter(**common, causal=True, call=_translated, notes=(NOTE,)) if isinstance(model, nn.Transformer) else None
    )


def _recurrent(model: nn.RNNBase) -> Adapter:
    """nn.RNN, nn.LSTM, nn.GRU: their state is their cache; from both ends they have none."""

    def session(module: nn.Module, _: Reading) -> Step:
        state: list[Any] = [None]

        def step(piece: Reading) -> Tensor:
            out, state[0] = module(_turned(module, piece.inputs), state[0])
            return _turned(module, out)

        return step

    def call(module: nn.Module, reading: Reading) -> Tensor:
        return _turned(module, module(_turned(module, reading.inputs))[0])

    one_way = not model.bidirectional
    return Adapter(
        inputs="vectors", width=model.input_size, causal=one_way, call=call, session=session if one_way else None
    )


def batch_first(model: nn.Module) -> bool:
    """Which way round: B L D, or torch's L B D."""
    kinds = nn.MultiheadAttention | nn.RNNBase
    return all(one.batch_first for one in model.modules() if isinstance(one, kinds))


def _turned(model: nn.Module, x: Tensor) -> Tensor:
    """From B L D to the model's own order, or back."""
    return x if batch_first(model) else x.transpose(0, 1)


def _hidden(reading: Reading) -> Tensor | None:
    return None if reading.keep is None else ~reading.keep


def _heads(model: nn.Module) -> int:
    return next(one.num_heads for one in model.modules() if isinstance(one, nn.MultiheadAttention))


def _pairs(model: nn.Module, reading: Reading, *, causal: bool = False) -> Tensor | None:
    """True where a pair may not see each other, B·H L L as torch wants it; None where all may."""
    length = reading.inputs.shape[1]
    later = torch.ones(length, length, dtype=torch.bool, device=reading.inputs.device).triu(1) if causal else None
    if reading.segments is None:
        return later
    apart = reading.segments[:, :, None] != reading.segments[:, None, :]
    return (apart if later is None else apart | later).repeat_interleave(_heads(model), 0)


def _attended(model: nn.Module, reading: Reading) -> Tensor:
    x = _turned(model, reading.inputs)
    out, _ = model(x, x, x, key_padding_mask=_hidden(reading), attn_mask=_pairs(model, reading), need_weights=False)
    return _turned(model, out)


def _encoded(model: nn.Module, reading: Reading) -> Tensor:
    name = "mask" if isinstance(model, nn.TransformerEncoder) else "src_mask"
    masks = {name: _pairs(model, reading), "src_key_padding_mask": _hidden(reading)}
    return _turned(model, model(_turned(model, reading.inputs), **masks))


def _fixed(model: nn.Module, x: Tensor) -> Tensor:
    """The same few vectors for every item."""
    draw = torch.Generator().manual_seed(0)
    memory = torch.randn(1, MEMORY, x.shape[-1], generator=draw, dtype=torch.float64).to(x)
    return _turned(model, memory.expand(len(x), -1, -1))


def _decoded(model: nn.Module, reading: Reading) -> Tensor:
    masks = {"tgt_mask": _pairs(model, reading, causal=True), "tgt_key_padding_mask": _hidden(reading)}
    out = model(_turned(model, reading.inputs), _fixed(model, reading.inputs), **masks)
    return _turned(model, out)


def _translated(model: nn.Module, reading: Reading) -> Tensor:
    masks = {"tgt_mask": _pairs(model, reading, causal=True), "tgt_key_padding_mask": _hidden(reading)}
    out = model(_fixed(model, reading.inputs), _turned(model, reading.inputs), **masks)
    return _turned(model, out)
