"""The hash of a file's tensors that a load compares: BLAKE3 of each, in a list with names, dtypes and shapes.

A model's own hash (`hub.receipt`) is of its parameters under our names, by SHA-256, and says which model it is whatever
the layout. This one is of the bytes as they lie in the file, so that it can be taken while nothing is copied yet, by
all cores, ten times as fast. Both stand in the file; this one covers the other.
"""

import hashlib
from collections.abc import Mapping

from torch import Tensor

from headway.hub.safetensors_file import DTYPES
from headway.native.blake3 import Scan, TensorScan

CONTENT = "headway_blake3"  # where a file that we wrote says it


def content_hash(tensors: Mapping[str, Tensor], model: str) -> str:
    """Of tensors that are about to be written, with the hash of their model."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return joined_hash(Scan(whole).results(), whole, model)


def joined_hash(scans: Mapping[str, TensorScan], tensors: Mapping[str, Tensor], model: str) -> str:
    lines = [
        f"{name} {DTYPES[tensors[name].dtype]} {tuple(tensors[name].shape)} {scans[name].hash}"
        for name in sorted(tensors)
    ]
    return hashlib.sha256("\n".join((model, *lines)).encode()).hexdigest()
