"""A model whose linear maps are stored in fewer bits: those of attention and feed-forward, and the head of words.

Embeddings, norms, biases and heads of classes stay as they are.
"""

from collections.abc import Iterator
from typing import Any

from torch import nn

from headway.config.weights import HEAD, WeightsConfig, weights_config
from headway.models.language import Language
from headway.models.seq2seq import Seq2Seq
from headway.nn.attention import Attention
from headway.nn.block import FeedForward
from headway.nn.layers import Linear
from headway.nn.quantized import QuantizedLinear


def quantize_model(model: Any, weights: str | WeightsConfig) -> Any:
    """The same model, its maps stored as `weights` says ("int8", "int4"): in place, in eval mode.

    >>> from headway.models import build
    >>> tiny = build("gpt2", layers=1, width=32, heads=2, vocabulary=11, length=8)
    >>> quantize_model(tiny, "int4").stack.blocks[0].attention.qkv
    QuantizedLinear(in_features=32, out_features=96, bias=True, bits=4, group=32, minimum=True)
    """
    scheme = weights_config(weights)
    if model.config.weights is not None:
        raise ValueError(
            f"this model's weights are stored as {model.config.weights} already: take the one they were made from"
        )
    store_quantized(model, scheme)
    model.config = model.config.replace(weights=scheme)
    return model.eval()


def restore_floats(model: Any) -> Any:
    """The same model with weights in floating-point numbers, the values that the stored ones mean: in place.

    >>> from headway.models import build
    >>> tiny = build("gpt2", layers=1, width=32, heads=2, vocabulary=11, length=8)
    >>> restore_floats(quantize_model(tiny, "int8")).stack.blocks[0].attention.qkv
    Linear(in_features=32, out_features=96, bias=True)
    """
    dtype = next(model.parameters()).dtype
    for path, layer in [(path, one) for path, one in model.named_modules() if isinstance(one, QuantizedLinear)]:
        parent, _, own = path.rpartition(".")
        plain = None if layer.shared else Linear(layer.in_features, layer.out_features, bias=layer.bias is not None)
        if plain is not None:
            plain.weight = nn.Parameter(layer.dequantized(dtype=dtype))
            if layer.bias is not None:
                plain.bias = nn.Parameter(layer.bias.detach().to(dtype))
        setattr(model.get_submodule(parent), own, plain)
    model.config = model.config.replace(weights=None)
    return model


def store_quantized(model: nn.Module, weights: WeightsConfig) -> None:
    """Replace each map by one that stores it as `weights` says; on meta without numbers."""
    found = list(linear_maps(model))
    if not found:
        raise ValueError(f"a {type(model).__name__} has no attention or feed-forward whose weights could be quantised")
    names = {name for name, _, _, _ in found}
    if unknown := sorted({one.name for one in weights.layers} - names - {HEAD}):
        raise ValueError(f"weights.layers names {unknown[0]!r}, and the model has no such map")
    for name, parent, own, layer in found:
        scheme = weights.of(name, layer.in_features)
        if scheme is not None:
            setattr(parent, own, _stored(layer.weight, layer.bias, scheme, name))
    if isinstance(model, Language | Seq2Seq):
        _store_head(model, weights)


def linear_maps(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, Linear]]:
    """The maps of attention and feed-forward: the full name, the module that owns it, its name there, itself."""
    for path, part in model.named_modules():
        if isinstance(part, Attention | FeedForward):
            for own, layer in part.named_children():
                if isinstance(layer, Linear):
                    yield f"{path}.{own}".removeprefix("."), part, own, layer


def weight_bytes(model: nn.Module, itemsize: int = 4) -> int:
    """Bytes of all weights: quantised ones as they are stored, others with so many bytes each."""
    stored = [part for part in model.modules() if isinstance(part, QuantizedLinear)]
    whole = sum(part.scheme.bytes_of(part.out_features, part.in_features) for part in stored)
    return whole + itemsize * sum(parameter.numel() for parameter in model.parameters())


def _store_head(model: Language | Seq2Seq, weights: WeightsConfig) -> None:
    """A tied head becomes a copy of the embedding: a table is looked up in floating-point numbers."""
    tied = model.head is None
    weight = model.output_weight
    scheme = weights.of(HEAD, weight.shape[1])
    if scheme is not None:
        model.head = _stored(weight, None, scheme, HEAD)
        model.head.shared = tied


def _stored(weight: Any, bias: Any, scheme: Any, name: str) -> QuantizedLinear:
    try:
        return QuantizedLinear.of(weight, bias, scheme)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
