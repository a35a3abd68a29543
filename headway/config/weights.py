"""How the weights of linear maps are stored in fewer bits than floating-point numbers have.

>>> weights_config("int4").of("stack.blocks.0.attention.out", 576).bits
4
>>> weights_config("int4").of("stack.blocks.0.attention.out", 50).bits  # 50 inputs are no whole groups of 32
8
"""

from typing import Literal

from pydantic import model_validator

from headway.config.base import Frozen, Size, nearest

HEAD = "head"


class Scheme(Frozen):
    """Whole numbers q and a scale for each group of inputs of an output, or for all of them (group None).

    w = q · scale                8 bits, q from -128 to 127
    w = (q - 8) · scale          4 bits, q from 0 to 15
    w = q · scale + minimum      4 bits with a minimum
    """

    bits: Literal[8, 4]
    group: Size | None = None
    minimum: bool = False
    scale: Literal["float32", "float16"] = "float32"  # what scales and minimums are stored in

    @model_validator(mode="after")
    def _agree(self) -> "Scheme":
        if self.bits == 4 and (self.group is None or self.group % 2):
            raise ValueError(f"weights of 4 bits have groups of an even number of inputs, not {self.group}")
        if self.bits == 8 and self.minimum:
            raise ValueError("weights of 8 bits have no minimum")
        return self

    def fits(self, inputs: int) -> bool:
        """Whether so many inputs are whole groups."""
        return self.group is None or inputs % self.group == 0

    def bytes_of(self, outputs: int, inputs: int) -> int:
        """Of one matrix with its scales.

        >>> Scheme(bits=4, group=32, scale="float16").bytes_of(1, 32)
        18
        """
        groups = 1 if self.group is None else inputs // self.group
        each = (4 if self.scale == "float32" else 2) * (2 if self.minimum else 1)
        return outputs * (inputs * self.bits // 8 + groups * each)


INT8 = Scheme(bits=8)
INT4 = Scheme(bits=4, group=32, minimum=True, scale="float16")


class LayerScheme(Frozen):
    """The scheme of one map, by its name in the model; None: floating-point numbers."""

    name: str
    scheme: Scheme | None


class WeightsConfig(Frozen):
    """Which maps of a model are stored how: all those of attention and feed-forward by `scheme`, the head by `head`.

    Embeddings, norms and biases stay floating-point numbers. A tied head is a copy of the embedding with a scheme of
    its own. `layers` names maps that are stored otherwise.
    """

    scheme: Scheme | None
    head: Scheme | None = None
    layers: tuple[LayerScheme, ...] = ()

    def of(self, name: str, inputs: int) -> Scheme | None:
        """The scheme of the map with this name; 8 bits where its inputs are no whole groups."""
        usual = self.head if name == HEAD else self.scheme
        found = next((one.scheme for one in self.layers if one.name == name), usual)
        return found if found is None or found.fits(inputs) else INT8

    def __str__(self) -> str:
        return "float" if self.scheme is None else f"int{self.scheme.bits}"


WEIGHTS = {"int8": WeightsConfig(scheme=INT8, head=INT8), "int4": WeightsConfig(scheme=INT4, head=INT8)}


def weights_config(name: "str | WeightsConfig") -> WeightsConfig:
    """What a user means by int8 or int4.

    >>> weights_config("int16")
    Traceback (most recent call last):
    ValueError: weights are stored as int8 or int4, not 'int16' (did you mean int8?)
    """
    if isinstance(name, WeightsConfig):
        return name
    if name not in WEIGHTS:
        raise ValueError(f"weights are stored as {' or '.join(WEIGHTS)}, not {name!r}{nearest(name, WEIGHTS)}")
    return WEIGHTS[name]
