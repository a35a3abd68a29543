"""A model's tensors under the names that files have for them.

Queries, keys and values of an attention layer are one parameter of a model and three tensors of a file. Their parts are
views: whoever reads them reads the parameter, and whoever writes into them writes it.

>>> from headway.models import on_meta
>>> from headway.presets.gpt2 import gpt2
>>> tiny = on_meta(gpt2(width=6, layers=1, heads=2, vocabulary=5, length=3))
>>> [(name, tuple(part.shape)) for name, part in parts_of(tiny).items()][2:6:2]
[('stack.blocks.0.attention.query.weight', (6, 6)), ('stack.blocks.0.attention.value.weight', (6, 6))]
"""

from collections.abc import Mapping

from torch import Tensor, nn

from headway.models.seq2seq import Seq2Seq
from headway.nn.attention import Attention

# Of an encoder-decoder's stacks: the names that their biases had when the model held them.
RENAMED = {"encoder.bias.weight": "source_bias.weight", "decoder.bias.weight": "target_bias.weight"}


def parts_of(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, and every buffer that is saved, by the names of files; parts of one are views of it."""
    names, saved = part_names(model), model.state_dict(keep_vars=True)
    buffers = ((name, buffer) for name, buffer in model.named_buffers() if name in saved)
    return {
        part: rows
        for name, tensor in (*buffers, *model.named_parameters())
        for part, rows in split(tensor.detach(), names[name]).items()
    }


def part_names(model: nn.Module) -> dict[str, dict[str, int]]:
    """For every parameter and buffer the names of its parts in files, with the rows of each; 0: all of them."""
    layers = {name: part for name, part in model.named_modules() if isinstance(part, Attention)}
    renamed = RENAMED if isinstance(model, Seq2Seq) else {}
    own = (*model.named_parameters(), *model.named_buffers())
    return {name: _parts(renamed.get(name, name), layers) for name, _ in own}


def _parts(name: str, layers: dict[str, Attention]) -> dict[str, int]:
    rest, _, kind = name.rpartition(".")
    place, _, joined = rest.rpartition(".")
    layer = layers.get(place)
    if layer is None or joined not in ("qkv", "key_value"):
        return {name: 0}
    names, sizes = ("query", "key", "value"), layer.columns
    if joined == "key_value":
        names, sizes = names[1:], sizes[1:]
    return {f"{place}.{part}.{kind}".removeprefix("."): rows for part, rows in zip(names, sizes, strict=True)}


def split(tensor: Tensor, parts: Mapping[str, int]) -> dict[str, Tensor]:
    """The parts of a tensor as views of it."""
    if len(parts) == 1:
        return dict.fromkeys(parts, tensor)
    return dict(zip(parts, tensor.split(list(parts.values())), strict=True))
