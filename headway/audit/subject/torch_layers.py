"""torch's own layers: nn.TransformerEncoder, nn.TransformerDecoder and their layers, nn.MultiheadAttention, nn.LSTM."""

from typing import Any

import torch
from torch import Tensor, nn

from headway.audit.subject.adapter import Adapter, Step
from headway.audit.subject.reading import Reading

MEMORY = 3  # vectors that stand for what an encoder gave

ENCODERS = (nn.TransformerEncoder, nn.TransformerEncoderLayer)
DECODERS = (nn.TransformerDecoder, nn.TransformerDecoderLayer)
NOTE = "What it reads besides is one fixed source of 3 vectors; its triangle of a mask is given with every call."


def torch_layer(model: nn.Module) -> Adapter | None:
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
