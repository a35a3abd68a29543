"""Inputs for a module that nobody described: guessed from what it is made of, or given as a shape in words.

tokens            B L whole numbers        tokens:2,64
vectors:B,L,D     floating point numbers
images:B,C,Y,X    floating point numbers
"""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from headway.config import Extent
from headway.config.model import ModelConfig

Inputs = tuple[tuple[Any, ...], dict[str, Any]]
IMAGE = 224  # pixels a side, where nothing says


def inputs_for(
    module: nn.Module,
    batch: int,
    length: int,
    source: int | None = None,
    *,
    shape: str | None = None,
    image: Extent | None = None,
) -> Inputs:
    """(inputs, keywords) on the meta device: as asked, as its configuration says, or as its first layer takes them.

    >>> [tuple(one.shape) for one in inputs_for(nn.Sequential(nn.Embedding(11, 3)), 2, 5)[0]]
    [(2, 5)]
    """
    if min(batch, length, 1 if source is None else source) < 1:
        raise ValueError(f"a batch of {batch} with length {length} and source {source} cannot exist: sizes start at 1")
    if image is not None:
        return _pictured(module, inputs_for(module, batch, length, source, shape=shape), image)
    if shape is not None:
        return tuple(described(one, batch, length) for one in shape.split("+")), {}
    if isinstance(module, nn.Transformer | nn.MultiheadAttention):
        return _of_torch(module, batch, length, source or length), {}
    config = getattr(module, "config", None)
    found = None
    if type(module).__module__.startswith("headway."):
        found = _own(config, batch, length, source)
    elif getattr(module, "main_input_name", None) is not None and config is not None:
        found = _configured(module, config, batch, length, source)
    return found or _by_layers(module, batch, length)


def _pictured(module: nn.Module, found: Inputs, image: Extent) -> Inputs:
    """The same inputs, their images of another size."""
    size = _square(image)
    if min(size) < 1:
        raise ValueError(f"an image has at least one pixel a side, not {image}")

    def other(tensor: Tensor) -> Tensor:
        return _floats(*tensor.shape[:2], *size) if tensor.dim() == 4 else tensor

    given, keywords = tuple(map(other, found[0])), {name: other(one) for name, one in found[1].items()}
    if all(one.dim() != 4 for one in (*given, *keywords.values())):
        raise ValueError(f"{type(module).__name__} reads no images: leave the size of an image out")
    return given, keywords


def described(shape: str, batch: int, length: int) -> Tensor:
    """A shape in words: "tokens", "tokens:2,64", "vectors:2,64,8", "images:2,3,32,32"."""
    kind, _, numbers = shape.partition(":")
    try:
        sizes = [int(number) for number in numbers.split(",")] if numbers else []
    except ValueError:
        sizes = [0]
    wanted = {"tokens": 2, "vectors": 3, "images": 4}.get(kind)
    if kind == "tokens" and not sizes:
        sizes = [batch, length]
    if wanted is None or len(sizes) != wanted or min(sizes) < 1:
        raise ValueError(f"{shape!r} is no shape; there are tokens, tokens:B,L, vectors:B,L,D and images:B,C,Y,X")
    return _tokens(*sizes) if kind == "tokens" else _floats(*sizes)


def _own(config: Any, batch: int, length: int, source: int | None) -> Inputs | None:
    """A model of headway: its kind says what it reads."""
    if not isinstance(config, ModelConfig):
        return None
    reads, size = config.reads, cast(Any, config)
    if reads == "source":
        return (_tokens(batch, source or length), _tokens(batch, length)), {}
    if reads == "images and tokens":
        pictures = _floats(batch, size.vision.channels, *_square(size.vision.image))
        return (pictures, _tokens(batch, length)), {}
    if reads == "images":
        return (_floats(batch, size.channels, *_square(size.image)),), {}
    return ((_tokens(batch, length),), {}) if reads == "tokens" else ((_floats(batch, length, size.width),), {})


def _configured(module: nn.Module, config: Any, batch: int, length: int, source: int | None) -> Inputs | None:
    """A model of transformers, told by its configuration and by the name of its main input."""
    name = str(getattr(module, "main_input_name", ""))
    if name not in MAIN:
        return None
    both = bool(getattr(config, "is_encoder_decoder", False))
    keywords = {name: MAIN[name](config, batch, (source or length) if both else length)}
    if both:
        keywords["decoder_input_ids"] = _tokens(batch, length)
    vision = getattr(config, "vision_config", None)
    if name == "input_ids" and vision is not None and getattr(config, "text_config", None) is not None:
        keywords["pixel_values"] = _pixels(vision, batch, length)
    return (), keywords


def _pixels(config: Any, batch: int, length: int) -> Tensor:
    side = _square(getattr(config, "image_size", None) or IMAGE)
    return _floats(batch, getattr(config, "num_channels", 3), *side)


def _spectrum(config: Any, batch: int, length: int) -> Tensor:
    """Speech as frames: an encoder of fixed length takes two frames for each of its positions."""
    return _floats(batch, getattr(config, "num_mel_bins", 80), 2 * getattr(config, "max_source_positions", length))


# name of a main input -> how it is made
MAIN: dict[str, Callable[[Any, int, int], Tensor]] = {
    "input_ids": lambda config, batch, length: _tokens(batch, length),
    "pixel_values": _pixels,
    "input_features": _spectrum,
    "input_values": lambda config, batch, length: _floats(batch, length),
}


def _by_layers(module: nn.Module, batch: int, length: int) -> Inputs:
    """The first embedding takes tokens, the first convolution images, the first linear map or norm vectors."""
    for kind, made in FIRST:
        for inner in module.modules():
            if isinstance(inner, kind):
                return (made(inner, batch, length),), {}
    raise ValueError(
        f"cannot tell what {type(module).__name__} reads: it has no configuration with a main input, no embedding, no "
        "convolution, no linear map; say it: tokens, vectors:B,L,D or images:B,C,Y,X"
    )


def _tokens(*sizes: int) -> Tensor:
    return torch.empty(sizes, dtype=torch.long, device="meta")


def _floats(*sizes: int) -> Tensor:
    return torch.empty(sizes, dtype=torch.get_default_dtype(), device="meta")


def _square(size: Any) -> tuple[int, int]:
    return (int(size), int(size)) if isinstance(size, int) else (int(size[0]), int(size[1]))


# kind of layer -> the input it takes, in the order of looking
FIRST: tuple[tuple[Any, Any], ...] = (
    (nn.Embedding, lambda layer, batch, length: _tokens(batch, length)),
    (nn.Conv2d, lambda layer, batch, length: _floats(batch, layer.in_channels, IMAGE, IMAGE)),
    (nn.Conv1d, lambda layer, batch, length: _floats(batch, layer.in_channels, length)),
    (nn.TransformerEncoderLayer, lambda layer, batch, length: _sequence(layer, batch, length)),
    (nn.MultiheadAttention, lambda layer, batch, length: _floats(batch, length, layer.embed_dim)),
    (nn.RNNBase, lambda layer, batch, length: _ordered(layer.batch_first, batch, length, layer.input_size)),
    (nn.Linear, lambda layer, batch, length: _floats(batch, length, layer.in_features)),
)


def _of_torch(module: nn.Transformer | nn.MultiheadAttention, batch: int, length: int, source: int) -> tuple[Any, ...]:
    """A source and a target; or queries, keys and values."""
    if isinstance(module, nn.Transformer):
        return tuple(_ordered(module.batch_first, batch, size, module.d_model) for size in (source, length))
    sizes = (length, module.embed_dim), (source, module.kdim), (source, module.vdim)
    return tuple(_ordered(module.batch_first, batch, size, width) for size, width in sizes)


def _sequence(layer: nn.TransformerEncoderLayer, batch: int, length: int) -> Tensor:
    return _ordered(layer.self_attn.batch_first, batch, length, layer.self_attn.embed_dim)


def _ordered(batch_first: bool, batch: int, length: int, width: int) -> Tensor:
    return _floats(*((batch, length) if batch_first else (length, batch)), width)
