"""A safetensors file written in one pass: the same bytes for the same tensors, on the disk when it returns.

The format is a header of names, dtypes, shapes and places in JSON, then the bytes. It is written here and not by its
library, since that orders the metadata by chance, refuses tensors that share memory, wants all of them copied first,
and does not hash what it writes.
"""

import json
import struct
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.data.publish import write_hashed

DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
ALIGNMENT = 64  # bytes of a vector: products of numbers that begin elsewhere differ in their last bits


def write(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A safetensors file, safely on the disk; returns its size and hash."""
    # Wide numbers first: then each tensor begins at a multiple of its own width, and can be mapped as it is. The format
    # has no gaps, so those whose bytes are no multiple of ALIGNMENT stand behind those that begin and end at one.
    ordered = sorted(tensors, key=lambda name: (_is_odd(tensors[name]), -tensors[name].element_size(), name))
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    place = 0
    for name in ordered:
        tensor, end = tensors[name], place + tensors[name].nbytes
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [place, end]}
        place = end
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    head = (struct.pack("<Q", len(text)), text)
    return write_hashed(path, chain(head, (_bytes(tensors[name]) for name in ordered)))  # copied one by one, if at all


def _is_odd(tensor: Tensor) -> bool:
    return tensor.nbytes % ALIGNMENT != 0


def _bytes(tensor: Tensor) -> Any:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
