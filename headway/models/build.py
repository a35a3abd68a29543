"""Models: compositions of layers. `build` makes one from its configuration, with random weights or on meta.

>>> from headway.presets import preset
>>> count(preset("gpt2"))
124439808
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor, nn

from headway.config import Frozen
from headway.config.kinds import CONFIGS
from headway.config.model import ModelConfig
from headway.config.size_limits import check_room
from headway.config.text import ModuleConfig
from headway.models.model import Model, parameters
from headway.models.own_module import draw
from headway.models.quantize import quantize_model, store_quantized, weight_bytes
from headway.nn.block import Stack
from headway.nn.init import initialise
from headway.presets import preset
from headway.presets.options import resize

if TYPE_CHECKING:
    from headway.config import LanguageConfig, MaskedConfig, SentenceConfig, Seq2SeqConfig, VisionConfig
    from headway.config.text import RecurrentConfig
    from headway.config.vision import DaViTConfig
    from headway.models.davit import DaViT
    from headway.models.encoder import Masked
    from headway.models.language import Language
    from headway.models.recurrent import Recurrent
    from headway.models.sentence import SentenceEncoder
    from headway.models.seq2seq import Seq2Seq
    from headway.models.vit import Vision


def make(config: Frozen) -> Any:
    """The model of a configuration, with torch's own first values (none at all under the meta device)."""
    if not isinstance(config, ModelConfig):
        raise ValueError(f"{config.kind_or_name()} configures no model; there are {', '.join(CONFIGS)}")
    module, _, name = config.module.partition(":")
    model = getattr(import_module(module), name)(config)
    if config.weights is not None:
        store_quantized(model, config.weights)
    return model


def on_meta(config: Frozen) -> Any:
    """The model without any memory: shapes and names only."""
    try:
        with torch.device("meta"):
            return make(config)
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise
        raise ValueError(
            "a tensor of this model would have more bytes than can be counted: its sizes are wrong"
        ) from None


def count(config: Frozen) -> int:
    """How many parameters the model has, shared ones once; nothing is allocated."""
    return parameters(on_meta(config))


@overload
def build(target: "LanguageConfig", **options: Any) -> "Language": ...
@overload
def build(target: "MaskedConfig", **options: Any) -> "Masked": ...
@overload
def build(target: "SentenceConfig", **options: Any) -> "SentenceEncoder": ...
@overload
def build(target: "Seq2SeqConfig", **options: Any) -> "Seq2Seq": ...
@overload
def build(target: "VisionConfig", **options: Any) -> "Vision": ...
@overload
def build(target: "DaViTConfig", **options: Any) -> "DaViT": ...
@overload
def build(target: "RecurrentConfig", **options: Any) -> "Recurrent": ...
@overload
def build(
    target: "Frozen | str", *, seed: int = 0, dtype: torch.dtype = torch.float32, std: float = 0.02, **options: Any
) -> "Model": ...
def build(
    target: Frozen | str, *, seed: int = 0, dtype: torch.dtype = torch.float32, std: float = 0.02, **options: Any
) -> Model:
    """A model with random weights, the same for the same seed, in training mode as torch's own layers are.

    The target is a configuration, or the name of a preset; options change its sizes by the names that people use, and
    choose another attention: `build("gpt2", layers=6, width=384, heads=6, attention="local", window=64)`.

    >>> build("gpt2", layers=2, width=12, heads=3, vocabulary=65, length=16).stack.blocks[0].feedforward.up.out_features
    48
    """
    if not isinstance(target, Frozen | str):
        raise ValueError(
            f"a model is built from its configuration or the name of a preset, not a {type(target).__name__}"
        )
    config = preset(target) if isinstance(target, str) else target
    config = resize(config, **options) if options else config
    if isinstance(config, ModuleConfig):
        return draw(config, seed=seed, dtype=dtype)
    if isinstance(config, ModelConfig) and config.weights is not None:
        whole = build(config.replace(weights=None), seed=seed, dtype=dtype, std=std)
        return quantize_model(whole, config.weights)
    model = with_room(on_meta(config), dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        # Whatever `initialise` has no rule for (tables of positions, class tokens) keeps this draw. What it has one for
        # is drawn again, so that the weights of a seed stay those of earlier versions.
        for parameter in model.parameters():
            parameter.normal_(0.0, std, generator=generator)
    initialise(model, std=std, generator=generator)
    for part in model.modules():
        if isinstance(part, Stack):
            scale_residuals(part)
    return model


@torch.no_grad()
def scale_residuals(stack: Stack) -> None:
    """The last map of each residual branch, less by √(branches · layers), where the stack is to start so (GPT-2)."""
    if not stack.config.scaled_init:
        return
    branches = sum(2 if c.cross is None else 3 for c in stack.config.blocks)
    for name, weight in stack.named_parameters():
        if name.endswith(("out.weight", "down.weight")):
            weight.mul_(branches**-0.5)


def with_room(model: nn.Module, dtype: torch.dtype) -> Any:
    """A model of the meta device, with memory to write its weights into; refused where the machine has too little."""
    entries = weight_bytes(model, dtype.itemsize) // dtype.itemsize
    check_room(entries, dtype.itemsize, f"the model in {str(dtype).removeprefix('torch.')}", "parameters")

    def made(x: Tensor) -> Tensor:
        kind = dtype if x.is_floating_point() else x.dtype
        return torch.empty(x.shape, dtype=kind) if x.is_meta else x.to(kind)  # a user's module has its memory already

    # torch's own `to_empty` imports its compiler and sympy for it, which takes two seconds.
    return model._apply(made)
