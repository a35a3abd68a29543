"""Models: compositions of layers. `make` builds one from its configuration, `fresh` gives it random weights.

>>> from headway.presets import preset
>>> count(preset("gpt2"))
124439808
"""

from importlib import import_module
from typing import Any

import torch
from torch import nn

from headway.config import Frozen
from headway.nn.attention import Attention
from headway.nn.init import initialise

# Kind of configuration -> the class that it configures; imported when it is first made.
KINDS = {
    "language": "headway.models.language:Language",
    "masked": "headway.models.masked:Masked",
    "sentence": "headway.models.sentence:SentenceEncoder",
    "seq2seq": "headway.models.seq2seq:Seq2Seq",
    "vision": "headway.models.vit:Vision",
    "davit": "headway.models.davit:DaViT",
    "recurrent": "headway.models.recurrent:Recurrent",
    "vectors": "headway.models.vectors:Vectors",
}


# Kind of configuration -> its class.
CONFIGS = {
    "language": "headway.config.language:LanguageConfig",
    "masked": "headway.config.masked:MaskedConfig",
    "sentence": "headway.config.sentence:SentenceConfig",
    "seq2seq": "headway.config.seq2seq:Seq2SeqConfig",
    "vision": "headway.config.vision:VisionConfig",
    "davit": "headway.config.vision:DaViTConfig",
    "recurrent": "headway.config.recurrent:RecurrentConfig",
    "vectors": "headway.config.vectors:VectorsConfig",
}


def config_class(kind: str) -> type[Frozen]:
    """The class of a configuration, by its kind."""
    return _find(CONFIGS[kind])


def _find(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def make(config: Frozen) -> Any:
    """The model of a configuration, with torch's own first values (none at all under the meta device)."""
    kind = config.kind_or_name()
    if kind not in KINDS:
        raise ValueError(f"{kind} configures no model; there are {', '.join(KINDS)}")
    return _find(KINDS[kind])(config)


def on_meta(config: Frozen) -> Any:
    """The model without any memory: shapes and names only."""
    with torch.device("meta"):
        return make(config)


def count(config: Frozen) -> int:
    """How many parameters the model has, shared ones once; nothing is allocated."""
    return parameters(on_meta(config))


def parameters(model: nn.Module) -> int:
    """How many parameters a model has; `Module.parameters` yields a shared one once."""
    return sum(parameter.numel() for parameter in model.parameters())


def fresh(config: Frozen, *, seed: int = 0, dtype: torch.dtype = torch.float32, std: float = 0.02) -> Any:
    """The model with random weights, the same for the same seed; ready for use, not trained."""
    model = with_room(on_meta(config), dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, std, generator=generator)
    initialise(model, std=std, generator=generator)
    return model.eval()


def with_room(model: nn.Module, dtype: torch.dtype) -> Any:
    """A model of the meta device, with memory to write its weights into, laid out for speed."""
    model = model.to(dtype).to_empty(device="cpu")
    for part in model.modules():
        if isinstance(part, Attention):
            part.lay_together()
    return model
