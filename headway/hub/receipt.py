"""What a load found: every tensor accounted for."""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headway.hub.parts import parts_of

BLOCK = 2**20  # bytes copied at a time, where a tensor has to be copied to be hashed


@dataclass(frozen=True)
class Receipt:
    """Of one load; `hash` is of the weights as stored, by our names, whatever the layout and the sharding; "" of
    weights that were not read from a file."""

    path: str
    family: str
    expected: int
    found: int
    tied: tuple[str, ...]
    unused: tuple[str, ...]
    missing: tuple[str, ...]
    parameters: int
    dtype: str
    hash: str
    generation_settings: tuple[
        str, ...
    ] = ()  # settings of decoding that the directory suggests: whoever decodes sets them, or not

    def __str__(self) -> str:
        """One line.

        >>> print(Receipt("m", "gpt2", 3, 3, ("lm_head.weight",), (), (), 12, "float32", "ab" * 32))
        m: gpt2, 12 parameters in float32; tensors: 3 expected, 3 found, 1 tied, 0 unused, 0 missing; hash abababababab
        """
        if not self.hash:
            return f"{self.path}: {self.family}, {self.parameters:,} parameters in {self.dtype}, not read from a file"
        return (
            f"{self.path}: {self.family}, {self.parameters:,} parameters in {self.dtype}; tensors: {self.expected} "
            f"expected, {self.found} found, {len(self.tied)} tied, {len(self.unused)} unused, {len(self.missing)} "
            f"missing; hash {self.hash[:12]}"
            + (
                f"; suggested for decoding, not followed: {', '.join(self.generation_settings)}"
                if self.generation_settings
                else ""
            )
        )


class Hasher:
    """The hash of a set of tensors, taken one by one in any order."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def add(self, name: str, tensor: Tensor) -> None:
        head = f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode()
        digest = hashlib.sha256(head)
        # In blocks: a tensor that lies the other way round in its file is never copied as a whole.
        rows = max(1, BLOCK * len(tensor) // max(1, tensor.nbytes)) if tensor.ndim else 1
        for block in [tensor] if tensor.is_contiguous() else tensor.split(rows):
            digest.update(block.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        self._digests[name] = digest.hexdigest()

    def hexdigest(self) -> str:
        lines = "\n".join(f"{name} {self._digests[name]}" for name in sorted(self._digests))
        return hashlib.sha256(lines.encode()).hexdigest()


def hash_of(model: nn.Module) -> str:
    """The hash of a model's weights: what a receipt says after it was saved and loaded."""
    hasher = Hasher()
    for name, part in parts_of(model).items():
        hasher.add(name, part)
    return hasher.hexdigest()
