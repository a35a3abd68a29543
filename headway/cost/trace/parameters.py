"""Parameters of any module: by kind and by module, tied ones once."""

from dataclasses import dataclass

from torch import nn

KINDS = ("weights", "biases", "embeddings", "norms")
_TABLES = ("embed", "position", "cls_token", "class_token", "mask_token", "latents")


@dataclass(frozen=True)
class Parameters:
    """Entries by kind (weights, biases, embeddings, norms) and by module; tied: a name -> the name it is counted by."""

    kinds: dict[str, int]
    modules: dict[str, int]
    tied: dict[str, str]

    @property
    def total(self) -> int:
        return sum(self.kinds.values())


def parameters_of(module: nn.Module) -> Parameters:
    """Every parameter once, under the first name it is met by.

    >>> parameters_of(nn.Sequential(nn.Embedding(7, 3), nn.LayerNorm(3), nn.Linear(3, 5))).kinds
    {'weights': 15, 'biases': 5, 'embeddings': 21, 'norms': 6}
    """
    kinds: dict[str, int] = dict.fromkeys(KINDS, 0)
    modules: dict[str, int] = {}
    names: dict[int, str] = {}
    tied: dict[str, str] = {}
    for path, inner in module.named_modules():
        for key, parameter in inner.named_parameters(recurse=False, remove_duplicate=False):
            name = f"{path}.{key}" if path else key
            if id(parameter) in names:
                tied[name] = names[id(parameter)]
                continue
            names[id(parameter)] = name
            kinds[kind_of(inner, key, parameter.dim())] += parameter.numel()
            modules[path] = modules.get(path, 0) + parameter.numel()
    return Parameters(kinds, modules, tied)


def kind_of(module: nn.Module, name: str, axes: int) -> str:
    """By the module's class, then by the parameter's own name."""
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return "embeddings"
    if "norm" in type(module).__name__.lower():
        return "norms"
    if is_bias(name):
        return "biases"
    return "embeddings" if axes > 1 and any(word in name.lower() for word in _TABLES) else "weights"


def is_bias(name: str) -> bool:
    """Whether a parameter is called a bias: bias, in_proj_bias, bias_hh_l0."""
    return "bias" in name.rpartition(".")[2]
